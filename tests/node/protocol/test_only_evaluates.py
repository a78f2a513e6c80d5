"""Which round trains nothing follows from the ledger and from what the round before it stated."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.chain.records import Closed, Voided
from fedgrove.node.protocol.members_metrics import LossCourse, MembersMetrics
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import Rounds
from tests.node.roles.fakes import entry_with

CLOSED, FAILED = object.__new__(Closed), object()
ENDS = st.lists(st.booleans(), max_size=9).map(lambda closed: [CLOSED if each else FAILED for each in closed])
ENDED = MembersMetrics(0, {}, course=LossCourse(1.0, 2, True))


def inputs_after(ends, rounds, stated=None, patience=0, evaluation=True) -> RoundInputs:
    """Inputs of the round behind those that ended like this; ``stated`` of the members by the last that stands."""
    known = Rounds(rounds={number: entry_with(number, end=end) for number, end in enumerate(ends, 1)})
    current = known.rounds[len(ends) + 1] = entry_with(len(ends) + 1)
    federation = SimpleNamespace(rounds=rounds, patience=patience)
    config = SimpleNamespace(federation=federation, evaluation=SimpleNamespace() if evaluation else None)
    made = RoundInputs(known, current, None, config, None, lambda: None)
    vars(made)["stated"] = SimpleNamespace(members=stated) if CLOSED in ends else None
    return made


@given(ENDS, st.integers(1, 6))
def test_it_is_the_round_behind_as_many_closed_ones_as_train(ends, rounds):
    assert inputs_after(ends, rounds).only_evaluates == (ends.count(CLOSED) >= rounds)
    assert not inputs_after(ends, rounds, evaluation=False).only_evaluates


@given(ENDS, st.integers(1, 6))
def test_rounds_behind_it_do_not_change_which_it_was(ends, rounds):
    made = inputs_after(ends, rounds)
    before = made.only_evaluates
    made.rounds.rounds[len(ends) + 2] = entry_with(len(ends) + 2, end=CLOSED)
    del vars(made)["only_evaluates"]
    assert made.only_evaluates == before


@pytest.mark.parametrize(
    "stated", [ENDED, MembersMetrics(0, {}, course=LossCourse(1.0, 1)), MembersMetrics(0, {}), None]
)
@given(failed=st.integers(0, 3))
def test_a_patience_that_is_over_makes_the_next_round_the_one(stated, failed):
    ends = [CLOSED, *[FAILED] * failed]
    assert inputs_after(ends, 5, stated, patience=2).only_evaluates == (stated is ENDED)
    assert not inputs_after(ends, 5, stated).only_evaluates  # nobody agreed to a patience


def test_a_voided_round_does_not_count():
    made = inputs_after([CLOSED, CLOSED], 2)
    made.rounds.rounds[2].once[Voided] = object()
    assert not made.only_evaluates
