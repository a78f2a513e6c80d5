"""Partners, holders and thresholds: the fewest that keep the stated bounds, by other arithmetic than the code's."""

from fractions import Fraction
from itertools import combinations
from math import comb, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, hypergeom

from fedgrove.node.masking.parameters import (
    FAILURE_BITS,
    FEWEST_PARTNERS,
    PPM,
    PRIVACY_BITS,
    SMALL,
    Assumed,
    Sharing,
    crowd,
    partners_needed,
    partners_of_all,
    sharing,
    with_dropouts,
)

DEFAULT = Assumed()
ROUNDING = 1e-6  # of scipy's logarithms
rounds = st.builds(
    lambda n, colluders, dropouts: (n, Assumed(colluders, dropouts)),
    st.integers(SMALL + 1, 400),
    st.integers(0, 450_000),
    st.integers(0, 400_000),
)


def log_exposure(n: int, bad: int, degree: int) -> float:
    """log of (honest clients) · P(all partners of one are bad)."""
    return log(n - bad) + hypergeom.logpmf(degree, n - 1, bad, degree)


def log_opened(n: int, colluders: int, holders: int, threshold: int) -> float:
    """log of n · P(at least ``threshold`` of the holders collude)."""
    return log(n) + hypergeom.logsf(threshold - 1, n - 1, colluders, holders)


def log_lost(n: int, dropouts: int, holders: int, threshold: int) -> float:
    """log of n · P(fewer than ``threshold`` of the holders are left)."""
    return log(n) + binom.logcdf(threshold - 1, holders, 1 - dropouts / PPM)


# --- partners ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "bad", "partners"), [(100, 33, 33), (1000, 200, 37), (1000, 330, 54)])
def test_the_figures_of_the_specification(n, bad, partners):
    assert partners_needed(n, bad) == partners


@given(st.integers(3, 2000), st.floats(0, 0.9), st.sampled_from([20, 40, PRIVACY_BITS]))
def test_partners_are_the_fewest_that_keep_the_bound(n, fraction, bits):
    bad = int(fraction * n)
    degree = partners_needed(n, bad, bits)
    limit = -bits * log(2)
    assert degree == n - 1 or log_exposure(n, bad, degree) <= limit + ROUNDING
    assert not degree or log_exposure(n, bad, degree - 1) > limit - ROUNDING


@pytest.mark.parametrize(("n", "bad"), [(8, 3), (9, 5), (10, 6)])
@pytest.mark.parametrize("bits", [1, 2, 4])
def test_partners_by_enumeration(n, bad, bits):
    """Count the sets of partners of an honest client among the n − 1 others, of whom the first are bad."""

    def chance(degree: int) -> Fraction:
        sets = list(combinations(range(n - 1), degree))
        return (n - bad) * Fraction(sum(all(other < bad for other in own) for own in sets), len(sets))

    fewest = next((d for d in range(n) if chance(d) <= Fraction(1, 1 << bits)), n - 1)
    assert partners_needed(n, bad, bits) == fewest


@given(st.integers(4, 600), st.data())
def test_more_colluders_and_more_bits_never_ask_for_fewer_partners(n, data):
    bad = data.draw(st.integers(0, n - 2))
    assert partners_needed(n, bad) <= partners_needed(n, bad + 1)
    assert partners_needed(n, bad, 40) <= partners_needed(n, bad, 41)


@given(st.integers(3, 3000), st.integers(0, 500_000), st.integers(0, 500_000))
def test_partners_of_all_count_dropouts_as_colluders_and_are_sixteen_at_least(n, colluders, dropouts):
    assumed = Assumed(colluders, dropouts)
    bad = colluders * n // PPM + dropouts * n // PPM
    expected = max(FEWEST_PARTNERS, partners_needed(n, min(bad, n - 1)))
    assert partners_of_all(n, assumed) == min(n - 1, expected)


def test_assumed_fractions_become_millionths():
    assert Assumed.of(0.33, 0.2) == DEFAULT == Assumed(330_000, 200_000)
    assert [DEFAULT.colluders_of(n) for n in (3, 4, 100, 1000)] == [0, 1, 33, 330]


# --- holders ----------------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(rounds)
def test_shares_keep_both_bounds_and_a_majority_of_holders_is_needed(case):
    n, assumed = case
    found = sharing(n, assumed)
    colluders = assumed.colluders_of(n)
    assert 2 * found.threshold > found.holders and found.threshold <= found.holders <= n - 1
    assert found.holders * n % 2 == 0
    if found.holders < n - 1:
        assert log_opened(n, colluders, found.holders, found.threshold) <= -PRIVACY_BITS * log(2) + ROUNDING
        assert log_lost(n, assumed.dropouts, found.holders, found.threshold) <= -FAILURE_BITS * log(2) + ROUNDING
    else:
        assert found.threshold == max((n - 1) // 2 + 1, colluders + 1)  # nobody can have more than all colluders


@settings(max_examples=25)
@given(rounds, st.data())
def test_neither_fewer_holders_nor_a_lower_threshold_would_do(case, data):
    n, assumed = case
    found, colluders = sharing(n, assumed), assumed.colluders_of(case[0])
    private, lasting = -PRIVACY_BITS * log(2), -FAILURE_BITS * log(2)
    majority = found.holders // 2 + 1
    if found.threshold > majority:
        assert log_opened(n, colluders, found.holders, found.threshold - 1) > private - ROUNDING
    if found.holders == SMALL:
        return
    fewer = data.draw(st.integers(SMALL, found.holders - 1))
    if fewer * n % 2 == 0:
        fine = [
            t
            for t in range(fewer // 2 + 1, fewer + 1)
            if log_opened(n, colluders, fewer, t) <= private - ROUNDING
            and log_lost(n, assumed.dropouts, fewer, t) <= lasting - ROUNDING
        ]
        assert not fine


@pytest.mark.parametrize("n", range(3, SMALL + 1))
@pytest.mark.parametrize("colluders", [0, 100_000, 330_000, 500_000])
def test_in_small_rounds_two_lists_of_survivors_gain_colluders_nothing(n, colluders):
    """Everybody holds; t shares of each of two lists would need (k + m)/2 holders or fewer on each side."""
    found = sharing(n, Assumed(colluders, 200_000))
    bad = min(colluders * n // PPM, n - 2)
    assert found.holders == n - 1
    assert bad < found.threshold <= found.holders
    assert 2 * found.threshold > found.holders + bad or found.threshold == found.holders


@given(st.integers(SMALL + 1, 300), st.integers(0, 400_000), st.integers(0, 300_000))
@settings(max_examples=25)
def test_more_colluders_and_more_dropouts_never_ask_for_fewer_holders(n, colluders, dropouts):
    base = sharing(n, Assumed(colluders, dropouts)).holders
    assert sharing(n, Assumed(colluders + 20_000, dropouts)).holders >= base
    assert sharing(n, Assumed(colluders, dropouts + 20_000)).holders >= base


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (3, Sharing(2, 2)),
        (4, Sharing(3, 3)),
        (8, Sharing(7, 5)),
        (32, Sharing(31, 21)),
        (33, Sharing(32, 17)),
        (100, Sharing(99, 50)),
        (256, Sharing(153, 85)),
        (1000, Sharing(260, 159)),
    ],
)
def test_shares_by_the_default_terms(n, expected):
    assert sharing(n, DEFAULT) == expected


# --- groups -----------------------------------------------------------------------------------------------------------


@given(st.integers(3, 2000), st.integers(0, 450_000))
def test_a_group_is_the_smallest_whose_members_are_as_well_hidden(n, colluders):
    assumed = Assumed(colluders, 0)
    size, bad = crowd(n, assumed), assumed.colluders_of(n)
    assert 3 <= size <= max(3, n)

    def hidden(size: int) -> bool:
        return ((n - bad) * comb(bad, size - 1)) << PRIVACY_BITS <= comb(n - 1, size - 1)

    assert size == n or hidden(size)
    assert size == 3 or not hidden(size - 1)


def test_up_to_a_hundred_clients_no_three_groups_can_be_summed_by_the_default_terms():
    assert all(3 * crowd(n, DEFAULT) > n for n in range(3, 101)) and 3 * crowd(200, DEFAULT) < 200


@given(st.integers(1, 2000), st.integers(0, 500_000))
def test_with_dropouts_as_many_survive_on_average(survivors, dropouts):
    clients = with_dropouts(survivors, Assumed(0, dropouts))
    stay = Fraction(PPM - dropouts, PPM)
    assert clients * stay >= survivors > (clients - 1) * stay
