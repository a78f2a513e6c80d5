"""Client-level privacy in the ring: nobody moves the sum by more than S, and the noise is what was promised."""

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
from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.aggregate import InvalidUpdate
from fedgrove.node.masking.limits import check_sum
from fedgrove.node.privacy import client_level
from fedgrove.node.privacy.accountant import GaussianRelease
from fedgrove.node.privacy.client_level import (
    ClientLevelRound,
    between_clients_variance,
    decode_sum,
    fill_up,
    quantise,
    update_scale,
    upload_layout,
)
from fedgrove.node.privacy.clipping import l2_norm
from fedgrove.node.privacy.discrete import add_noise
from fedgrove.node.privacy.grid import Grid, RoundTerms
from fedgrove.node.privacy.settings import ClientLevelSettings
from tests.node.privacy.uploads import noisy_update

FIXED, QUANTILE = ClientLevelSettings(), ClientLevelSettings(clipping="quantile")
EXTREMES = (math.nan, math.inf, -math.inf, 3.4028234663852886e38, -3.4028234663852886e38, 1e-45, -0.0)


def grid(parameters: int, terms: ClientLevelSettings = FIXED, clip: float = 1.0, sharers: int = 10, clients: int = 10):
    return RoundTerms(terms, 1, parameters, clip, clients=clients, rate=1.0, sharers=sharers).grid


def signed(words: np.ndarray) -> np.ndarray:
    return words.view(np.int32).astype(np.int64)


@settings(max_examples=300)
@given(
    arrays(
        np.float32,
        st.integers(1, 60),
        elements=st.one_of(st.floats(width=32), st.sampled_from(EXTREMES), st.floats(-1, 1, width=32)),
    ),
    st.floats(1e-6, 1e6),
    st.floats(0.01, 1000),
    st.sampled_from(["fixed", "quantile"]),
    st.integers(0),
)
@example(np.array([math.nan], np.float32), 1.0, 1.0, "fixed", 0)
@example(np.full(60, 3.4028234663852886e38, np.float32), 1e-6, 0.01, "quantile", 0)
@example(np.full(60, 1e-45, np.float32), 1e6, 1000.0, "fixed", 0)
def test_no_update_moves_the_decoded_sum_by_more_than_s_and_the_stated_rounding(update, clip, noise, clipping, seed):
    terms = ClientLevelSettings(noise_multipliers=(noise,), clipping=clipping)
    own = grid(len(update), terms, clip)
    words = quantise(own, update, Random(seed).randbytes)
    units = signed(words)
    zeros = signed(quantise(own, np.zeros_like(update), Random(seed).randbytes))
    assert ((units - zeros) ** 2).sum() <= own.sensitivity**2  # with the votes: exact, on the integers
    assert (units**2).sum() <= own.sensitivity**2
    assert (units[: len(update)] ** 2).sum() <= own.max_squares
    others = np.random.default_rng(seed % 2**32).integers(0, 2**20, own.length).astype(np.uint32)
    without, _ = decode_sum(own, others, 1.0)
    with_it, _ = decode_sum(own, others + words, 1.0)
    moved = np.linalg.norm(with_it.astype(np.float64) - without.astype(np.float64))
    assert own.reach <= clip * (1.01 if clipping == "fixed" else 1.02)
    assert moved <= own.reach * (1 + 1e-6) + 1e-6 * np.abs(without).sum()  # float32's own rounding of the result


@pytest.mark.parametrize("parameters", [1, 650, 50_000, 400_000])
@pytest.mark.parametrize("shape", ["even", "one", "heavy tails"])
def test_the_reserve_for_rounding_is_enough_and_costs_little(parameters, shape):
    rng = np.random.default_rng(0)
    update = {
        "even": np.ones(parameters),
        "one": np.eye(1, parameters)[0],
        "heavy tails": rng.standard_cauchy(parameters),
    }[shape].astype(np.float32)
    own = grid(parameters)
    words = quantise(own, 100 * update, Random(1).randbytes)
    mean, _ = decode_sum(own, words, 1.0)
    direction = update / l2_norm(update)
    assert mean.astype(np.float64) @ direction == pytest.approx(1.0, abs=0.005)  # nothing had to be shrunk
    assert l2_norm(mean) <= own.reach


@pytest.mark.parametrize("terms", [FIXED, QUANTILE])
def test_an_update_that_rounding_makes_too_long_is_shrunk_until_it_is_not(monkeypatch, terms):
    """Every parameter rounded away from zero: the reserve is for rounding at random, and is too small for that."""
    monkeypatch.setattr(client_level, "_dither", lambda: np.full(1 << 17, 0.999, np.float32))
    own = grid(400_000, terms)
    units = signed(quantise(own, np.ones(400_000, np.float32), Random(0).randbytes))[:400_000]
    assert 0.5 * own.max_squares < (units**2).sum() <= own.max_squares


@pytest.mark.parametrize("value", EXTREMES[:3])
def test_an_update_that_is_not_finite_counts_as_zero_and_as_above_s(value):
    update = np.full(500, 0.01, np.float32)
    update[123] = value
    own = grid(500, QUANTILE)
    units = signed(quantise(own, update, Random(0).randbytes))
    assert not units[:-1].any() and units[-1] == -own.vote


def test_rounding_is_without_bias():
    own = grid(4)
    update = np.array([0.3, 1.7, -0.25, 0.0], np.float32) * np.float32(own.unit)
    random = Random(2)
    units = np.mean([signed(quantise(own, update, random.randbytes)) for _ in range(20_000)], axis=0)
    assert units == pytest.approx([0.3, 1.7, -0.25, 0.0], abs=4.5 * 0.5 / math.sqrt(20_000))


def test_a_small_update_is_not_scaled_and_a_large_one_is_scaled_to_s():
    own = grid(100, clip=2.0)
    small, large = np.full(100, 0.1, np.float32), np.full(100, 7.0, np.float32)
    for update, norm in ((small, 1.0), (large, 2.0)):
        mean, _ = decode_sum(own, quantise(own, update, Random(3).randbytes), 1.0)
        assert l2_norm(mean) == pytest.approx(norm, rel=0.01)


@pytest.mark.parametrize("update", [np.zeros(3, np.float64), np.zeros(4, np.float32), np.zeros((1, 3), np.float32)])
def test_an_update_of_the_wrong_form_is_refused(update):
    with pytest.raises(ValueError, match="the model has 3 float32 parameters"):
        quantise(grid(3), update, Random(0).randbytes)


@pytest.mark.parametrize("dropouts, lost", [(0.0, 0), (0.0, 3), (0.25, 0), (0.25, 5)])
def test_the_noise_of_n_clients_in_the_ring_has_the_promised_variance(dropouts, lost):
    """20,000 coordinates tell a variance to 1 %: ±4.5 % is 4.5 standard errors."""
    clients, parameters, sigma, clip = 20, 20_000, 1.3, 0.7
    terms = ClientLevelSettings(noise_multipliers=(sigma,), dropouts=dropouts)
    own = grid(parameters, terms, clip, sharers=clients, clients=1000)
    total = np.zeros(own.length, np.uint32)
    for client in range(clients - lost):
        total += noisy_update(own, np.zeros(parameters, np.float32), Random(client).randbytes)
    noise, _ = decode_sum(own, total, 1.0)
    needed = math.ceil(clients * (1 - dropouts))
    assert own.needed == needed
    promised = sigma * clip * math.sqrt((clients - lost) / (clients * (1 - dropouts)))
    assert noise.std() == pytest.approx(promised, rel=0.045 / 2 + 0.01)  # and S is up to 1 % larger than told
    assert noise.std() == pytest.approx(own.noise_deviation(clients - lost), rel=0.045 / 2)
    assert stats.kstest(noise / noise.std(), "norm").pvalue > 1e-4
    counted = own.multiplier_of(clients - lost)
    exact = sigma * math.sqrt((clients - lost) / needed)
    assert exact - sigma / 512 <= counted <= exact


def test_the_sum_holds_the_updates_beside_the_noise():
    own = grid(10_000, ClientLevelSettings(noise_multipliers=(0.5,)), sharers=30, clients=30)
    rng = np.random.default_rng(4)
    updates = rng.normal(0, 0.02, (30, 10_000)).astype(np.float32)
    total = sum(noisy_update(own, update, Random(k).randbytes) for k, update in enumerate(updates))
    mean, _ = decode_sum(own, total, 30)
    clipped = sum(update / max(1.0, l2_norm(update)) for update in updates) / 30
    assert (mean - clipped).std() == pytest.approx(own.noise_deviation(30) / 30, rel=0.04)


def test_full_shares_count_as_sigma_exactly_and_lost_ones_are_counted():
    own = grid(1000, ClientLevelSettings(noise_multipliers=(0.983,), dropouts=0.1), sharers=20, clients=500)
    assert own.needed == 18
    assert own.multiplier_of(18) == 0.983 and own.multiplier_of(20) > 0.983 > own.multiplier_of(17) > 0.9
    assert own.multiplier_of(0) == 0
    assert own.release(18, 0.2) == GaussianRelease(0.983, 0.2)
    assert own.release(17, 0.2) == GaussianRelease(own.multiplier_of(17), 0.2) != own.release(18, 0.2)


@pytest.mark.parametrize("dropouts", [0.1, 0.25, 0.5])
@pytest.mark.parametrize("lost", [0, 1, 2])
def test_the_noise_of_a_sum_that_was_filled_up_does_not_tell_how_many_were_to_upload(dropouts, lost):
    """Neither its variance, exactly, nor what was drawn."""
    terms = ClientLevelSettings(noise_multipliers=(0.8,), dropouts=dropouts)
    few, more = (grid(20_000, terms, sharers=n, clients=50) for n in (7, 11))
    assert 7 * few.share_variance == 11 * more.share_variance
    assert few.multiplier_of(7) == more.multiplier_of(11) >= 0.8 / math.sqrt(1 - dropouts) * (1 - 2 / 1024)
    for own in (few, more):
        total = np.zeros(own.length, np.uint32)
        for client in range(own.sharers - lost):
            total += noisy_update(own, np.zeros(20_000, np.float32), Random(client).randbytes)
        fill_up(own, total, own.sharers - lost, bytes(32))
        assert signed(total).std() == pytest.approx(math.sqrt(7 * few.share_variance), rel=0.045 / 2)


@pytest.mark.parametrize("terms", [FIXED, QUANTILE, ClientLevelSettings(noise_multipliers=(0.3,), dropouts=0.3)])
@pytest.mark.parametrize("parameters", [1, 30, 5000])
def test_honest_sums_are_within_the_limits_and_twice_as_much_is_not(terms, parameters):
    own = grid(parameters, terms, sharers=5)
    for seed in range(20):
        updates = [np.full(parameters, 9, np.float32) for _ in range(4)]
        total = sum(noisy_update(own, update, Random(4 * seed + k).randbytes) for k, update in enumerate(updates))
        check_sum(total, own.limits(4, 4))
    beyond = total.copy()
    beyond[:1] += np.uint32(2 * own.limits(4, 4).each)
    with pytest.raises(InvalidUpdate):
        check_sum(beyond, own.limits(4, 4))
    spread = total + np.uint32(2 * math.isqrt(own.limits(4, 4).squares) // math.isqrt(parameters))
    with pytest.raises(InvalidUpdate):
        check_sum(spread, own.limits(4, 4))
    if own.vote:
        votes = total.copy()
        votes[-1:] += np.uint32(2 * own.limits(4, 4).last)
        with pytest.raises(InvalidUpdate, match="last value"):
            check_sum(votes, own.limits(4, 4))


@pytest.mark.parametrize("dropouts", [0.1, 0.3, 0.7, 0.9])
def test_decimal_fractions_of_dropouts_mean_what_they_say(dropouts):
    assert grid(10, ClientLevelSettings(dropouts=dropouts), sharers=10).needed == round(10 * (1 - dropouts))


@given(
    st.integers(1, 10**8), st.floats(0.01, 1000), st.integers(1, 10**5), st.integers(1, 10**6), st.sampled_from("fq")
)
def test_every_grid_keeps_its_promises_or_is_refused(parameters, noise, sharers, clients, kind):
    terms = ClientLevelSettings(noise_multipliers=(noise,), clipping="fixed" if kind == "f" else "quantile")
    try:
        own = RoundTerms(terms, 1, parameters, 1.0, clients=clients, rate=0.1, sharers=sharers).grid
    except InvalidInput:
        return
    assert own.share_variance >= 16
    assert 1 <= own.reach <= 1.02
    assert own.multiplier_of(own.needed) == noise  # nobody may drop out
    assert own.wrap_probability(sharers) <= 1e-9
    # The worst of all sums, with noise of six standard deviations, is still in the ring.
    assert sharers * own.sensitivity + 6 * math.sqrt(sharers * own.share_variance) < 2**31
    more_epsilon, more_delta = own.slack(sharers)
    assert more_epsilon < 1e-50 and more_delta < 1e-50


def test_a_ring_that_is_too_small_is_refused():
    with pytest.raises(InvalidInput, match="draw fewer clients per round"):
        grid(1_600_000, sharers=300_000, clients=300_000)
    own = grid(1_600_000, sharers=200_000, clients=200_000)
    assert own.wrap_probability(200_000) < 1e-9
    assert own.wrap_probability(2**31 // own.sensitivity) == 1.0


@pytest.mark.parametrize(("most", "fits"), [(1e-10, True), (1e-6, False), (0.1, False)])
def test_a_ring_in_which_one_round_in_a_million_wraps_is_refused(most, fits):
    terms = ClientLevelSettings(noise_multipliers=(1000.0,))
    own = grid(1000, terms, sharers=10**6, clients=10**6)
    chances = ((n, replace(own, sharers=n).wrap_probability(n)) for n in range(1_048_000, 10**6, -1))
    sharers, chance = next((n, chance) for n, chance in chances if chance < most)
    assert chance > most / 10
    if fits:
        assert grid(1000, terms, sharers=sharers, clients=10**6).wrap_probability(sharers) == chance
    else:
        with pytest.raises(InvalidInput):
            grid(1000, terms, sharers=sharers, clients=10**6)


def test_the_chance_to_wrap_bounds_what_is_seen():
    """A made-up grid: four updates fill the ring but for two standard deviations of their noise."""
    sensitivity = 536_000_000
    own = Grid(1, 1.0, (2**31 - 4 * sensitivity) / 2 / sensitivity, 4, Fraction(0), sensitivity, 0)
    words = np.full(20_000, 4 * sensitivity, np.uint32)
    for client in range(4):
        add_noise(words, own.share_variance, Random(client).randbytes)
    wrapped = (words.view(np.int32) < 0).mean()
    assert wrapped == pytest.approx(stats.norm.sf(2), abs=0.005)
    assert wrapped < own.wrap_probability(4) < 0.3


def test_votes_count_the_updates_below_s():
    own = grid(100, QUANTILE, sharers=4, clients=100)
    norms = (0.2, 0.9, 1.0, 1.1)
    updates = [np.eye(1, 100, dtype=np.float32)[0] * np.float32(norm) for norm in norms]
    total = sum(quantise(own, update, Random(0).randbytes) for update in updates)
    assert decode_sum(own, total, 4.0)[1] == 0.75
    assert decode_sum(grid(100), np.zeros(100, np.uint32), 4.0)[1] is None


def test_the_vote_has_its_own_budget_within_the_rounds():
    own = RoundTerms(QUANTILE, 1, 1000, 1.0, clients=1000, rate=0.1, sharers=100).grid
    noise = math.sqrt(100 * own.share_variance) / (2 * own.vote)
    assert noise == pytest.approx(100 / 20, rel=0.01)  # σ_b, in updates
    # Andrew et al. 2021, theorem 1, has z_Δ = (z⁻² − (2σ_b)⁻²)^(−1/2); votes of neighbours are twice as far apart here.
    updates_alone = math.sqrt(100 * own.share_variance / own.max_squares)
    assert updates_alone == pytest.approx((1 - noise**-2) ** -0.5, rel=1e-4)
    few = RoundTerms(QUANTILE, 1, 1000, 1.0, clients=3, rate=1.0, sharers=3).grid
    assert few.vote == few.sensitivity // 4
    named = RoundTerms(replace(QUANTILE, quantile_noise=50.0), 1, 1000, 1.0, clients=1000, rate=0.1, sharers=100).grid
    assert named.vote == own.sensitivity // 100


def test_the_upload_has_a_place_for_the_vote():
    layout = Layout(("a", "b"), ((2, 3), (4,)))
    assert upload_layout(layout, grid(10)) == layout
    longer = upload_layout(layout, grid(10, QUANTILE))
    assert longer.length == 11 == grid(10, QUANTILE).length and longer.names[:2] == layout.names


def test_two_uploads_of_one_update_differ():
    own, update = grid(1000), np.zeros(1000, np.float32)
    random = Random(0)
    assert (noisy_update(own, update, random.randbytes) != noisy_update(own, update, random.randbytes)).mean() > 0.9


def test_schedules_change_grid_and_release_by_round():
    terms = ClientLevelSettings(noise_multipliers=(1.0, 2.0), sampling_rates=(0.1, 0.5), phases=(4,))
    grids = [RoundTerms(terms, number, 100, 1.0, clients=100, rate=0.1, sharers=10).grid for number in (1, 3, 4, 9)]
    assert [own.noise_multiplier for own in grids] == [1.0, 1.0, 2.0, 2.0]


def test_the_divisor_tells_nothing_where_participation_is_secret():
    public = ClientLevelRound(FIXED, 1, 100, 1.0, clients=100, rate=0.1, sharers=8)
    assert public.divisor(7) == 7
    assert replace(public, settings=replace(FIXED, participation="secret")).divisor(7) == 10


def test_variance_between_clients_and_update_scale_by_hand():
    updates = np.array([[1.0, 0.0, 4.0], [3.0, 0.0, -2.0]])
    # μ = (2, 0, 1); variances (1, 0, 9); V_c = 10/3; U_s = (4 + 0 + 1)/3
    total, squares = updates.sum(axis=0), float((updates**2).sum())
    assert between_clients_variance(total, squares, 2) == pytest.approx(10 / 3)
    assert update_scale(total, 2) == pytest.approx(5 / 3)
    assert update_scale(total.reshape(3, 1), 2) == pytest.approx(5 / 3)


def test_the_variance_of_a_share_is_exact():
    own = grid(100, ClientLevelSettings(noise_multipliers=(0.7,)), sharers=7, clients=7)
    assert 7 * own.share_variance == Fraction(0.7) ** 2 * own.sensitivity**2 + 9
