"""A server's step in simulations: on any executor, after a stop, on a task, and where nobody was drawn."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import dump
from fedgrove.node.learning.server_side import without_state
from fedgrove.node.learning.server_steps import MomentumStep
from fedgrove.node.privacy.settings import ClientLevelSettings
from fedgrove.node.scenario.clusters import IfcaSettings
from fedgrove.node.scenario.reading import MANY, MANY_CLIENTS, read_scenario
from fedgrove.node.simulation.checks import check_simulated
from fedgrove.node.simulation.executors import InlineExecutor
from fedgrove.node.simulation.run import Simulation
from fedgrove.node.simulation.task_folder import opened_task
from tests.node.simulation.conftest import simulate, small_plan
from tests.node.simulation.own_task import TERMS, table, write_task

FEDACG = MomentumStep(momentum=0.85, lookahead=True)
PLAN = small_plan(strategy="fedprox", server=FEDACG, clients=6, train_samples=120, test_samples=40)


def test_a_plan_without_a_step_has_the_digest_that_it_always_had(digits):
    assert "server" not in MANY.to_json()
    assert MANY.digest() != MANY.changed(server=FEDACG).digest()
    plain = simulate(replace(PLAN, server=None), digits)
    assert plain.tensors.keys() == without_state(simulate(PLAN, digits).tensors).keys()


def test_the_first_round_is_that_of_the_mean_and_later_ones_are_not(digits):
    """From rest a momentum with rate 1 takes the mean for the next model, up to a rounding."""
    found = []
    for step in (None, FEDACG):
        simulation = Simulation(replace(PLAN, server=step), digits, InlineExecutor(), 1)
        models: list = []
        simulation.keep = lambda number, tensors, models=models: models.append(without_state(tensors))
        list(simulation.run())
        found.append(models)
    plain, stepped = found
    assert all(stepped[0][name] == pytest.approx(plain[0][name], abs=1e-6) for name in plain[0])
    assert not all(stepped[1][name] == pytest.approx(plain[1][name], abs=1e-3) for name in plain[1])


def test_where_nobody_was_drawn_the_state_stays(digits):
    """In a federation no such round closes."""
    privacy = ClientLevelSettings(epsilon=500.0, delta=1e-3, noise_multipliers=(0.5,))
    plan = PLAN.changed(federation={"sampling_rate": 0.2, "rounds": 8}, privacy=privacy)
    simulation = Simulation(plan, digits, InlineExecutor(), 1)
    published = [dump(simulation.tensors)]
    simulation.keep = lambda number, tensors: published.append(dump(tensors))
    drawn = [bool(result.clients) for result in simulation.run()]
    assert not all(drawn) and any(drawn)
    assert [before != after for before, after in pairwise(published)] == drawn


def test_clusters_have_no_servers_step():
    with pytest.raises(InvalidConfig, match="server must be left out with ifca: its step is on one model"):
        check_simulated(PLAN.changed(method=IfcaSettings(2)))


def test_running_statistics_of_a_task_are_averaged(tmp_path):
    """With a step of almost nothing weights stay, while statistics follow the data as they do without."""
    (tmp_path / "points.csv").write_text(table(120, 1))
    folder = write_task(tmp_path / "points", TERMS.replace('keep = ["1.running_*"]', "keep = []"))
    tables = {
        "scenario": {"clients": 4, "data": str(tmp_path / "points.csv")},
        "federation": {"rounds": 1, "sampling_rate": 1.0, "seed": 5},
        "task": {"folder": str(folder)},
    }
    found = []
    for server in ({"step": "none"}, {"step": "adam", "rate": 1e-9}):
        plan = read_scenario(changes={**tables, "server": server}, preset=MANY_CLIENTS)
        with opened_task(plan) as task:
            run = Simulation(plan, task, InlineExecutor(), 1)
            first = without_state(run.tensors)
            list(run.run())
            found.append((first, run.tensors))
    (first, plain), (_, stepped) = found
    statistics = {"1.running_mean", "1.running_second_moment"}
    assert statistics <= plain.keys() and not any(
        name.endswith(tuple(statistics)) for name in stepped.keys() - plain.keys()
    )
    for name in plain:
        expected = plain if name in statistics else first
        assert stepped[name] == pytest.approx(expected[name], abs=1e-6), name
        assert not np.array_equal(plain[name], first[name])
