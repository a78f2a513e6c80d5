"""The search for colluders to withhold: what it finds is a trap, and it misses none that there is."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.chain.crypto import tree
from fedgrove_lab.attacks.withholding import find_trap


def traps(honest, colluders, partners) -> set[tuple[int, ...]]:
    """By trying all subsets of colluders: those whose drawing leaves an honest ticket only colluders for partners."""
    found = set()
    for count in range(1, len(colluders) + 1):
        for drawing in combinations(sorted(colluders), count):
            if any(is_trapped(honest, drawing, victim, partners) for victim in honest):
                found.add(drawing)
    return found


def is_trapped(honest, drawing, victim, partners) -> bool:
    order = sorted([*honest, *drawing])
    return all(order[partner] in set(drawing) for partner in partners(order.index(victim), len(order)))


def ring(position: int, n: int) -> tuple[int, ...]:
    return tuple({(position - 1) % n, (position + 1) % n} - {position})


@settings(max_examples=150)
@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=12, unique=True), st.data())
@pytest.mark.parametrize("partners", [tree.partners, ring], ids=["tree", "ring"])
def test_it_finds_a_trap_where_there_is_one_and_none_elsewhere(partners, tickets, data):
    cut = data.draw(st.integers(1, len(tickets) - 1))
    honest, colluders = tickets[:cut], tickets[cut:]
    trap, all_of_them = find_trap(honest, colluders, partners), traps(honest, colluders, partners)
    if trap is None:
        assert not all_of_them
    else:
        assert set(trap.drawing) <= set(colluders) and trap.victim in honest
        assert is_trapped(honest, trap.drawing, trap.victim, partners)
        assert len(trap.drawing) == max(map(len, all_of_them))  # as few as possible stay away


def test_no_colluders_trap_nobody():
    assert find_trap([1, 2, 3], [], tree.partners) is None


@pytest.mark.parametrize("instance", range(3))
def test_a_third_of_a_hundred_trap_somebody(instance):
    tickets = [int(ticket) for ticket in np.random.default_rng(instance).choice(2**60, 100, replace=False)]
    trap = find_trap(tickets[33:], tickets[:33], tree.partners)
    assert is_trapped(tickets[33:], trap.drawing, trap.victim, tree.partners)
    assert len(trap.drawing) >= 25  # a few withheld draws are enough
