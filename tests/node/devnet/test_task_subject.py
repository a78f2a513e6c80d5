"""Demonstrations on tasks: real masks, real sandboxes, audited."""

import csv
import subprocess
import sys

import numpy as np
import pytest

import fedgrove as fg
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.devnet.demo import DemoFailed
from fedgrove.node.scenario.reading import scenario
from fedgrove.node.tasks.sandbox.faults import SandboxUnavailable
from tests.node.conftest import run_task
from tests.node.learning.tasks.examples import table

REGRESSION = """
import numpy as np
from torch import nn
import fedgrove as fg

class Prices(fg.Task):
    def model(self):
        return nn.Linear(4, 1)

    def data(self, source):
        table = np.loadtxt(source, delimiter=",", dtype=np.float32)
        pair = table[:, :4], table[:, 4]
        return fg.Data(pair, held_out=pair)
"""
CLASSIFIER = REGRESSION.replace(
    "nn.Linear(4, 1)", "nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))"
).replace("table[:, 4]\n", "table[:, 4].astype(np.int64)\n")


def write_table(path, count, seed):
    x, y = table(count, seed)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([*map(float, row), int(label)] for row, label in zip(x, y, strict=True))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "task").mkdir()
    write_table(tmp_path / "data.csv", 90, 1)
    return tmp_path


def run(folder, code, plan, source="data.csv", terms=""):
    """Run a demonstration on a task; its directory, as ``fedgrove demo --out`` leaves it, and its report."""
    (folder / "task" / "task.py").write_text(code)
    if terms:
        (folder / "task" / "terms.toml").write_text(terms)
    told = scenario(task=str(folder / "task"), data=str(folder / source), sandbox="off", **plan)
    made = run_task(folder / "kept", told)
    return made.directory, made.report


def test_a_regression_is_learned_under_masks_and_audited_without_torch_or_the_task(folder):
    """The members share out what the task holds out: what they find is what the coordinator found a round before."""
    terms = '[evaluation]\nheld_out = 0.0\nmetrics = ["squared_error"]\n'
    kept, report = run(folder, REGRESSION, dict(clients=4, rounds=3, strategy="fedavg"), terms=terms)
    losses = [each["loss"] for each in report["rounds"]]
    assert losses[2] < losses[0] and all(each["accuracy"] is None for each in report["rounds"])
    found = [each["members"] for each in report["rounds"]]
    assert [each["loss"] for each in found[1:]] == pytest.approx(losses[:3], rel=1e-5)
    assert all(each["samples"] == 90 and "accuracy" not in each for each in found)
    assert [each["squared_error"] for each in found] == pytest.approx([each["loss"] for each in found], rel=1e-5)
    blocked = "import sys; sys.modules['torch'] = None; sys.modules['fedgrove.node.learning.tasks'] = None; "
    command = [sys.executable, "-c", blocked + "from fedgrove.node.cli.main import run; run()", "audit", str(kept)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert told.returncode == 0 and "verified" in told.stdout + told.stderr, told.stderr


def test_clients_that_drop_out_and_sources_of_their_own(folder):
    (folder / "parts").mkdir()
    for number in range(5):
        write_table(folder / "parts" / f"{number}.csv", 20 + number, number)
    write_table(folder / "parts" / "test.csv", 50, 9)
    plan = dict(clients=5, rounds=2, strategy="fedavg", drop=0.2, seed=3, held_out=0.2)
    _, report = run(folder, CLASSIFIER, plan, "parts")
    assert all(each["status"] == "closed" for each in report["rounds"])
    assert any(each["dropped"] for each in report["rounds"]) and report["rounds"][-1]["accuracy"] > 0.2
    assert [each["members"]["samples"] for each in report["rounds"]] == [
        4 * each["committed"] for each in report["rounds"]
    ]


def test_the_same_seed_gives_the_same_model(folder, tmp_path):
    _, first = run(folder, CLASSIFIER, dict(clients=4, rounds=2, strategy="fedavg", seed=1))
    (folder / "kept").rename(folder / "earlier")
    _, second = run(folder, CLASSIFIER, dict(clients=4, rounds=2, strategy="fedavg", seed=1))
    assert [each["model_cid"] for each in first["rounds"]] == [each["model_cid"] for each in second["rounds"]]


def test_the_author_suggests_terms_and_fedaom_takes_the_shared_file_of_the_bundle(folder):
    write_table(folder / "task" / "shared.csv", 12, 9)
    terms = '[task]\nshared = "shared.csv"\nkeep = ["2.*"]\n[training]\nepochs = 2\nlearning_rate = 0.05\n'
    kept, report = run(folder, CLASSIFIER, dict(clients=4, rounds=2), terms=terms)
    config = report["config"]
    assert config["task"]["shared"] == "shared.csv" and [*config["task"]["keep"]] == ["2.*"]
    assert config["training"]["epochs"] == 2 and config["strategy"]["name"] == "fedaom"
    model = fg.History(str(kept)).model()
    assert set(model) == {"0.weight", "0.bias"} and all(np.isfinite(value).all() for value in model.values())


@pytest.mark.parametrize(
    ("terms", "sentence"),
    [
        ("[task]\nbundle = 'x'\n", r"task\.bundle must be"),
        ("[training\n", "terms.toml"),
        ("[training]\ncrop = 3\n", "training.crop must be left out where"),
    ],
)
def test_bad_suggestions_are_sentences(folder, terms, sentence):
    with pytest.raises((InvalidConfig, DemoFailed), match=sentence):
        run(folder, CLASSIFIER, dict(clients=4, rounds=1, strategy="fedavg"), terms=terms)


def test_data_that_are_not_there_are_a_sentence(folder):
    with pytest.raises(SandboxUnavailable, match=r"nosuch\.csv to a task's code: No such file or directory"):
        run(folder, CLASSIFIER, dict(clients=4, rounds=1, strategy="fedavg"), "nosuch.csv")


def test_a_task_without_a_model_ends_the_run_with_its_line(folder):
    broken = CLASSIFIER.replace("return nn.Sequential", "return nn.Sequentially")
    with pytest.raises(Exception, match=r"the task raised AttributeError: .* \(task.py, line 8\)"):
        run(folder, broken, dict(clients=4, rounds=1, strategy="fedavg"))


def test_members_are_clustered_by_the_labels_of_a_task(folder):
    (folder / "parts").mkdir()
    x, y = table(240, 1)
    for client in range(6):
        rows = np.flatnonzero((y == 2) if client < 3 else (y != 2))[client % 3 :: 3]
        np.savetxt(folder / "parts" / f"{client}.csv", np.column_stack([x[rows], y[rows]]), delimiter=",")
    (folder / "parts" / "0.csv.budgets.json").write_text("{}")  # as a client leaves it beside its data
    plan = dict(clients=6, rounds=3, strategy="fedavg", method="procfl, labels = 3, global_share = 0.3")
    _, report = run(folder, CLASSIFIER, plan, source="parts")
    assert [len(members) for members in report["clusters"]["members"]] == [3, 3]
    assert report["rounds"][-1]["committed"] == 6


def test_committees_need_a_coordinator_that_runs_no_task(folder):
    plan = dict(clients=6, rounds=3, strategy="fedavg", method="procfl, labels = 3, seats = 3")
    with pytest.raises(DemoFailed, match=r"procfl\.seats must be 0 where \[task\] is given"):
        run(folder, CLASSIFIER, plan)
