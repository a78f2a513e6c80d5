"""Simulations that train clients together: the same bytes on any workers, and the one-by-one run up to rounding."""

import numpy as np
import pytest

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import flatten
from fedgrove.node.learning.local_update import DivergedTraining
from fedgrove.node.learning.settings import EvaluationSettings, PartitionSettings, TrainingSettings
from fedgrove.node.privacy.settings import ClientLevelSettings
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.checks import check_simulated
from fedgrove.node.simulation.executors import InlineExecutor
from fedgrove.node.simulation.run import Simulation
from fedgrove.node.simulation.tasks import groups
from tests.node.simulation.conftest import generated, simulate, small_plan

PRIVATE = ClientLevelSettings(epsilon=50.0, delta=1e-3, noise_multipliers=(0.5,), clip=0.2)


def tiny_plan(**changes) -> Scenario:
    """Thirty clients with unequal numbers of samples, in groups of four."""
    unequal = PartitionSettings("dirichlet", alpha=0.5)
    return small_plan(**{"clients": 30, "model": "small-mlp", "partition": unequal, "together": 4, **changes})


@pytest.mark.parametrize("privacy", [None, PRIVATE], ids=["open", "private"])
@pytest.mark.parametrize(("strategy", "options"), [("fedavg", {}), ("fedprox", {"mu": 0.1})])
def test_the_run_is_that_of_one_client_after_the_other_up_to_rounding(privacy, strategy, options, digits):
    plan = tiny_plan(privacy=privacy, strategy=strategy, options=options)
    found, alone = simulate(plan, digits), simulate(plan.changed(run={"together": 1}), digits)
    # A private sum may round a parameter to the next integer of the grid: one client's unit over the mean.
    unit = 1e-5 if privacy is None else 2 * PRIVATE.clip / 2048
    np.testing.assert_allclose(flatten(found.tensors), flatten(alone.tensors), rtol=0, atol=unit)
    for own, other in zip(found.record.rounds, alone.record.rounds, strict=True):
        assert own.clients == other.clients and own.samples == other.samples
        assert own.train_loss == pytest.approx(other.train_loss, rel=1e-3)
        if privacy is not None:
            assert own.figure("median_norm") == pytest.approx(other.figure("median_norm"), rel=1e-3)


def test_groups_follow_from_who_was_drawn():
    sizes = {5: 3, 2: 9, 9: 3, 7: 4, 1: 9}
    assert groups(sizes, 2) == [(1, 2), (7, 5), (9,)]
    assert groups(dict(reversed(sizes.items())), 2) == groups(sizes, 2)


def test_one_at_a_time_has_the_digest_of_plans_before_there_was_the_choice():
    plan = tiny_plan(together=1)
    assert "together" not in plan.to_json() and plan.digest() != tiny_plan().digest()
    assert Scenario.from_tables(tiny_plan().to_tables()) == tiny_plan()


def test_a_client_that_diverges_ends_the_run_and_counts_as_no_update_under_privacy():
    hot = TrainingSettings(epochs=10, batch_size=4, learning_rate=100.0, momentum=0.99, weight_decay=10.0)
    plan = tiny_plan(training=hot, train_samples=200, partition=PartitionSettings("iid"))
    with pytest.raises(DivergedTraining, match=r"client \d+ (diverged )?in round 1"):
        simulate(plan, generated(200))
    last = simulate(plan.changed(federation={"rounds": 1}, privacy=PRIVATE), generated(200)).record.rounds[-1]
    assert last.train_loss is None and last.figure("median_norm") == 0.0


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"together": 0}, "together must be a whole number"),
        ({"probe_every": 1}, "run.together must be 1 with run.probe_every"),
        ({"evaluation": EvaluationSettings()}, "run.together must be 1 with evaluation"),
        ({"training": TrainingSettings(precision="bf16")}, "run.together must be 1 with training.precision"),
        ({"device": "cuda"}, "run.together must be 1 with run.device = 'cuda'"),
    ],
)
def test_what_the_scenario_says_is_refused_at_once(changes, word):
    with pytest.raises(InvalidConfig, match=word):
        check_simulated(tiny_plan(**changes))


@pytest.mark.parametrize("changes", [{"model": "small-cnn"}, {"strategy": "moon"}])
def test_other_networks_and_strategies_are_refused_before_the_first_round(changes, digits):
    with pytest.raises(InvalidConfig, match="trained together"):
        Simulation(tiny_plan(**changes), digits, InlineExecutor(), 1)
