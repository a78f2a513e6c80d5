"""The threat model's table: formula against enumeration and simulation."""

from itertools import combinations
from math import comb

import numpy as np
import pytest

from chain import tree
from node.masking.collusion import FRACTIONS, client_exposure, collusion_table, exposure_bound, simulated_exposure
from tests.node.masking.rounds import tree_partners


@pytest.mark.parametrize(("n", "colluders", "degree"), [(8, 2, 1), (8, 3, 3), (8, 5, 3), (10, 4, 2)])
def test_the_formula_equals_the_count_over_all_sets_of_colluders(n, colluders, degree):
    hits = sum(0 not in bad and set(range(1, degree + 1)) <= set(bad) for bad in combinations(range(n), colluders))
    assert client_exposure(n, colluders, degree) == pytest.approx(hits / comb(n, colluders))


def test_fewer_colluders_than_partners_expose_nobody():
    assert client_exposure(100, 5, 6) == 0
    assert exposure_bound([6] * 100, 0.05) == 0


@pytest.mark.parametrize(("n", "fraction"), [(16, 0.33), (32, 0.33), (64, 0.33)])
def test_the_bound_is_above_the_simulation_and_close_to_it(n, fraction):
    partners = tree_partners(n)
    bound = exposure_bound([len(own) for own in partners], fraction)
    seen = simulated_exposure(partners, fraction, 20_000, np.random.default_rng(1))
    assert 0.5 * bound < seen < bound + 3 * (seen / 20_000) ** 0.5 + 1e-4


def test_the_table_has_a_row_for_every_case_and_falls_with_extra_partners():
    rows = collusion_table(lambda n: [tree.partners(p, n) for p in range(n)], sizes=(8, 100, 1000))
    assert len(rows) == 3 * 3 * len(FRACTIONS)
    found = {(row.clients, row.fraction, row.extra_partners): row for row in rows}
    assert found[100, 0.2, 16].probability < found[100, 0.2, 8].probability < found[100, 0.2, 0].probability
    assert found[1000, 0.05, 0].probability < found[1000, 0.33, 0].probability <= 1
    assert found[8, 0.33, 8].fewest_partners == 7
