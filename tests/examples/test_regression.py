"""The example of a regression: the README's own model, in one file, packed, simulated, trained under masks, audited."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

import fedgrove as fg
from fedgrove.node.base.tensors import dump
from fedgrove.node.scenario.reading import MANY_CLIENTS, read_scenario
from fedgrove.node.simulation.executors import InlineExecutor
from fedgrove.node.simulation.run import Simulation
from fedgrove.node.simulation.task_folder import opened_task
from fedgrove.node.tasks.bundle import draft, pack
from tests.examples.held import EXAMPLES, copied, held

TASK = EXAMPLES / "regression" / "task.py"
ROUNDS = 3


@pytest.fixture
def source(tmp_path) -> Path:
    bunch = load_diabetes()
    np.savetxt(tmp_path / "diabetes.csv", np.c_[bunch.data, bunch.target], delimiter=",")
    return tmp_path / "diabetes.csv"


def test_it_is_the_own_model_of_the_readme_and_one_short_file():
    shown = re.search(r"<<'EOF'\n(.*?)EOF", (EXAMPLES.parent / "README.md").read_text(), re.DOTALL)
    assert shown is not None and shown.group(1) == TASK.read_text()
    assert len(TASK.read_text().splitlines()) <= 25


def test_it_packs_to_the_same_bundle_with_the_lock_that_it_brings(tmp_path):
    lock = (TASK.parent / "task.lock").read_bytes()
    assert pack(copied("regression", tmp_path), relock=True).cid == draft(TASK.parent).cid
    assert (tmp_path / "regression" / "task.lock").read_bytes() == lock


def test_it_is_learned_under_masks_audited_and_the_simulation_has_the_same_bytes(source, tmp_path):
    folder = copied("regression", tmp_path)
    report = held(folder, source, dict(clients=4, rounds=ROUNDS, strategy="fedavg", seed=2), tmp_path / "run")
    losses = [each["loss"] for each in report["rounds"]]
    targets = (np.loadtxt(source, delimiter=",")[350:, 10] - 150) / 80
    assert losses[2] < losses[1] < losses[0] and losses[2] < np.square(targets).mean()
    assert all(each["accuracy"] is None for each in report["rounds"])

    plan = read_scenario(
        preset=MANY_CLIENTS,
        changes={
            "scenario": {"clients": 4, "data": str(source)},
            "federation": {"rounds": ROUNDS, "sampling_rate": 1.0, "seed": 2},
            "task": {"folder": str(folder)},
            "strategy": {"name": "fedavg"},
        },
    )
    with opened_task(plan) as task:
        run = Simulation(plan, task, InlineExecutor(), 1)
        assert len(tuple(run.run())) == ROUNDS
    last = fg.History(str(tmp_path / "run")).model()
    assert dump(run.tensors) == dump(last)
