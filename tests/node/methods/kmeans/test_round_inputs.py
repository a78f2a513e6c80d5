"""Who is summed with whom in a round, and when the next one is opened."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from fedgrove.node.methods.kmeans.round_inputs import due, groups_of
from fedgrove.node.methods.kmeans.state import KMeansState
from fedgrove.node.methods.kmeans.terms import KMeansTerms
from fedgrove.node.protocol.terms import FederationConfig, MaskingSettings

TERMS = KMeansTerms(k=2, dimensions=2, step=0.25)


def test_groups_are_of_nearly_equal_size_and_have_everybody_once():
    rounds = SimpleNamespace(rounds={}, quorum=3)
    everybody = tuple(range(1, 9))
    current = SimpleNamespace(number=2, order=everybody, known=everybody, registered=8, draws_all=True)
    before = replace(KMeansState.empty(2), groups=3)

    def groups(smallest: int, colluders: float):
        terms = FederationConfig(replace(TERMS, smallest_group=smallest), masking=MaskingSettings(colluders=colluders))
        return [group.positions for group in groups_of(rounds, current, before, terms)]

    assert groups(3, 0.33) == [(0, 1, 2, 3), (4, 5, 6, 7)] and groups(5, 0.33) == []
    assert groups(3, 0.45) == []  # three colluders among five would read the other two


def round_at(number: int, opened_at: int, ended_at: int) -> SimpleNamespace:
    """A round in which nobody committed."""
    opened, ending = SimpleNamespace(opened_at=opened_at), SimpleNamespace(at=SimpleNamespace(block=ended_at))
    return SimpleNamespace(number=number, opened=opened, ending=ending, voided=None, commits={}, stands=False)


@pytest.mark.parametrize(("whole", "doublings"), [(5, 0), (4, 0), (3, 1), (2, 2)])
def test_a_member_that_never_answers_is_waited_for_twice_as_long_after_each_round_since_all_were_summed(
    whole, doublings
):
    held = {number: round_at(number, 100 * number, 100 * number + 50) for number in range(1, 6)}
    away = SimpleNamespace(active_from=1)
    rounds = SimpleNamespace(rounds=held, last=held[5], members={9: away}, withdrawals=(), left=lambda client: False)
    state, terms = replace(KMeansState.empty(2), round=2, whole=whole), replace(TERMS, retry_blocks=30)
    assert due(rounds, state, 1000, terms) == 550 + (30 << doublings)
