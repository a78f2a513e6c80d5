"""The plan's arithmetic by hand, and plan and cost as each other's inverse."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from fedgrove.common.errors import InvalidInput
from fedgrove.node.privacy.accountant import GaussianRelease, affords
from fedgrove.node.privacy.plan import PlannedTraining, binomial_quantile, cost, outlook

TRAINING = PlannedTraining(clients=1000, rate=0.22, rounds=54, parameters=10_000, delta=1e-5)


@pytest.mark.parametrize("participation", ["public", "secret"])
def test_what_was_planned_costs_what_was_asked_for(participation):
    found = outlook(TRAINING, 8.0, participation)
    spent = cost(TRAINING, found.noise_multiplier, budget=8.0)
    own = cost(TRAINING, found.noise_multiplier, TRAINING.participations, budget=8.0).own
    counted = {"public": own, "secret": spent.models}[participation]
    assert 7.9 < counted.epsilon <= 8.0 and counted.rounds_left == 0
    assert found.counted_rounds == counted.rounds == {"public": 19, "secret": 54}[participation]


def test_a_plan_says_what_its_noise_costs_towards_whom():
    """A client of 1,000 that draws no more when its budget is spent, and one that goes on."""
    public, secret = (outlook(TRAINING, 8.0, participation).cost for participation in ("public", "secret"))
    assert (public.average.rounds, public.most_drawn.rounds) == (12, 19)
    assert public.models.epsilon < public.average.epsilon < public.most_drawn.epsilon <= 8
    assert (secret.average.rounds, secret.most_drawn.rounds) == (12, 22)
    assert secret.models.epsilon <= 8 < secret.average.epsilon < secret.most_drawn.epsilon


def test_the_most_drawn_client_is_that_in_half_of_all_trainings():
    rng = np.random.default_rng(0)
    most = rng.binomial(54, 0.22, (2000, 1000)).max(axis=1)
    assert np.median(most) == TRAINING.most_drawn == 22
    assert (
        PlannedTraining(1, 0.5, 11, 1, 1e-3).most_drawn == 5 and PlannedTraining(10, 1.0, 11, 1, 1e-3).most_drawn == 11
    )


def test_noise_to_signal_by_hand():
    found = outlook(TRAINING, 8.0, "secret")
    assert found.noise_multiplier == pytest.approx(1.251, abs=0.001)
    assert found.noise_to_signal == pytest.approx(1.251 * 100 / 220, rel=0.001)  # σ√d/m
    assert found.noise_deviation == pytest.approx(1.251 / 220, rel=0.001)
    assert found.drawn_for_one == math.ceil(found.noise_multiplier * 100)
    spare = PlannedTraining(1000, 0.22, 54, 10_000, 1e-5, dropouts=0.19)
    assert outlook(spare, 8.0, "secret").noise_to_signal == pytest.approx(found.noise_to_signal / 0.9)


def test_local_noise_is_that_of_each_client_for_itself():
    found = outlook(TRAINING, 8.0, "public")
    # As often as it takes part, with sensitivity 2S, and only √m of it averages out.
    assert found.local_noise_to_signal == pytest.approx(2 * found.noise_multiplier * 100 / math.sqrt(220), rel=0.001)


def test_lost_noise_costs_unless_it_was_provided_for():
    full, lost = cost(TRAINING, 2.0), cost(TRAINING, 2.0, lost=0.2)
    assert lost.average.epsilon > full.average.epsilon and lost.models.epsilon > full.models.epsilon
    provided = PlannedTraining(1000, 0.22, 54, 10_000, 1e-5, dropouts=0.2)
    assert cost(provided, 2.0, lost=0.2) == cost(provided, 2.0) == full
    assert cost(provided, 2.0, lost=0.3).average.epsilon > full.average.epsilon


def test_own_participations_can_be_told():
    assert cost(TRAINING, 2.0).own is None
    assert cost(TRAINING, 2.0, participations=0).own.epsilon == 0
    ten = cost(TRAINING, 2.0, participations=10, budget=8.0).own
    assert affords([GaussianRelease(2.0, 1.0, 10 + ten.rounds_left)], 8.0, 1e-5)
    assert not affords([GaussianRelease(2.0, 1.0, 11 + ten.rounds_left)], 8.0, 1e-5)


@pytest.mark.parametrize(
    "trials, probability", [(1, 0.5), (54, 0.22), (412, 0.05), (100_000, 1e-4), (11, 1.0), (3000, 0.9)]
)
def test_the_quantile_is_the_binomials(trials, probability):
    assert binomial_quantile(trials, probability, 0.99) == binom.ppf(0.99, trials, probability)


@pytest.mark.parametrize(
    "name, value",
    [
        ("clients", 0),
        ("rate", 0.0),
        ("rate", 1.5),
        ("rounds", 0),
        ("parameters", 0),
        ("delta", 0.0),
        ("dropouts", 0.95),
    ],
)
def test_a_training_that_makes_no_sense_is_refused(name, value):
    terms = {"clients": 10, "rate": 0.5, "rounds": 5, "parameters": 10, "delta": 1e-5, name: value}
    with pytest.raises(InvalidInput, match=f"^{name} must be"):
        PlannedTraining(**terms)
