"""Simulated clients evaluate each round's model before they train, with the numbers that a federation has."""

import json
from contextlib import ExitStack

import pytest
from fedgrove.chain.history import capture
from fedgrove.chain.networks import embedded
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.base.tensors import dump
from fedgrove.node.devnet.demo import Demo, DemoPlan
from fedgrove.node.devnet.task_subject import TaskSubject
from fedgrove.node.lab.simulation.executors import InlineExecutor
from fedgrove.node.lab.simulation.plan import InvalidPlan
from fedgrove.node.lab.simulation.plan_file import plan_bytes, plan_of, read_plan
from fedgrove.node.lab.simulation.record import RunRecord
from fedgrove.node.lab.simulation.run import Simulation
from fedgrove.node.lab.simulation.task_folder import opened_task
from fedgrove.node.lab.simulation.task_run import TaskRun
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.methods.training.suggestion import suggested_by
from fedgrove.node.tasks.sandbox.modes import choose

import fedgrove as fg
from tests.node.lab.simulation.own_task import TERMS, table, write_task

EVALUATION = '\n[evaluation]\nheld_out = {}\nmetrics = ["right"]\n'


def tables(place, **others):
    return {
        "simulation": {"clients": 3},
        "federation": {"rounds": 3, "sampling_rate": 1.0, "seed": 5},
        "strategy": {"name": "fedavg"},
        "data": {"source": str(place / "points.csv")},
        "task": {"folder": str(place / "points")},
        **others,
    }


def place_with(folder, held_out):
    write_task(folder / "points", TERMS + EVALUATION.format(held_out))
    (folder / "points.csv").write_text(table(61, 1))
    return folder


def simulated(plan):
    with opened_task(plan, choose()) as task:
        run = TaskRun(plan, task, InlineExecutor(), 1)
        list(run.run())
    return run


def test_where_the_task_holds_out_the_numbers_are_those_of_a_federation(tmp_path):
    place = place_with(tmp_path, 0.0)
    store = DiskStore(place / "store")
    with embedded() as network, ExitStack() as stack:
        subject = TaskSubject(place / "points", place / "points.csv", choose(), stack)
        demo = Demo(DemoPlan(3, 3, strategy="fedavg", seed=5), subject, network, store)
        demo.run()
        history = fg.History(capture(network, demo.founded), store)
    run = simulated(plan_of(tables(place)))
    stated = [each.metrics.members.to_figures() for each in history.rounds]
    assert [each.members for each in run.record.rounds] == stated
    assert stated[0]["samples"] == 11 and stated[-1]["loss"] < stated[0]["loss"]
    assert dump(run.tensors) == dump(history.model())


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
    small = {"data": {"train_samples": 300, "test_samples": 50}, "partition": {"kind": "iid"}}
    common = {"simulation": {"clients": 4}, "federation": {"rounds": 3, "sampling_rate": 1.0}}
    plan = plan_of(small | common | {"evaluation": {"held_out": 0.2}})
    run = Simulation(plan, load_dataset("digits"), InlineExecutor(), 1)
    list(run.run())
    members = [each.members for each in run.record.rounds]
    assert [each["samples"] for each in members] == [4 * 15] * 3
    assert members[-1]["loss"] < members[0]["loss"] and members[-1]["standard_error"] > 0
    assert [each.samples for each in run.record.rounds] == [300] * 3
    assert RunRecord.from_json(json.loads(run.record.to_bytes())) == run.record


def test_a_plan_with_an_evaluation_survives_its_file(tmp_path):
    plan = plan_of({"evaluation": {"held_out": 0.25, "metrics": ["right"]}})
    (tmp_path / "plan.toml").write_bytes(plan_bytes(plan))
    assert read_plan(tmp_path / "plan.toml").plan == plan
    assert "evaluation" not in plan_of({}).to_json()


@pytest.mark.parametrize(
    ("others", "sentence"),
    [
        ({"privacy": {"mechanism": "signds"}}, "evaluation must be left out with signds"),
        ({"procfl": {}}, "evaluation must be left out with procfl"),
        ({"evaluation": {"held_out": 0.0}}, "evaluation must have a held_out above 0, and metrics right only"),
        ({"evaluation": {"metrics": ["mine"]}}, "evaluation must have a held_out above 0, and metrics right only"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_in_a_sentence(others, sentence):
    with pytest.raises(InvalidPlan, match=sentence):
        plan_of({"evaluation": {}} | others)


def test_a_suggestion_does_not_stand_in_the_way_of_privacy(tmp_path):
    place = place_with(tmp_path, 0.3)
    assert plan_of(tables(place)).evaluation is not None
    private = {"mechanism": "client", "epsilon": 8.0, "delta": 1e-3, "noise_multipliers": [1.0], "clip": 1.0}
    assert plan_of(tables(place, privacy=private)).evaluation is None
