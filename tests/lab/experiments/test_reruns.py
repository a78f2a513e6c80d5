"""The script that does stored results again asks for the very plans that are stored, and sees a difference."""

import importlib
import json
import shlex
import sys

import pytest

from fedgrove_lab.experiments.store import read_record
from tests.lab.experiments.test_stored_results import FOLDERS, RESULTS, asked

WITH_RUNS = [folder for folder in FOLDERS if any((folder / "runs").glob("*-seed*.json"))]


@pytest.fixture(scope="module")
def script():
    """The script, which finds its neighbours as when it is started."""
    scripts = str(RESULTS.parents[1] / "scripts")
    sys.path.insert(0, scripts)
    try:
        yield importlib.import_module("rerun_results")
    finally:
        sys.path.remove(scripts)


@pytest.mark.parametrize("folder", WITH_RUNS, ids=lambda folder: folder.name)
def test_it_asks_for_the_plan_that_is_stored(script, monkeypatch, folder):
    runs = [run for dataset in ("mnist", "cifar10") for run in script.stored(folder, dataset)]
    for run in (runs[0], runs[-1]):
        command = script.command_of(folder, run)
        plan = read_record(run.path).scenario.to_json()
        assert asked(monkeypatch, folder, shlex.join(["fedgrove", *command])) == {(run.label, run.seed): plan}


def test_it_says_what_differs(script):
    run = next(script.stored(RESULTS / "comparison", "mnist"))
    rounds = json.loads(json.dumps(run.record["rounds"]))
    rounds[-1]["accuracy"] += 0.001
    other = {**run.record, "model_digest": "00" * 32}
    assert script.compared(run, run.record)["differing"] == []
    assert script.compared(run, other)["differing"] == ["model"]
    found = script.compared(run, {**other, "rounds": rounds})
    assert found["differing"] == ["model", "accuracy"]
    assert found["now"] == pytest.approx(found["stored"] + 0.1, abs=0.011)
