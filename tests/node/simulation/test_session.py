"""Which executor suits a request: processes only where training takes longer than they take to start."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.scenario.clusters import SimulatedProCfl
from fedgrove.node.simulation.plan import Plan
from fedgrove.node.simulation.plan_file import GivenPlan
from fedgrove.node.simulation.session import MUCH, SUITED, SimulationRequest, executor_for

DIGITS = Plan(rounds=10, clients=20, sampled=0.5, training=TrainingSettings(epochs=1))


def chosen(plan: Plan, task=None, **changes) -> str:
    given = GivenPlan(plan)
    return executor_for(SimulationRequest(given, [plan], **{"executor": SUITED, **changes}), task)


def task(samples: int, bases=()):
    """What is asked of an opened task."""
    clients = (SimpleNamespace(description=SimpleNamespace(samples=samples)),)
    return SimpleNamespace(place=SimpleNamespace(bases=bases), clients=clients)


@pytest.mark.parametrize(
    ("plan", "name"),
    [
        (DIGITS, "inline"),
        (replace(DIGITS, rounds=1_000), "processes"),
        (replace(DIGITS, training=TrainingSettings(epochs=100)), "processes"),
        (replace(DIGITS, dataset="mnist", rounds=1, train_samples=100), "processes"),
        (replace(DIGITS, clients=100, clustering=SimulatedProCfl(psi="ecdh")), "processes"),
        (replace(DIGITS, clients=9, clustering=SimulatedProCfl(psi="ecdh")), "inline"),
    ],
)
def test_little_is_trained_in_this_process(plan, name):
    assert chosen(plan) == name


@pytest.mark.parametrize(("executor", "workers"), [("processes", 0), (SUITED, 1), (SUITED, 2)])
def test_processes_that_are_asked_for_are_there(executor, workers):
    assert chosen(DIGITS, executor=executor, workers=workers) == "processes"


def test_whoever_asks_for_this_process_gets_it():
    assert chosen(replace(DIGITS, rounds=100_000), executor="inline") == "inline"


def test_a_task_counts_its_own_samples_and_a_frozen_base_says_nothing_of_the_work():
    most = MUCH // (DIGITS.rounds // 2)
    assert chosen(DIGITS, task(most - 1)) == "inline"
    assert chosen(DIGITS, task(most)) == "processes"
    assert chosen(DIGITS, task(10, bases=(("encoder", "model.safetensors"),))) == "processes"
