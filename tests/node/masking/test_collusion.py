"""The threat model's table: formula against enumeration and simulation, and its rows against the parameters."""

from itertools import combinations
from math import comb, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.node.masking.collusion import (
    FRACTIONS,
    SIZES,
    TRIES,
    exposed,
    exposure_bound,
    exposure_table,
    simulated_exposure,
)
from fedgrove.node.masking.graph import random_regular
from fedgrove.node.masking.parameters import PPM, PRIVACY_BITS, Assumed, partners_of_all, sharing
from tests.node.masking.rounds import tree_partners


@pytest.mark.parametrize(("n", "colluders", "degree"), [(8, 2, 1), (8, 3, 3), (8, 5, 3), (10, 4, 2)])
def test_the_formula_equals_the_count_over_all_sets_of_partners(n, colluders, degree):
    sets = list(combinations(range(n - 1), degree))  # of an honest client: the first of the others collude
    hits = sum(all(other < colluders for other in own) for own in sets)
    assert exposure_bound(n, colluders, degree) == pytest.approx(min(1, (n - colluders) * hits / len(sets)))


def test_fewer_colluders_than_partners_expose_nobody_however_many_orders_are_tried():
    assert exposure_bound(100, 5, 6, TRIES) == 0


def test_each_order_that_is_tried_adds_its_chance():
    once = exposure_bound(1000, 330, 20)
    assert exposure_bound(1000, 330, 20, 1000) == pytest.approx(1000 * once)
    assert exposure_bound(1000, 330, 20, TRIES) == 1  # a chance, whatever the number of tries


def test_exposed_are_honest_positions_with_colluding_partners_only():
    neighbours = ((1, 2), (0,), (0, 3), (2,), ())
    assert exposed(neighbours, frozenset({1, 2})) == [0, 3]
    assert exposed(neighbours, frozenset({0, 2, 3})) == [1]
    assert exposed(neighbours, frozenset()) == []


@pytest.mark.parametrize(("n", "colluders", "degree"), [(16, 5, 4), (32, 10, 4), (64, 21, 5)])
def test_the_bound_is_above_the_simulation_and_close_to_it(n, colluders, degree):
    bound = exposure_bound(n, colluders, degree)
    seen = simulated_exposure(n, colluders, degree, 4_000, np.random.default_rng(1))
    assert 0.4 * bound < seen < bound + 3 * (seen / 4_000) ** 0.5


@given(st.integers(5, 60), st.integers(2, 10), st.data())
def test_partners_of_the_tree_only_add_to_the_random_ones(n, degree, data):
    """The bound counts random partners alone; with the tree's, nobody is exposed who was not."""
    colluders = frozenset(data.draw(st.lists(st.integers(0, n - 1), unique=True, max_size=n - 1)))
    random = random_regular(n, degree, data.draw(st.binary(max_size=4)))
    both = [tuple({*own, *more}) for own, more in zip(tree_partners(n), random, strict=True)]
    assert set(exposed(both, colluders)) <= set(exposed(random, colluders))


# --- the table --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows():
    return {row.clients: row for row in exposure_table()}


def test_a_row_states_what_a_round_of_so_many_clients_gets(rows):
    assert set(rows) == set(SIZES)
    for n, row in rows.items():
        shares = sharing(n, Assumed())
        assert row.partners == partners_of_all(n, Assumed())
        assert (row.holders, row.threshold) == (shares.holders, shares.threshold)
        colluders = [round(fraction * PPM) * n // PPM for fraction in FRACTIONS]
        assert row.bounds == tuple(exposure_bound(n, bad, row.partners, TRIES) for bad in colluders)


def test_within_the_default_terms_two_to_the_forty_orders_leave_two_to_the_minus_forty(rows):
    for row in rows.values():
        for fraction, bound in zip(FRACTIONS, row.bounds, strict=True):
            assert fraction <= 0.33 and bound <= 2.0 ** (log2(TRIES) - PRIVACY_BITS)


def test_beyond_the_terms_the_bound_is_lost():
    (row,) = exposure_table((1000,), (0.8,))
    assert row.bounds[0] > 2**-40
    (row,) = exposure_table((1000,), (0.8,), Assumed.of(0.8, 0.0))
    assert row.bounds[0] <= 2**-40


@given(st.integers(2, 400), st.data())
def test_views_are_the_most_colluders_that_cannot_open_both_secrets(threshold, data):
    """m colluding holders give shares to both sides, the k − m honest ones to one side each: t on both sides?"""
    holders = data.draw(st.integers(threshold, 2 * threshold - 1))
    views = max(0, 2 * threshold - holders - 1)
    for colluders in (views, views + 1):
        honest = holders - colluders
        both = colluders + honest // 2 >= threshold and colluders + honest - honest // 2 >= threshold
        assert both == (colluders > views) or (views == 0 and colluders == 0)


def test_views_of_the_rows(rows):
    for row in rows.values():
        assert row.views == max(0, 2 * row.threshold - row.holders - 1)
    assert rows[32].views == 10 == Assumed().colluders_of(32)
    assert rows[100].views == 0  # one list of survivors has to be the proven one


def test_the_chance_is_exact_where_floats_would_lose_it():
    assert exposure_bound(10_000, 3_300, 60) == pytest.approx(6_700 * (comb(3_300, 60) / comb(9_999, 60)), rel=1e-12)
