"""Simulated clients evaluate each round's model before they train, with the numbers that a federation has."""

import json
import math
from contextlib import ExitStack
from dataclasses import replace

import pytest

import fedgrove as fg
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.network.history import capture
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import dump
from fedgrove.node.devnet.demo import Demo
from fedgrove.node.devnet.task_subject import TaskSubject
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.methods.training.suggestion import suggested_by
from fedgrove.node.privacy.accountant import GaussianRelease, epsilon_of
from fedgrove.node.scenario.reading import MANY_CLIENTS, read_scenario, scenario
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.checks import check_simulated
from fedgrove.node.simulation.executors import InlineExecutor, open_executor
from fedgrove.node.simulation.mechanisms import ClientLevel
from fedgrove.node.simulation.record import RunRecord
from fedgrove.node.simulation.run import Simulation
from fedgrove.node.simulation.task_folder import opened_task
from tests.node.simulation.conftest import generated, simulate
from tests.node.simulation.own_task import TERMS, table, write_task

EVALUATION = '\n[evaluation]\nheld_out = {}\nmetrics = ["right"]\n'


def tables(place, **others):
    return {
        "scenario": {"clients": 3, "data": str(place / "points.csv")},
        "federation": {"rounds": 3, "sampling_rate": 1.0, "seed": 5},
        "strategy": {"name": "fedavg"},
        "task": {"folder": str(place / "points")},
        **others,
    }


def plan_of(tables):
    return read_scenario(changes=tables, preset=MANY_CLIENTS)


def place_with(folder, held_out):
    write_task(folder / "points", TERMS + EVALUATION.format(held_out))
    (folder / "points.csv").write_text(table(61, 1))
    return folder


def simulated(plan):
    with opened_task(plan) as task:
        return simulate(plan, task)


def federated(place, store, plan):
    """The history of a federation of the same task on the same data."""
    with embedded() as network, ExitStack() as stack:
        told = scenario(task=str(place / "points"), data=str(place / "points.csv"), **plan)
        demo = Demo(told, TaskSubject(told, stack), network, store)
        demo.run()
        return fg.History(capture(network, demo.founded), store)


def test_where_the_task_holds_out_the_numbers_are_those_of_a_federation(tmp_path):
    place = place_with(tmp_path, 0.0)
    store = DiskStore(place / "store")
    history = federated(place, store, dict(clients=3, rounds=3, strategy="fedavg", seed=5))
    run = simulated(plan_of(tables(place)))
    stated = [dict(each.members) for each in history.rounds]
    assert stated[-1].pop("last")
    assert [*(each.members for each in run.record.rounds), run.record.last_model] == stated
    assert len(stated) == 4 and stated[0]["samples"] == 11 and stated[-1]["loss"] < stated[0]["loss"]
    assert dump(run.tensors) == dump(history.model())


def test_the_loss_ends_a_simulation_when_it_ends_a_federation(tmp_path):
    place = place_with(tmp_path, 0.0)
    stalled = TERMS.replace("learning_rate = 0.1", "learning_rate = 1e-6") + EVALUATION.format(0.0)
    (place / "points" / "terms.toml").write_text(stalled)
    store = DiskStore(place / "store")
    history = federated(place, store, dict(clients=3, rounds=6, strategy="fedavg", seed=5, patience=2))
    run = simulated(plan_of(tables(place, federation=tables(place)["federation"] | {"rounds": 6, "patience": 2})))
    stated = [dict(each.members) for each in history.rounds]
    assert [each.pop("last", False) for each in stated] == [False, False, False, True]
    assert run.record.ending == stated[2].pop("ending") == run.record.to_json()["ending"]
    stated[3].pop("ending", None)
    assert [*(each.members for each in run.record.rounds), run.record.last_model] == stated
    assert "for 2 rounds" in run.record.ending and dump(run.tensors) == dump(history.model())


def test_a_share_is_held_out_of_each_client_and_never_trained_on(tmp_path):
    place = place_with(tmp_path, 0.3)
    assert suggested_by(place / "points").evaluation is not None
    with_evaluation = simulated(plan_of(tables(place)))
    assert {each.members["samples"] for each in with_evaluation.record.rounds} == {5 + 5 + 4}  # of 17, 17 and 16
    (place / "points" / "terms.toml").write_text(TERMS)
    without = simulated(plan_of(tables(place)))
    assert {each.members for each in without.record.rounds} == {None}
    assert dump(without.tensors) != dump(with_evaluation.tensors)


def test_clients_of_a_data_set_evaluate_before_they_train():
    federation = {"rounds": 3, "sampling_rate": 1.0}
    plan = plan_of(SMALL | {"federation": federation, "evaluation": {"held_out": 0.2}})
    run = simulate(plan, load_dataset("digits"))
    members = [each.members for each in run.record.rounds]
    assert [each["samples"] for each in members] == [4 * 15] * 3
    assert members[-1]["loss"] < members[0]["loss"] and members[-1]["standard_error"] > 0
    assert [each.samples for each in run.record.rounds] == [300] * 3
    assert run.record.last_model["samples"] == 4 * 15 and run.record.last_model["loss"] < members[-1]["loss"]
    assert not run.record.ending


SMALL = {"scenario": {"clients": 4, "train_samples": 300, "test_samples": 50}, "partition": {"kind": "iid"}}


FEDERATION = {"rounds": 6, "sampling_rate": 0.5}
EVALUATED = plan_of(SMALL | {"run": {"evaluate_every": 6}, "federation": FEDERATION, "evaluation": {"held_out": 0.2}})
EVALUATED = Scenario.from_tables(EVALUATED.to_json())  # as a record has it, without what its digest leaves out


def stalled(directory, resume=False):
    plan = EVALUATED.changed(federation={"patience": 1}, training={"learning_rate": 1e-9})
    return Simulation(plan, load_dataset("digits"), InlineExecutor(), 1, directory, resume)


def test_a_run_that_its_loss_ended_is_tested_and_stays_ended(tmp_path):
    run = stalled(tmp_path)
    told = list(run.run())
    rounds = run.record.rounds
    assert 2 <= len(rounds) < 6 and "for 1 round" in run.record.ending
    assert [each.accuracy is None for each in rounds] == [True] * (len(rounds) - 1) + [False]
    assert [each.round for each in told] == list(range(1, len(rounds) + 1))
    again = stalled(tmp_path, resume=True)
    assert list(again.run()) == [] and again.record == run.record


CLIENT = {"privacy": {"mechanism": "client"}}
ENOUGH = {"scenario": {"clients": 300}, "federation": {"sampling_rate": 1.0}}


@pytest.mark.parametrize(
    ("others", "sentence"),
    [
        ({"privacy": {"mechanism": "signds"}}, "evaluation must be left out with signds"),
        ({"privacy": {"mechanism": "local"}}, "evaluation must be left out with local"),
        ({"procfl": {}, "evaluation": {"held_out": 0.0}}, "evaluation must have a held_out above 0, and metrics right"),
        (
            CLIENT | {"scenario": {"clients": 1000}},
            "evaluation with privacy.mechanism client needs 300 drawn clients",
        ),
        (CLIENT | ENOUGH | {"evaluation": {"metrics": []}}, "evaluation.metrics must name one at least with privacy"),
        (CLIENT | ENOUGH | {"federation": {"patience": 1, "sampling_rate": 1.0}}, "patience must be 0 with privacy"),
        (
            {"privacy": CLIENT["privacy"] | {"sampling_rates": [1.0, 0.2], "phases": [5], "noise_multipliers": [1, 1]}}
            | ENOUGH,
            "needs 300 drawn clients, not 60",
        ),
        (
            {"evaluation": {"held_out": 0.0}},
            "a held_out above 0, and metrics right and confusion only",
        ),
        ({"evaluation": {}, "federation": {"patience": -1}}, "federation.patience must be a whole number from 0"),
        (
            {"evaluation": {"metrics": ["mine"]}},
            "a held_out above 0, and metrics right and confusion only",
        ),
    ],
)
def test_what_cannot_be_evaluated_is_refused_in_a_sentence(others, sentence):
    with pytest.raises(InvalidConfig, match=sentence):
        check_simulated(plan_of({"evaluation": {}} | others))


def test_a_suggestion_does_not_stand_in_the_way_of_privacy(tmp_path):
    place = place_with(tmp_path, 0.3)
    assert plan_of(tables(place)).evaluation is not None
    private = {"mechanism": "client", "epsilon": 8.0, "delta": 1e-3, "noise_multipliers": [1.0], "clip": 1.0}
    assert plan_of(tables(place, privacy=private)).evaluation is None


def test_a_patience_needs_an_evaluation():
    with pytest.raises(InvalidConfig, match=r"federation\.patience must be 0 without \[evaluation\]"):
        check_simulated(plan_of({"federation": {"patience": 2}}))


def private_run(directory=None, rounds=2, epsilon=50.0, participation="public", pool=None):
    """300 clients with four images each, of which one is held out."""
    sampling = {"rounds": rounds, "sampling_rate": 1.0, "seed": 3}
    plan = plan_of(
        {
            "scenario": {"clients": 300},
            "run": {"evaluate_every": 9},
            "federation": sampling,
            "model": {"name": "small-mlp"},
            "partition": {"kind": "iid"},
            "training": {"epochs": 1, "batch_size": 3, "learning_rate": 0.05},
            "privacy": {"mechanism": "client", "epsilon": epsilon, "delta": 1e-3, "participation": participation}
            | {"noise_multipliers": [1.0]},
            "evaluation": {"held_out": 0.25},
        }
    )
    executor, workers = pool or (InlineExecutor(), 1)
    return Simulation(plan, generated(1200), executor, workers, directory)


def test_under_client_level_privacy_the_figures_are_noisy_rates_of_the_clients(tmp_path, monkeypatch):
    """4.9 standard deviations, of 0.0075 and 0.0017: a false alarm once in 10⁶ seeds."""
    exact, members, last = [], ClientLevel.members, ClientLevel.of_last_model

    def noting(kind, found):
        exact.append([each.totals["right"] / each.samples for each in found])
        assert {each.samples for each in found} == {1}

    def told(self, uploads):
        noting(self, [client.measured for client in uploads.clients])
        return members(self, uploads)

    def of_last(self, number, measured):
        noting(self, measured.values())
        return last(self, number, measured)

    monkeypatch.setattr(ClientLevel, "members", told)
    monkeypatch.setattr(ClientLevel, "of_last_model", of_last)
    run = private_run(tmp_path / "whole")
    list(run.run())
    stated = [*(each.members for each in run.record.rounds), run.record.last_model]
    for figures, rates, noise in zip(stated, exact, [0.00745, 0.00745, 0.00167], strict=True):
        assert figures["noise"] == pytest.approx(noise, rel=0.005) and len(rates) == 300
        assert 0 < abs(figures["accuracy"] - sum(rates) / 300) < 4.9 * noise
    assert all(set(figures) == {"accuracy", "noise"} for figures in stated[:-1])
    spent = [*(each.privacy["epsilon"] for each in run.record.rounds), run.record.last_model["epsilon"]]
    assert spent == [pytest.approx(epsilon_of([GaussianRelease(1.0, count=rounds)], 1e-3)) for rounds in (1, 2, 3)]
    assert RunRecord.from_json(json.loads(run.record.to_bytes())).to_bytes() == run.record.to_bytes()
    with open_executor("processes", 2) as pool:
        others = private_run(pool=pool)
        list(others.run())
    assert others.record == run.record


def test_rates_leave_the_noise_of_the_update_as_it_was_but_for_the_room_that_they_take():
    with_rates, plan = private_run(rounds=1), private_run(rounds=1).record.scenario
    list(with_rates.run())
    without = simulate(replace(plan, evaluation=None), generated(1200))
    noise = [run.record.rounds[0].privacy["noise"] for run in (with_rates, without)]
    assert noise[0] / noise[1] == pytest.approx(math.sqrt(1 / 0.95), rel=1e-3)


@pytest.mark.parametrize("participation", ["public", "secret"])
def test_what_the_budget_does_not_afford_leaves_the_last_model_without_rates(participation):
    budget = epsilon_of([GaussianRelease(1.0, count=2)], 1e-3) + 0.01
    run = private_run(rounds=2, epsilon=budget, participation=participation)
    list(run.run())
    assert len(run.record.rounds) == 2 and run.record.last_model is None
    assert run.record.rounds[-1].members["noise"] > 0
    run = private_run(rounds=1, epsilon=budget, participation=participation)
    list(run.run())
    assert run.record.last_model["epsilon"] <= budget
