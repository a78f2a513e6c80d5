"""When no round follows, a role says why."""

from types import SimpleNamespace

import pytest

from fedgrove.chain.records import Closed, Failed, Sealed, Skipped
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.roles.context import RoleContext
from tests.node.roles.fakes import entry_with

CLOSED, FAILED, SKIPPED = map(object.__new__, (Closed, Failed, Skipped))


@pytest.fixture
def context(monkeypatch):
    """Of a federation of two rounds, one of which may be repeated; the budget lasts for one round."""
    spending = SimpleNamespace(exhausted=lambda number: "the budget is spent" if number > 1 else "")
    monkeypatch.setattr(RoleContext, "spending", lambda self: spending)
    config = SimpleNamespace(federation=SimpleNamespace(repeats=1, patience=0), rounds_to_close=2)

    def made(*ends):
        ended = {number: entry_with(number, end=end) for number, end in enumerate(ends, 1)}
        for current in ended.values():
            if not isinstance(current.end, Skipped):
                current.once[Sealed] = object()
        return RoleContext(None, None, config, None, SimpleNamespace(rounds=Rounds(rounds=ended)), 0)

    return made


def test_nothing_is_over_before_the_first_round_or_while_one_runs(context):
    assert context().over() == ""
    assert context(None).over() == "" and context(CLOSED, CLOSED, None).over() == ""


@pytest.mark.parametrize("ends", [(CLOSED, CLOSED), (FAILED, SKIPPED, CLOSED, FAILED)])
def test_it_is_over_when_all_rounds_have_closed_or_been_repeated(context, ends):
    assert context(*ends).over() == "all rounds have ended"


def test_it_is_over_when_too_few_can_afford_another_round(context):
    assert context(CLOSED).over() == "the budget is spent"


def test_otherwise_another_round_follows(context, monkeypatch):
    monkeypatch.setattr(RoleContext, "spending", lambda self: SimpleNamespace(exhausted=lambda number: ""))
    assert context(FAILED).over() == context(FAILED, SKIPPED).over() == ""
