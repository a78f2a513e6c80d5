"""Who is summed with whom in a round, whatever the ledger let draw."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from fedgrove.chain.records import Position, Withdrawn
from fedgrove.node.methods.kmeans.round_inputs import groups_of
from fedgrove.node.methods.kmeans.state import KMeansState
from fedgrove.node.methods.kmeans.terms import KMeansTerms

TERMS = KMeansTerms(k=2, dimensions=2, step=0.25)
OPENED = 10


@pytest.mark.parametrize(
    ("points", "block", "groups"),
    [
        (0, OPENED, ((0, 2, 3),)),  # left before the round, and was drawn all the same
        (0, OPENED + 1, ()),  # leaves during it: what it has uploaded is summed
        (5, OPENED, ()),  # took points back
    ],
)
def test_who_has_left_is_in_no_group_though_it_draws_and_uploads(points, block, groups):
    """Else a certificate would say that no upload of it is in the sum, and one would be."""
    withdrawal = Withdrawn(Position(block, bytes(32), 0, "0x4"), "0x4", 4, points, bytes(32))
    rounds = SimpleNamespace(rounds={}, withdrawals=[withdrawal])
    current = SimpleNamespace(number=2, order=(3, 4, 1, 2), opened=SimpleNamespace(opened_at=OPENED))
    assert groups_of(rounds, current, KMeansState.empty(2), TERMS) == groups


def test_groups_are_of_nearly_equal_size_and_have_everybody_once():
    rounds = SimpleNamespace(rounds={}, withdrawals=[])
    current = SimpleNamespace(number=2, order=tuple(range(1, 9)), opened=SimpleNamespace(opened_at=OPENED))
    before, terms = replace(KMeansState.empty(2), groups=3), replace(TERMS, smallest_group=3)
    assert groups_of(rounds, current, before, terms) == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert groups_of(rounds, current, before, replace(TERMS, smallest_group=5)) == ()
