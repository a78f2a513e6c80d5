"""Clusters: the greedy cover against algorithm 2 written literally, the best against an integer program."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from fedgrove.node.methods.procfl.cover import (
    MAX_OPTIMUM,
    Candidate,
    as_threshold,
    best_cover,
    candidates,
    greedy_cover,
    total_cost,
)
from fedgrove.node.methods.procfl.similarity import in_the_clear

SKEWED = st.integers(2, 12).flatmap(
    lambda clients: st.lists(
        st.lists(st.sampled_from([0, 0, 1, 5, 20]), min_size=4, max_size=4).filter(any),
        min_size=clients,
        max_size=clients,
    )
)
ALPHA = st.sampled_from([0.1, 0.3, 0.5, 0.8, 1.0])


def similarity_of(counts):
    return in_the_clear(np.array(counts, dtype=np.int64))


@given(SKEWED, ALPHA)
def test_candidates_and_greedy_cover_are_those_of_algorithm_2(counts, alpha):
    """With floats, line by line; costs are compared, as rounding may decide ties the other way."""
    similarity = similarity_of(counts)
    ism, everyone = similarity.ism, range(similarity.clients)
    sets, costs = [], {}
    for n in everyone:
        members = frozenset(m for m in everyone if ism[n, m] >= alpha - 1e-12)
        if members not in sets:
            sets.append(members)
        costs[members] = min(costs.get(members, math.inf), 1 / sum(ism[n, m] for m in members))
    found = candidates(similarity, alpha)
    assert [frozenset(candidate.members) for candidate in found] == sets
    assert [float(candidate.cost) for candidate in found] == pytest.approx([costs[members] for members in sets])
    covered: set[int] = set()
    for taken in greedy_cover(found):
        left = {members: costs[members] / len(members - covered) for members in sets if members - covered}
        assert left[frozenset(taken.members)] == pytest.approx(min(left.values()))
        covered |= set(taken.members)
    assert covered == set(everyone)


@settings(max_examples=60)
@given(SKEWED, ALPHA)
def test_the_best_cover_costs_what_the_integer_program_says(counts, alpha):
    found = candidates(similarity_of(counts), alpha)
    best, greedy = best_cover(found), greedy_cover(found)
    assert {client for candidate in best for client in candidate.members} == set(range(len(counts)))
    inside = np.array([[client in candidate.members for candidate in found] for client in range(len(counts))])
    program = milp(
        [float(candidate.cost) for candidate in found],
        integrality=np.ones(len(found)),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(inside.astype(float), lb=1),
    )
    assert float(total_cost(best)) == pytest.approx(program.fun)
    largest = max(len(candidate.members) for candidate in found)
    bound = sum(Fraction(1, k) for k in range(1, largest + 1))
    assert total_cost(best) <= total_cost(greedy) <= bound * total_cost(best) * (1 + Fraction(1, 10**9))


def test_clients_with_one_set_are_one_candidate_at_the_least_cost():
    similarity = similarity_of([[10, 0], [10, 10]])
    assert candidates(similarity, 0.5) == (Candidate((0, 1), Fraction(1, 2)),)


def test_a_client_may_be_in_several_clusters():
    cover = greedy_cover(candidates(similarity_of([[9, 0], [9, 9], [0, 9]]), 0.6))
    assert sorted(candidate.members for candidate in cover) == [(0, 1), (1, 2)]


def test_equal_payloads_go_to_the_first():
    found = [Candidate((0, 1), Fraction(1)), Candidate((1, 2), Fraction(1)), Candidate((2,), Fraction(1, 2))]
    assert greedy_cover(found) == (found[0], found[2])


def test_few_candidates_may_have_many_clients():
    found = [Candidate(tuple(range(start, 70, 2)), Fraction(1)) for start in (0, 1)]
    assert best_cover([*found, Candidate((0, 69), Fraction(1, 9))]) == tuple(found)


def test_twenty_candidates_are_tried_and_more_are_refused():
    found = [Candidate((client,), Fraction(1)) for client in range(MAX_OPTIMUM)]
    assert best_cover(found) == tuple(found)
    with pytest.raises(ValueError, match="at most 20 candidates, not 21"):
        best_cover([*found, Candidate((20,), Fraction(1))])


def test_the_threshold_is_the_decimal_that_was_written():
    assert as_threshold(0.3) == Fraction(3, 10)
