"""Which executor suits a request: processes only where training takes longer than they take to start."""

from types import SimpleNamespace

import pytest

from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.scenario.clusters import SimulatedProCfl
from fedgrove.node.scenario.reading import MANY
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.session import MUCH, SUITED, Runs, executor_for

DIGITS = MANY.changed(
    federation={"rounds": 10, "sampling_rate": 0.5}, cast={"clients": 20}, training=TrainingSettings(epochs=1)
)


def chosen(plan: Scenario, task=None, **changes) -> str:
    return executor_for(Runs(plan.changed(run=changes)), task)


def task(samples: int, bases=()):
    """What is asked of an opened task."""
    clients = (SimpleNamespace(description=SimpleNamespace(samples=samples)),)
    return SimpleNamespace(place=SimpleNamespace(bases=bases), clients=clients)


@pytest.mark.parametrize(
    ("plan", "name"),
    [
        (DIGITS, "inline"),
        (DIGITS.changed(federation={"rounds": 1_000}), "processes"),
        (DIGITS.changed(training=TrainingSettings(epochs=100)), "processes"),
        (DIGITS.changed(cast={"dataset": "mnist", "train_samples": 100}, federation={"rounds": 1}), "processes"),
        (DIGITS.changed(cast={"clients": 100}, method=SimulatedProCfl(psi="ecdh")), "processes"),
        (DIGITS.changed(cast={"clients": 9}, method=SimulatedProCfl(psi="ecdh")), "inline"),
    ],
)
def test_little_is_trained_in_this_process(plan, name):
    assert chosen(plan) == name


@pytest.mark.parametrize(("executor", "workers"), [("processes", 0), (SUITED, 1), (SUITED, 2)])
def test_processes_that_are_asked_for_are_there(executor, workers):
    assert chosen(DIGITS, executor=executor, workers=workers) == "processes"


def test_whoever_asks_for_this_process_gets_it():
    assert chosen(DIGITS.changed(federation={"rounds": 100_000}), executor="inline") == "inline"


def test_a_task_counts_its_own_samples_and_a_frozen_base_says_nothing_of_the_work():
    most = MUCH // (DIGITS.rounds // 2)
    assert chosen(DIGITS, task(most - 1)) == "inline"
    assert chosen(DIGITS, task(most)) == "processes"
    assert chosen(DIGITS, task(10, bases=(("encoder", "model.safetensors"),))) == "processes"
