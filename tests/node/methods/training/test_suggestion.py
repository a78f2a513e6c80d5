"""``terms.toml`` in a task's folder: read as strictly as terms, and given in the form of their tables."""

import pytest

from fedgrove.node.base.strict_tables import InvalidConfig, build
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.training.suggestion import SuggestedTerms, suggested_by
from fedgrove.node.tasks.names import InvalidBundle


@pytest.fixture
def suggested(tmp_path):
    """What a folder with this text suggests."""

    def of(text):
        (tmp_path / "terms.toml").write_text(text)
        return suggested_by(tmp_path)

    return of


def test_a_folder_without_the_file_suggests_the_defaults(tmp_path):
    assert suggested_by(tmp_path) == SuggestedTerms()


def test_the_file_gives_task_training_and_bound(suggested):
    text = "bound = 16\n[task]\nkeep = ['norm.*']\noptions = { hidden = 9, deep = true }\n[training]\nepochs = 3\n"
    found = suggested(text)
    assert found == SuggestedTerms(
        TaskSettings(keep=("norm.*",), options={"hidden": 9, "deep": True}), TrainingSettings(epochs=3), 16.0
    )
    tables = found.to_tables()
    assert build(TaskSettings, tables["task"], "task") == found.task
    assert build(TrainingSettings, tables["training"], "training") == found.training
    assert tables["masking"] == {"bound": 16.0}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("bound = ", "terms.toml: "),
        (
            f"[task]\nbundle = 'b{50 * 'a'}'",
            r"terms.toml: task.bundle must be left out: `fedgrove task pack` says it",
        ),
        ("[training]\nepochs = 0", "terms.toml: training.epochs must be"),
        ("[task.options]\nborn = 1970-01-01", "terms.toml: task.options.born must be text, a number, true or false"),
        ("[task]\nname = 'mine'", "terms.toml: task.name must be one of images, network, tabular"),
        ("[task]\nname = 'tabular'", "terms.toml: task.options.columns is missing"),
    ],
)
def test_a_mistake_names_the_file_and_the_key(text, sentence, suggested):
    with pytest.raises(InvalidConfig, match=sentence):
        suggested(text)


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "outside.toml").write_text("bound = 4.0")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "terms.toml").symlink_to(tmp_path / "outside.toml")
    with pytest.raises(InvalidBundle, match="is a link or no regular file"):
        suggested_by(tmp_path / "folder")
