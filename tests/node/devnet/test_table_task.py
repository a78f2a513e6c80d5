"""Tables without code in real rounds: under masks, audited, with the pooled moments of all rows."""

import csv
import tomllib

import numpy as np
import pytest
import torch

import fedgrove as fg
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import dump
from fedgrove.node.devnet.demo import DemoFailed
from fedgrove.node.learning.tasks.tabular import Tabular
from fedgrove.node.methods.training.task_data import TaskFailed
from fedgrove.node.scenario.reading import MANY_CLIENTS, read_scenario, scenario
from fedgrove.node.simulation.executors import InlineExecutor
from fedgrove.node.simulation.run import Simulation
from fedgrove.node.simulation.task_folder import opened_task
from tests.node.conftest import run_task

TERMS = """
[task]
name = "tabular"

[task.options]
target = "ill"
classes = ["no", "yes"]
scale = "federated"

[task.options.columns]
age = { kind = "number", range = [0, 100] }
pressure = { kind = "number", range = [50, 250] }
sex = { kind = "category", values = ["f", "m"] }

[training]
batch_size = 8
learning_rate = 0.2
"""
SIZES = (30, 11, 5, 24)
ROUNDING = 2.0**-23 + 4 * 2.0**-28


def rows(count, seed):
    generator = np.random.default_rng(seed)
    ages, pressures = generator.integers(20, 90, count), generator.integers(90, 200, count)
    sexes = generator.choice(["f", "m"], count)
    ill = np.where(ages + pressures / 2 > 130, "yes", "no")
    return list(zip(ages.tolist(), pressures.tolist(), sexes.tolist(), ill.tolist(), strict=True))


def write(path, table):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["age", "pressure", "sex", "ill"], *table])


def prepare(folder):
    """A folder ``task`` without code, and ``sites`` of very different sizes with one to evaluate on."""
    (folder / "task").mkdir()
    (folder / "sites").mkdir()
    (folder / "task" / "terms.toml").write_text(TERMS)
    for number, size in enumerate(SIZES):
        write(folder / "sites" / f"{number}.csv", rows(size, number))
    write(folder / "sites" / "test.csv", rows(60, 9))
    return folder


@pytest.fixture
def place(tmp_path):
    return prepare(tmp_path)


@pytest.fixture(scope="module")
def common(tmp_path_factory):
    """A place with a run of four rounds, and its history."""
    folder = prepare(tmp_path_factory.mktemp("common"))
    return folder, run(folder, dict(clients=4, rounds=4, strategy="fedavg", seed=5))


def run(place, plan, source="sites"):
    """Run a demonstration and audit it; the history, with its models."""
    told = scenario(task=str(place / "task"), data=str(place / source), **plan)
    made = run_task(place / "kept", told)
    return fg.History(made.history, made.store)


def test_a_first_round_under_masks_gives_the_pooled_moments_and_later_ones_learn(common):
    _, history = common
    table = [row for number, size in enumerate(SIZES) for row in rows(size, number)]
    union = np.array([[(2 * row[0] - 100) / 100, (2 * row[1] - 300) / 200] for row in table])
    first = history.model(1)
    assert np.abs(first["scale.running_mean"] - union.mean(0)).max() <= ROUNDING
    assert np.abs(first["scale.running_second_moment"] - np.square(union).mean(0)).max() <= ROUNDING
    last = history.model()
    assert np.abs(last["scale.running_mean"] - first["scale.running_mean"]).max() <= 4 * ROUNDING
    assert history.rounds[-1].accuracy > max(0.7, history.rounds[0].accuracy)


def test_a_simulation_has_the_bytes_of_the_federation(common):
    place, history = common
    plan = read_scenario(
        preset=MANY_CLIENTS,
        changes={
            "scenario": {"clients": 4, "data": str(place / "sites")},
            "federation": {"rounds": 4, "sampling_rate": 1.0, "seed": 5},
            "strategy": {"name": "fedavg"},
            "task": {"folder": str(place / "task")},
        },
    )
    with opened_task(plan) as task:
        simulated = Simulation(plan, task, InlineExecutor(), 1)
        for _ in simulated.run():
            pass
    assert dump(simulated.tensors) == dump(history.model())


def test_the_state_dict_loads_into_the_tasks_own_model_and_predicts(common):
    place, history = common
    task = Tabular(**tomllib.loads(TERMS)["task"]["options"])
    model = task.model()
    model.load_state_dict(history.state_dict())
    inputs, targets = task.data(place / "sites" / "test.csv").held_out
    right = (model(torch.from_numpy(inputs)).argmax(1).numpy() == targets).mean()
    assert right == pytest.approx(history.rounds[-1].accuracy)


def test_under_privacy_federated_scaling_is_refused_in_a_sentence(place):
    with pytest.raises(DemoFailed, match=r"task\.options\.scale must be ranges or none with \[privacy\]"):
        run(place, dict(clients=4, rounds=2, strategy="fedavg", epsilon=8.0))


def test_a_fault_of_a_table_is_the_whole_sentence(place):
    table = rows(30, 1)
    table[4] = (40, 500, "m", "no")
    write(place / "sites.csv", table)
    with pytest.raises(TaskFailed) as fault:
        run(place, dict(clients=4, rounds=2, strategy="fedavg"), "sites.csv")
    sentence = "sites.csv, line 6, column pressure: '500' is outside the range 50 to 250 that the terms state"
    assert str(fault.value) == sentence


def test_a_folder_with_code_and_the_name_of_a_shipped_task_is_refused(place):
    (place / "task" / "task.py").write_text("")
    with pytest.raises(InvalidConfig, match=r"names the shipped task tabular, and the folder has code: remove one"):
        run(place, dict(clients=4, rounds=2, strategy="fedavg"))
