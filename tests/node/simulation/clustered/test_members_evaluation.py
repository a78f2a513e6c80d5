"""Simulated clients of clusters evaluate the models that they train from, with the sums that a federation states."""

import json
from dataclasses import replace
from unittest.mock import patch

import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed
from fedgrove.node.base.tensors import dump
from fedgrove.node.learning.settings import EvaluationSettings, PartitionSettings
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.terms import MaskingSettings
from fedgrove.node.scenario.clusters import GlobalSettings, IfcaSettings, SimulatedProCfl
from fedgrove.node.scenario.method import TrainingChoice
from fedgrove.node.scenario.poisoning import AttackSettings
from fedgrove.node.simulation.clustered.work import JudgingTask
from fedgrove.node.simulation.held_out import held_out_by
from fedgrove.node.simulation.record import RunRecord
from tests.adversary.clustered import coordinator, found
from tests.node.simulation.clustered.conftest import QUICK, grouped_plan, simulate

CLIENTS, COMPARING, SEED = 9, 2, 9
"""With this seed some clients in several clusters choose others by all their samples than by those they train on."""
HELD_OUT = EvaluationSettings(0.2)
APART = {"method": SimulatedProCfl(alpha=0.5, global_share=0.3)}
OVERLAPPING = {
    "method": SimulatedProCfl(alpha=0.35, global_share=0.3),
    "partition": PartitionSettings("dirichlet", alpha=0.3),
}
STALLED = replace(QUICK, epochs=1, learning_rate=1e-6)


def plan_of(**changes):
    return grouped_plan(**{"clients": CLIENTS, "seed": SEED, "evaluation": HELD_OUT, "rounds": 3, **changes})


class Federated:
    """What a real federation with a simulation's terms, data and held-out samples states, and its last models."""

    def __init__(self, simulation, directory):
        plan, data = simulation.record.scenario, simulation.data
        clusters = {name: getattr(plan.method, name) for name in ("alpha", "global_share", "seats")}
        terms = {name: getattr(plan, name) for name in ("evaluation", "training", "seed")}
        terms["patience"] = plan.federation.patience
        terms["masking"] = MaskingSettings(colluders=0.0)  # a simulation has no masks: it sums three clients, and more
        with embedded() as network:
            made = found(network, directory, [0] * CLIENTS, COMPARING + plan.rounds, **terms, **clusters)
            made.samples = [data.training.take(part) for part in data.parts]
            number = {keys.address: client for client, keys in enumerate(made.keys, 1)}

            def rule(config, workplace):
                return held_out_by(config.evaluation, plan.seed, number[workplace.keys.address])

            with patch("fedgrove.node.methods.training.learner.hold_out_of", rule):
                made.register()
                made.run(coordinator(made))
            verdict = made.audit()
            assert verdict.verdict == "verified", verdict.reason
            closed = made.of(Closed)[COMPARING:]
        fetch = made.store.fetch
        self.stated = [Metrics.from_bytes(fetch(end.metrics_digest, 1 << 20)).members for end in closed]
        self.state = ClusterState.from_bytes(fetch(closed[-1].model_digest, 1 << 26))


def figures_of(record):
    return [*(each.members for each in record.rounds), record.last_model]


def models_of(tensors):
    """The models of a simulation, apart."""
    several = len({name.partition("/")[0] for name in tensors})
    return [
        {name.partition("/")[2]: tensor for name, tensor in tensors.items() if name.startswith(f"{number}/")}
        for number in range(several)
    ]


@pytest.mark.parametrize("changes", [APART, OVERLAPPING], ids=["apart", "overlapping"])
def test_the_numbers_are_those_of_a_federation(changes, digits, tmp_path):
    simulation = simulate(plan_of(**changes), digits)
    federated = Federated(simulation, tmp_path)
    assert figures_of(simulation.record) == [each.to_figures() for each in federated.stated]
    assert [each.last for each in federated.stated] == [False, False, False, True]
    models = models_of(simulation.tensors)
    assert [dump(model) for model in models] == [dump(model) for model in federated.state.models]
    groups = simulation.record.rounds[-1].clustering.groups
    assert federated.state.groups == groups and len(models) == len(groups) > 1


def held_out_in(simulation, groups):
    """How many samples the clients of groups hold out together."""
    clients = [client for group in groups for client in group]
    return sum(HELD_OUT.samples_of(len(simulation.data.parts[client - 1])) for client in clients)


def test_who_is_in_no_group_evaluates_nothing(digits):
    """Of fewer than three clients nothing is summed."""
    simulation = simulate(plan_of(**OVERLAPPING), digits)
    groups = [each.clustering.groups for each in simulation.record.rounds]
    samples = [each.members["samples"] for each in simulation.record.rounds]
    # A cluster that nobody trained keeps the model of all, whose metrics were summed in the round before.
    fresh = [*groups[:2], [own for own, before in zip(groups[2], groups[1], strict=True) if before]]
    assert samples == [held_out_in(simulation, own) for own in fresh]
    assert sum(map(len, groups[0])) == CLIENTS > sum(map(len, groups[1]))


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_the_loss_ends_a_simulation_when_it_ends_a_federation(share, digits, tmp_path):
    """A model for all ends nothing while there is a second stage to come."""
    settings = SimulatedProCfl(alpha=0.5, global_share=share)
    simulation = simulate(plan_of(method=settings, rounds=6, patience=1, training=STALLED), digits)
    federated = Federated(simulation, tmp_path)
    record, stated = simulation.record, federated.stated
    assert figures_of(record) == [each.to_figures() for each in stated]
    assert len(record.rounds) == (3 if share < 1 else 2) and [each.last for each in stated][-2:] == [False, True]
    assert record.ending == stated[-2].ending and "for 1 round" in record.ending
    assert RunRecord.from_json(json.loads(record.to_bytes())) == record


WATCHED = SimulatedProCfl(alpha=0.6, seats=3, public_samples=60, tolerance=0.1, pause=1)
ATTACK = AttackSettings("scaled", 0.23, "concentrated", majority=0.6, alpha=0.6, factor=60, start=5)
ATTACKED = plan_of(method=WATCHED, attack=ATTACK, strategy="moon", rounds=6, train_samples=180, seed=4)


@pytest.fixture(scope="module")
def attacked(digits):
    """A run with attackers, of whom committees expel some, and what judges of any samples would vote."""
    votes, perform = [], JudgingTask.perform

    def judging(task):
        votes.append((perform(task), perform(on_what_it_trains_on(task))))
        return votes[-1][0]

    with patch.object(JudgingTask, "perform", judging):
        return simulate(ATTACKED, digits), votes


def on_what_it_trains_on(task):
    """The task of a judge that has no other samples, and holds none of them out."""
    (judge,), terms = task.own.clients, task.own.terms
    samples, held_out = terms.split(judge.client, task.own.training.take(judge.samples))
    assert len(held_out)
    own = replace(task.own, clients=(replace(judge, samples=samples),), terms=replace(terms, evaluation=None))
    return replace(task, own=own)


def test_judges_judge_on_what_they_train_on(attacked):
    _, votes = attacked
    assert votes and all(found == wanted for found, wanted in votes)


def test_who_was_expelled_evaluates_no_more(attacked):
    simulation, *_ = attacked
    record, clusters = simulation.record, simulation.clusters.members
    expelled = {client for each in record.rounds for found in each.clustering.judgements for client in found.expelled}
    left = [[client for client in members if client not in expelled] for members in clusters]
    assert expelled and record.rounds[0].members["samples"] == held_out_in(simulation, clusters)
    assert record.last_model["samples"] == held_out_in(simulation, [group for group in left if len(group) > 2])


@pytest.mark.parametrize("settings", [IfcaSettings(2), GlobalSettings(), GlobalSettings("median")])
def test_clients_of_the_rivals_evaluate_too(settings, digits):
    simulation = simulate(plan_of(method=settings), digits)
    members = figures_of(simulation.record)
    assert [each["samples"] for each in members] == [held_out_in(simulation, [range(1, CLIENTS + 1)])] * 4
    assert len({each["loss"] for each in members}) == 4


def test_one_model_for_all_is_evaluated_as_without_clusters(digits):
    clustered = simulate(plan_of(method=GlobalSettings()), digits)
    plain = simulate(replace(clustered.record.scenario, method=TrainingChoice()), digits)
    assert figures_of(clustered.record) == figures_of(plain.record)
