"""Whether a committee can be drawn: of the seats that it needs, and not from a minority."""

from dataclasses import replace

import pytest
from fedgrove.node.methods.procfl.settings import ProCflSettings
from fedgrove.node.methods.procfl.suspicion import is_fair

TERMS = replace(ProCflSettings(), seats=3, least_pool=0.4)


@pytest.mark.parametrize(
    ("pool", "trained", "fair"),
    [(3, 7, True), (2, 5, False), (4, 10, True), (4, 11, False), (3, 10, False), (0, 0, False)],
)
def test_a_pool_is_large_enough_from_its_bounds_on(pool, trained, fair):
    assert is_fair(TERMS, pool, trained) == fair


def test_without_seats_nobody_is_judged():
    assert not is_fair(replace(TERMS, seats=0), 10, 10)
