"""Clustered trainings: models by the formulas of the papers, the same bytes anywhere and after any stop."""

import shutil
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import Layout, flatten, unflatten
from fedgrove.node.learning.networks import evaluate, train
from fedgrove.node.learning.settings import PartitionSettings
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.methods.procfl.training import global_weights
from fedgrove.node.scenario.clusters import GlobalSettings, IfcaSettings, Mean, SimulatedProCfl
from fedgrove.node.scenario.method import TrainingChoice
from fedgrove.node.scenario.poisoning import AttackSettings
from fedgrove.node.simulation.clustered.run import ClusteredSimulation
from fedgrove.node.simulation.clustered.similarity import CLUSTERS, COMPARISONS
from fedgrove.node.simulation.executors import InlineExecutor
from fedgrove.node.simulation.kinds import simulation_of
from fedgrove.node.simulation.run import Simulation
from tests.node.methods.procfl.means import cluster_mean, weighted_mean
from tests.node.simulation.clustered import ifca
from tests.node.simulation.clustered.conftest import PROCFL, grouped_plan, simulate

WATCHED = SimulatedProCfl(alpha=0.6, psi="ecdh", seats=3, public_samples=60, tolerance=0.1, pause=1)
ATTACKED = grouped_plan(
    method=WATCHED,
    attack=AttackSettings("scaled", 0.23, "concentrated", majority=0.6, alpha=0.6, factor=60, start=5),
    strategy="moon",
    rounds=6,
    train_samples=180,
)


def trained(simulation, tensors, client, number):
    """A client's model of a round, as the node's own training gives it."""
    plan, data = simulation.record.scenario, simulation.data
    update = train(
        data.spec,
        tensors,
        data.training.take(data.parts[client - 1]),
        None,
        make_strategy("fedavg", {}),
        plan.training,
        number=number,
        rounds=plan.rounds,
        client=client,
        seed=plan.seed,
    )
    return flatten(update.tensors)


def models_of(simulation) -> list[dict]:
    """The models, apart."""
    found: dict[int, dict] = {}
    for name, tensor in simulation.tensors.items():
        number, _, own = name.partition("/")
        found.setdefault(int(number), {})[own] = tensor
    return [found[number] for number in sorted(found)]


# --- the papers' formulas --------------------------------------------------------------------------------------------


def test_one_model_for_all_is_fedavg_to_the_bit(digits):
    plan = grouped_plan(sampling_rate=0.5, rounds=2, method=GlobalSettings())
    simulation = simulate(plan, digits)
    plain = simulate(plan.changed(method=TrainingChoice()), digits)
    assert simulation.record.model_digest == plain.record.model_digest
    for own, other in zip(simulation.record.rounds, plain.record.rounds, strict=True):
        assert replace(own, clustering=None, accuracy=other.accuracy) == replace(other, loss=own.loss)
        assert own.accuracy == pytest.approx(other.accuracy) and own.loss == pytest.approx(other.loss)


def test_procfl_averages_all_clusters_first_and_each_by_itself_then(digits):
    simulation = simulate(grouped_plan(rounds=2, method=PROCFL), digits)
    clusters = simulation.clusters.members
    assert sorted(clusters) == [(1, 4, 7), (2, 5, 8), (3, 6, 9)]
    tensors = ClusteredSimulation(simulation.record.scenario, digits, InlineExecutor(), 1).tensors
    layout, bound = Layout.of(tensors), 8.0
    first = {client: trained(simulation, tensors, client, 1) for client in range(1, 10)}
    weights = global_weights(clusters)
    mean = weighted_mean([first[client] for client in weights], list(weights.values()), layout, bound)
    everybody = unflatten(mean, layout)
    for members, model in zip(clusters, models_of(simulation), strict=True):
        expected = cluster_mean([trained(simulation, everybody, client, 2) for client in members], layout, bound)
        assert np.array_equal(flatten(model), expected)
    assert simulation.record.rounds[0].clustering.groups == (tuple(range(1, 10)),)
    assert simulation.record.rounds[1].clustering.groups == clusters


def test_ifca_is_its_algorithm(digits):
    simulation = simulate(grouped_plan(rounds=1, method=IfcaSettings(3)), digits)
    fresh = ClusteredSimulation(simulation.record.scenario, digits, InlineExecutor(), 1)
    data, models = fresh.data, models_of(fresh)
    assert len({flatten(model).tobytes() for model in models}) == 3
    own = [data.training.take(part) for part in data.parts]
    losses = np.array([[evaluate(data.spec, model, samples).loss for model in models] for samples in own])
    choices = dict(enumerate(ifca.estimate(losses).tolist(), 1))
    layout = Layout.of(models[0])
    updates = {client: trained(simulation, models[choice], client, 1) for client, choice in choices.items()}
    samples = {client: len(part) for client, part in enumerate(data.parts, 1)}
    expected = ifca.average([flatten(model) for model in models], updates, choices, samples, layout, 8.0)
    assert all(np.array_equal(flatten(m), e) for m, e in zip(models_of(simulation), expected, strict=True))
    assert simulation.record.rounds[0].clustering.groups == tuple(
        tuple(client for client, choice in choices.items() if choice == number) for number in range(3)
    )


def test_personalised_accuracy_is_that_of_the_clients_models_on_data_like_their_own(digits):
    simulation = simulate(grouped_plan(method=PROCFL), digits)
    data, result = simulation.data, simulation.record.rounds[-1]
    personal, plain = [], []
    for client, part in enumerate(data.parts, 1):
        (number,) = (k for k, members in enumerate(simulation.clusters.members) if client in members)
        score = evaluate(data.spec, models_of(simulation)[number], data.test)
        shares = np.array(score.right) / np.array(score.per_label)
        counts = np.bincount(data.training.y[part], minlength=10)
        personal.append(counts @ shares / counts.sum())
        plain.append(score.accuracy)
    assert result.clustering.personal_accuracy == pytest.approx(np.mean(personal))
    assert result.accuracy == pytest.approx(np.mean(plain))


def test_a_client_in_several_clusters_takes_the_model_that_suits_it(digits):
    skewed = PartitionSettings("dirichlet", alpha=0.3)
    settings = SimulatedProCfl(alpha=0.35, global_share=0.3)
    simulation = simulate(grouped_plan(rounds=3, partition=skewed, method=settings), digits)
    clusters = simulation.clusters.members
    assert sum(map(len, clusters)) > 9
    before = models_of(simulate(simulation.record.scenario, digits, rounds=2))
    own = [simulation.data.training.take(part) for part in simulation.data.parts]
    groups = simulation.record.rounds[2].clustering.groups
    for number, group in enumerate(groups):
        for client in group:
            options = [k for k, members in enumerate(clusters) if client in members]
            losses = [evaluate(simulation.data.spec, before[k], own[client - 1]).loss for k in options]
            assert number == options[int(np.argmin(losses))]
    # Groups of fewer than three cannot mask, and do not train.
    assert all(len(group) == 0 or len(group) >= 3 for group in groups) and sum(map(len, groups)) >= 6


def test_robust_means_see_single_models_and_do_not_follow_noise(digits):
    attack = AttackSettings("gaussian", 0.2, factor=50)
    plan = grouped_plan(rounds=1, method=GlobalSettings(), attack=attack, train_samples=90, evaluate_every=9)
    start = flatten(ClusteredSimulation(plan, digits, InlineExecutor(), 1).tensors)
    lengths = {}
    for mean in get_args(Mean):
        robust = simulate(plan.changed(method=GlobalSettings(mean)), digits)
        lengths[mean] = np.linalg.norm(flatten(robust.tensors) - start)
    assert all(lengths[mean] < 0.2 * lengths["mean"] for mean in get_args(Mean) if mean != "mean")


# --- the same bytes --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def attacked(digits, tmp_path_factory):
    """A run with private comparisons, a strategy that keeps states, attackers and committees; its directory."""
    directory = tmp_path_factory.mktemp("attacked")
    simulation = simulate(ATTACKED, digits, directory=directory)
    assert any(found.expelled for found in simulation.record.rounds[5].clustering.judgements)
    return simulation, directory


def test_a_finished_run_is_resumed_by_doing_nothing(attacked, digits, tmp_path):
    copy = shutil.copytree(attacked[1], tmp_path / "run")
    again = simulation_of(ATTACKED, digits, InlineExecutor(), 1, copy, resume=True)
    assert list(again.run()) == [] and again.record == attacked[0].record


def test_the_clusters_do_not_depend_on_how_overlaps_are_found(attacked, digits):
    clear = simulate(replace(ATTACKED, method=replace(WATCHED, psi="clear")), digits, rounds=1)
    assert clear.clusters == attacked[0].clusters


def test_comparisons_that_were_cut_off_are_made_again(attacked, digits, tmp_path):
    content = (attacked[1] / COMPARISONS).read_bytes()
    (tmp_path / COMPARISONS).write_bytes(content[: len(content) * 2 // 3])
    simulate(ATTACKED, digits, directory=tmp_path, rounds=1)
    assert (tmp_path / CLUSTERS).read_bytes() == (attacked[1] / CLUSTERS).read_bytes()


def test_comparisons_of_others_and_damaged_ones_are_refused(attacked, digits, tmp_path):
    head, *rest = (attacked[1] / COMPARISONS).read_text().splitlines(keepends=True)
    for text, word in (
        ('"00"\n' + "".join(rest), "of other clients"),
        (head + "[[1]]\n", "is damaged"),
        (head + "".join(rest) + "[[0, 1, 1, 1, 1]]\n", "is damaged"),
    ):
        (tmp_path / COMPARISONS).write_text(text)
        with pytest.raises(InvalidContent, match=word):
            simulate(ATTACKED, digits, directory=tmp_path, rounds=1)


# --- what cannot be run ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"clients": 6_000}, "at most 5000 clients"),
        ({"strategy": "fedaom", "options": {"quality": 1}}, "unknown key strategy.options.quality"),
        ({"partition": replace(grouped_plan().partition, groups=11)}, "11 groups need at least 11 clients"),
    ],
)
def test_a_plan_that_does_not_suit_is_refused(changes, word, digits):
    with pytest.raises(InvalidConfig, match=word):
        ClusteredSimulation(grouped_plan(**{"method": PROCFL, **changes}), digits, InlineExecutor(), 1)


def test_a_plain_simulation_refuses_clustering(digits):
    with pytest.raises(InvalidConfig, match="clustered"):
        Simulation(grouped_plan(method=PROCFL), digits, InlineExecutor(), 1)
