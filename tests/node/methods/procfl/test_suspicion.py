"""Whether a committee can be drawn: of the seats that it needs, not from a minority; and cases without judges."""

from dataclasses import replace

import pytest

from fedgrove.node.methods.procfl.cases import Case
from fedgrove.node.methods.procfl.settings import ProCflSettings
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.suspicion import is_fair, seated

TERMS = replace(ProCflSettings(), seats=3, least_pool=0.4)


@pytest.mark.parametrize(
    ("pool", "trained", "fair"),
    [(3, 7, True), (2, 5, False), (4, 10, True), (4, 11, False), (3, 10, False), (0, 0, False)],
)
def test_a_pool_is_large_enough_from_its_bounds_on(pool, trained, fair):
    assert is_fair(TERMS, pool, trained) == fair


def test_without_seats_nobody_is_judged():
    assert not is_fair(replace(TERMS, seats=0), 10, 10)


def test_a_case_in_which_nobody_can_be_judged_alone_stays_without_judges():
    two, one = Case(0, (1, 2), (5, 6, 7)), Case(1, (3,), (5, 6, 7))  # at most half of a group is judged
    state = ClusterState("show", ({},), groups=((1, 2), (3,)), cases=(two, one))
    found = seated(TERMS, state, b"lots").cases
    assert [case.seated for case in found] == [True, False]
    assert found[1] == one
