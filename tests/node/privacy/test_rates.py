"""Rates inside client-level privacy: nobody moves the sum by more than Δ, and their noise is what was promised."""

import math
from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from fedgrove.common.errors import InvalidInput
from fedgrove.node.privacy.accountant import GaussianRelease
from fedgrove.node.privacy.client_level import (
    ClientLevelRound,
    decode_rates,
    decode_sum,
    quantise,
    rate_words,
)
from fedgrove.node.privacy.grid import Grid, RoundTerms
from fedgrove.node.privacy.settings import ClientLevelSettings
from tests.node.privacy.uploads import noisy_rates, noisy_update

FIXED, QUANTILE = ClientLevelSettings(), ClientLevelSettings(clipping="quantile")
FLOAT32_MAX = 3.4028234663852886e38
RATES = st.one_of(st.none(), st.floats(), st.floats(0, 1), st.sampled_from([0.0, 1.0]))


def grid(parameters=100, rates=1, terms=FIXED, clients=300, trains=True, **changes) -> Grid:
    common = {"clients": clients, "rate": 1.0, "sharers": clients, "rates": rates, "trains": trains}
    return RoundTerms(terms, 1, parameters, 1.0, **common | changes).grid


def signed(words: np.ndarray) -> np.ndarray:
    return words.view(np.int32).astype(object)  # integers without any limit


@settings(max_examples=300)
@given(
    arrays(
        np.float32,
        st.integers(1, 60),
        elements=st.one_of(st.floats(width=32), st.sampled_from([math.nan, math.inf, FLOAT32_MAX, 1e-45])),
    ),
    st.lists(RATES, min_size=1, max_size=20),
    st.floats(0.01, 1000),
    st.sampled_from([FIXED, QUANTILE]),
    st.integers(0),
)
@example(np.full(60, FLOAT32_MAX, np.float32), [1.0] * 20, 0.01, QUANTILE, 0)
@example(np.full(60, FLOAT32_MAX, np.float32), [0.0], 1.0, FIXED, 0)
@example(np.full(1, math.nan, np.float32), [math.nan, math.inf, -math.inf, None], 1.0, QUANTILE, 0)
def test_update_vote_and_rates_together_are_within_the_sensitivity(update, rates, noise, terms, seed):
    own = grid(len(update), len(rates), replace(terms, noise_multipliers=(noise,)), clients=10)
    words = signed(quantise(own, update, Random(seed).randbytes, rates))
    nothing = signed(quantise(own, np.zeros_like(update), Random(seed).randbytes))
    assert sum((words - nothing) ** 2) <= own.sensitivity**2
    assert sum(words**2) <= own.sensitivity**2
    assert max(map(abs, words[-len(rates) :])) <= own.rate and not any(nothing[-len(rates) :])
    assert own.max_squares + 4 * own.vote**2 + own.rates * own.rate**2 == own.sensitivity**2
    assert 1 <= own.reach <= (1.01 if terms is FIXED else 1.02)


@settings(max_examples=200)
@given(st.lists(RATES, min_size=1, max_size=20), st.integers(1, 10**7), st.floats(0.01, 1000), st.integers(0))
def test_a_round_that_only_evaluates_has_the_sensitivity_and_the_cost_of_others(rates, parameters, noise, seed):
    terms = ClientLevelSettings(noise_multipliers=(noise,), clipping="quantile", dropouts=0.1)
    try:
        trains, only = (grid(parameters, len(rates), terms, trains=each) for each in (True, False))
    except InvalidInput:
        return
    words = signed(rate_words(only, rates, Random(seed).randbytes))
    assert sum(words**2) <= only.rates * only.rate**2 <= only.sensitivity**2 == trains.sensitivity**2
    assert only.length == len(rates) and only.vote == 0
    assert only.share_variance == trains.share_variance
    assert [only.release(shares, 0.3) for shares in range(260, 301)] == [
        trains.release(shares, 0.3) for shares in range(260, 301)
    ]
    assert only.release(270, 1.0) == GaussianRelease(noise)
    assert only.rate > 4.4 * trains.rate


def test_rates_cost_the_update_a_twentieth_of_the_square_whatever_their_number():
    for rates in (1, 7, 20):
        own, bare = grid(650, rates), grid(650, 0)
        assert own.sensitivity == bare.sensitivity and own.share_variance == bare.share_variance
        assert own.max_squares / bare.max_squares == pytest.approx(0.95, abs=1e-3)
        assert own.unit / bare.unit == pytest.approx(math.sqrt(1 / 0.95), rel=2e-3)  # of the noise in the update


def test_the_sum_decodes_to_the_mean_of_the_rates_and_to_the_update_and_the_votes():
    own = grid(50, 2, replace(QUANTILE, clip=1.0), clients=4)
    given = [(1.0, 0.25), (0.5, None), (math.nan, 7.0), (0.0, -1.0)]
    updates = [np.eye(1, 50, k, np.float32)[0] * np.float32(0.5) for k in range(4)]
    total = sum(quantise(own, *each) for each in zip(updates, map(_random, range(4)), given, strict=True))
    mean, below = decode_sum(own, total, 4.0)
    assert mean[:5] == pytest.approx([0.125] * 4 + [0], abs=own.unit) and below == 1.0
    first, second = decode_rates(own, total[-2:], 4.0)
    assert first == pytest.approx((1.0 + 0.5 + 0.5 + 0.0) / 4, abs=1 / own.rate)  # what is no number counts as untold
    assert second == pytest.approx((0.25 + 0.5 + 1.0 + 0.0) / 4, abs=1 / own.rate)  # and what is beyond as the end
    alone = sum(rate_words(replace(own, parameters=0, vote=0), rates, _random(0)) for rates in given)
    assert decode_rates(own, alone, 4.0) == pytest.approx((first, second), abs=1 / own.rate)


def _random(seed: int):
    return Random(seed).randbytes


def test_no_rates_at_all_are_words_of_zero_and_another_number_is_refused():
    own = grid(10, 3)
    assert not rate_words(own, (), _random(0)).any() and decode_rates(own, np.zeros(3, np.uint32), 9.0) == (0.5,) * 3
    for wrong in ((0.5,), (0.5,) * 4):
        with pytest.raises(ValueError, match="an upload tells 3"):
            rate_words(own, wrong, _random(0))


@pytest.mark.parametrize("rate", [0.0, 0.123456, 0.5, 0.87, 1.0])
def test_rates_are_rounded_without_bias(rate):
    own, random = grid(10, 20), _random(3)
    found = [decode_rates(own, rate_words(own, (rate,) * 20, random), 1.0) for _ in range(1000)]
    # 20,000 draws of a rounding whose standard deviation is half a unit at most; 4.9 of theirs.
    assert np.mean(found) == pytest.approx(rate, abs=4.9 * 0.25 / own.rate / math.sqrt(20_000))


CLIENTS, TOLD, REPEATED = 300, 20, 25


def sums_of(own: Grid, rates, seed: int, lost: int = 0) -> np.ndarray:
    """The rates' words of a sum of real uploads, each with its share of the noise."""
    total, update = np.zeros(own.length, np.uint32), np.zeros(own.parameters, np.float32)
    for client in range(CLIENTS - lost):
        random = Random(CLIENTS * seed + client).randbytes
        total += noisy_update(own, update, random, rates) if own.parameters else noisy_rates(own, rates, random)
    return total[-own.rates :]


@pytest.mark.parametrize(("trains", "lost"), [(True, 0), (True, 30), (False, 0)])
def test_the_noise_of_the_rates_of_300_clients_is_what_the_round_states(trains, lost):
    """500 noisy means tell the standard deviation to 3.2 %, and the mean to 4.5 % of that.

    The bounds are 4.5 standard errors: a false alarm once in 10⁵ for other seeds. Half the variance, or a bias of a
    third of the standard deviation, would not pass once in a thousand.
    """
    terms = ClientLevelSettings(noise_multipliers=(1.0,), dropouts=0.1)
    planned = ClientLevelRound(terms, 1, 5, 1.0, CLIENTS, 1.0, CLIENTS, rates=TOLD, trains=trains)
    rates = tuple(np.linspace(0.05, 0.95, TOLD))
    survivors = CLIENTS - lost
    found = [
        decode_rates(planned.grid, sums_of(planned.grid, rates, seed, lost), float(survivors))
        for seed in range(REPEATED)
    ]
    noise = np.array(found) - rates
    stated = planned.rate_deviation(survivors)
    full = math.sqrt(TOLD * (20 if trains else 1)) / 2 / survivors  # σ·√(20·m)/2n, and σ·√m/2n
    assert stated == pytest.approx(full * math.sqrt(survivors / (0.9 * CLIENTS)), rel=0.006)  # e is whole
    assert noise.std() == pytest.approx(stated, rel=4.5 / math.sqrt(2 * noise.size))
    assert abs(noise.mean()) < 4.5 * stated / math.sqrt(noise.size)
    assert stats.kstest(noise.ravel() / stated, "norm").pvalue > 1e-4


@pytest.mark.parametrize(("clients", "rates", "promised"), [(300, 1, 0.00745), (1000, 1, 0.00224), (1000, 4, 0.00447)])
def test_what_a_rate_is_off_by(clients, rates, promised):
    planned = ClientLevelRound(FIXED, 1, 10_000, 1.0, clients, 1.0, clients, rates=rates)
    assert planned.rate_deviation(clients) == pytest.approx(promised, rel=0.005)
    only = replace(planned, trains=False)
    assert only.rate_deviation(clients) == pytest.approx(promised / math.sqrt(20), rel=0.005)


def test_where_participation_is_secret_the_stated_deviation_has_the_draw_in_it():
    """The divisor is the expected number: 20,000 simulated draws tell the deviation to 0.5 %; 4.5 standard errors."""
    terms = replace(FIXED, participation="secret")
    planned = ClientLevelRound(terms, 1, 1000, 1.0, clients=2000, rate=0.25, sharers=480, rates=1)
    noise = math.sqrt(480 * planned.grid.share_variance) / (2 * planned.grid.rate * 500)
    drawn = np.random.default_rng(0).binomial(2000, 0.25, 20_000)
    extreme = drawn / 500 / 2  # everybody says 1
    assert planned.rate_deviation(480) == pytest.approx(math.hypot(noise, extreme.std()), rel=4.5 / math.sqrt(40_000))
    assert planned.rate_deviation(300) == planned.rate_deviation(480)  # the noise was filled up
    assert replace(planned, rate=1.0, clients=500).rate_deviation(480) == pytest.approx(noise, rel=1e-6)


@pytest.mark.parametrize("trains", [True, False])
def test_honest_rates_are_within_their_limit_which_is_tight(trains):
    own = grid(30, 3, trains=trains)
    for seed in range(3):
        words = signed(sums_of(own, (1.0, 0.0, 0.5), seed))
        assert max(map(abs, words)) < own.rate_limit(CLIENTS, CLIENTS)
    assert own.rate_limit(CLIENTS, CLIENTS) - CLIENTS * own.rate < 9 * math.sqrt(CLIENTS * own.share_variance)


def test_rates_do_not_make_the_ring_too_small_and_count_in_its_bound():
    own = grid(1000, 20, clients=100_000)
    assert own.wrap_probability(100_000) < 1e-9
    made_up = Grid(1, 1.0, 1.0, 4, Fraction(0), 300_000_000, 0)
    assert replace(made_up, rates=20).wrap_probability(4) > 10 * made_up.wrap_probability(4) > 0
