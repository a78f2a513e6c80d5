"""``fedgrove simulate --task``: what it shows and keeps of a task, and what it refuses."""

import json

import pytest

from tests.node.cli.test_bad_input import fedgrove
from tests.node.simulation.own_task import FAULTY_LINE, table, write_task

SMALL = ("simulate", "--task", "points", "--data", "points.csv", "--clients", "3", "--rounds", "2")
INLINE = (*SMALL, "--executor", "inline", "--set", "federation.sampling_rate=1")


@pytest.fixture
def place(tmp_path):
    """A folder with a task and its data."""
    write_task(tmp_path / "points")
    (tmp_path / "points.csv").write_text(table(40, 1))
    return tmp_path


def test_accuracy_is_shown_and_drawn_where_the_task_counts_right_answers(place):
    result = fedgrove(*INLINE, "--out", "run", "--json", cwd=place)
    assert result.returncode == 0, result.stderr
    (run,) = json.loads(result.stdout)["runs"]
    assert run["record"] == json.loads((place / "run/seed-0/record.json").read_text())
    assert 0 <= run["record"]["rounds"][-1]["accuracy"] <= 1 and "round 2 of 2, accuracy 0." in result.stderr
    assert sorted(path.name for path in (place / "run").iterdir()) == ["accuracy.png", "seed-0"]


def test_a_regression_is_told_by_its_loss_for_each_seed(place):
    result = fedgrove(*INLINE, "--set", "task.options.floats=true", "--seeds", "1,2", "--out", "run", cwd=place)
    assert result.returncode == 0, result.stderr
    for seed in (1, 2):
        last = json.loads((place / f"run/seed-{seed}/record.json").read_text())["rounds"][-1]
        assert last["accuracy"] is None
        (row,) = (line.split() for line in result.stdout.splitlines() if line.split()[:2] == [str(seed), "2"])
        assert row[2:5] == ["-", "-", f"{last['loss']:.4f}"]
    assert "round 2 of 2, loss " in result.stderr and "fedavg on points" in result.stdout


def test_a_task_that_raises_ends_the_run_with_its_file_and_line(place):
    result = fedgrove(*INLINE, "--set", "task.options.fault='raises'", "--out", "run", cwd=place)
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert f"in round 1: the task raised RuntimeError: no loss today (task.py, line {FAULTY_LINE})" in last
    assert last.endswith("what is done is kept in run, --resume goes on")
