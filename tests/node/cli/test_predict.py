"""From three CSV files to predictions by commands: terms, a federation, its model as a file, and what it says."""

import csv
import json

import numpy as np
import pytest
from sklearn import metrics

from tests.node.cli.test_bad_input import fedgrove

ROWS = [(20 + n, "fm"[n % 2], ("no", "yes")[n + 5 * (n % 2) > 25]) for n in range(48)]
GERMAN = "alter;geschlecht;krank\n"


def _write(place, name: str, rows, header: str = GERMAN, end: int = 3) -> None:
    lines = (";".join(map(str, (f"{row[0]},5", *row[1:])[:end])) for row in rows)
    (place / name).write_text(header + "".join(f"{line}\n" for line in lines))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Three clients' files with decimal commas, one to evaluate on, one to predict for; and a federation's model."""
    place = tmp_path_factory.mktemp("hospitals")
    (place / "data").mkdir()
    for number in range(3):
        _write(place / "data", f"clinic{number}.csv", ROWS[number::4])
    _write(place / "data", "test.csv", ROWS[3::4])
    _write(place, "new.csv", ROWS, "alter;geschlecht\n", 2)
    form = ("--table-format", "decimal=comma")
    made = fedgrove("task", "new", "mine", "--table", "data/clinic0.csv", "--target", "krank", *form, cwd=place)
    assert made.returncode == 0, made.stderr
    with (place / "mine" / "terms.toml").open("a") as terms:
        terms.write('[evaluation]\nheld_out = 0.25\nmetrics = ["right", "confusion"]\n')
    command = ("demo", "--task", "mine", "--data", "data", "--clients", "3", "--rounds", "1", "--sandbox", "off", *form)
    done = fedgrove(*command, "--out", "run", cwd=place)
    assert done.returncode == 0, done.stderr
    saved = fedgrove("model", "save", "run", "model.safetensors", cwd=place)
    assert saved.returncode == 0, saved.stderr
    return place


def _predict(place, *arguments: str):
    return fedgrove("predict", *arguments, "--sandbox", "off", "--table-format", "decimal=comma", cwd=place)


def test_predictions_are_written_by_name_with_probabilities(place):
    done = _predict(place, "model.safetensors", "--data", "new.csv", "--out", "predictions.csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "wrote 48 predictions of krank to predictions.csv\n"
    with (place / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["row", "krank", "probability of no", "probability of yes"]
    for row in rows:
        no, yes = float(row["probability of no"]), float(row["probability of yes"])
        assert row["krank"] == ("yes" if yes > no else "no") and no + yes == pytest.approx(1)
    again = _predict(place, "model.safetensors", "--data", "new.csv", "--out", "predictions.csv")
    assert again.returncode == 2 and "predictions.csv already exists" in again.stderr


def test_labelled_data_are_scored_and_drawn(place):
    command = ("run", "--data", "data/test.csv", "--evaluate", "--pictures", "figures", "--json", "--out", "scored.csv")
    done = _predict(place, *command)
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout)["scores"]
    with (place / "scored.csv").open() as file:
        rows = list(csv.DictReader(file))
    truth, yes = [row["actual"] for row in rows], [float(row["probability of yes"]) for row in rows]
    assert truth == [row[2] for row in ROWS[3::4]]
    assert scores["auc"] == pytest.approx(metrics.roc_auc_score(np.array(truth) == "yes", yes))
    predicted = [row["krank"] for row in rows]
    assert scores["confusion"] == metrics.confusion_matrix(truth, predicted).tolist()
    assert sorted(path.name for path in (place / "figures").iterdir()) == [
        "calibration.svg",
        "confusion.svg",
        "roc.svg",
    ]
    assert all("<svg " in path.read_text() for path in (place / "figures").iterdir())
    told = _predict(place, "run", "--data", "data/test.csv", "--evaluate")
    assert f"AUC                         {scores['auc']:.4f} (of yes)" in told.stdout, told.stdout
    assert "confusion matrix" in told.stdout and "calibration of the predicted class" in told.stdout


def test_the_run_states_the_same_scores_and_the_members_matrix_and_its_page_shows_them(place):
    first, last = json.loads((place / "run" / "report.json").read_text())["rounds"]
    done = _predict(place, "run", "--data", "data/test.csv", "--evaluate", "--json")
    scores = json.loads(done.stdout)["scores"]
    assert first["scores"]["confusion"] == scores["confusion"]
    for name in ("auc", "balanced_accuracy", "brier", "calibration_error"):
        assert first["scores"][name] == pytest.approx(scores[name], rel=1e-4), name
    assert last["members"]["last"] and sum(map(sum, last["members"]["confusion"])) == last["members"]["samples"] == 9
    right = sum(row[place] for place, row in enumerate(last["members"]["confusion"]))
    assert last["members"]["accuracy"] == right / 9
    exported = fedgrove("explorer", "run", "--export", "pages", cwd=place)
    assert exported.returncode == 0, exported.stderr
    page = (place / "pages" / "rounds" / "2" / "index.html").read_text()
    assert "<dt>AUC</dt>" in page and "Confusion matrix, all members’ held-out samples" in page
    assert page.count('<svg class="scores confusion"') == 2 and "yes predicted as no" in page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("model.safetensors",), "give --data"),
        (("model.safetensors", "--data", "new.csv"), "give --out"),
        (("model.safetensors", "--data", "gone.csv", "--out", "x.csv"), "there is no gone.csv"),
        (("gone.safetensors", "--data", "new.csv", "--out", "x.csv"), "cannot read gone.safetensors: No such file"),
        (("model.safetensors", "--round", "1", "--data", "new.csv", "--out", "x.csv"), "a file holds one model"),
        (("run", "--cluster", "1", "--data", "new.csv", "--out", "x.csv"), "there is one model for everybody"),
        (("model.safetensors", "--data", ".", "--out", "x.csv"), "is a folder: give one file"),
        (("run", "--data", "new.csv", "--evaluate"), "new.csv has no column 'krank'"),
    ],
)
def test_what_cannot_be_predicted_is_said_in_a_sentence(place, arguments, said):
    done = _predict(place, *arguments)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and said in done.stderr, done.stderr
    assert not (place / "x.csv").exists()


def test_a_file_that_is_written_otherwise_says_how(place):
    command = ("predict", "model.safetensors", "--data", "new.csv", "--out", "x.csv", "--sandbox", "off")
    done = fedgrove(*command, cwd=place)
    assert done.returncode == 2 and "decimal comma: state it (--table-format decimal=comma)" in done.stderr
    wrong = fedgrove(*command, "--table-format", "delimiter=,", cwd=place)
    assert wrong.returncode == 2 and "with the delimiter ',', but it has with ';'" in wrong.stderr
