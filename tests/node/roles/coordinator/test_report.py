"""Clients that drew and did not commit are reported once, and only of a round that stands."""

from types import SimpleNamespace

import pytest

from fedgrove.chain.face.ledger import MAX_REPORT
from fedgrove.chain.records import Closed
from fedgrove.node.roles.coordinator.opening import ReportAbsences
from tests.node.roles.fakes import Events, context_with, entry_with, turn_at, view_at

CLOSED = object.__new__(Closed)


def closed(order=(1, 2, 3), commits=(2,), **parts):
    return entry_with(draws=order, commits=commits, **{"end": CLOSED, **parts})


@pytest.fixture
def place():
    def made(refuses=()):
        events = Events()
        members = {client: SimpleNamespace(account=f"account {client}") for client in range(1, MAX_REPORT + 10)}
        view = view_at(80, rounds=SimpleNamespace(members=members))
        context = context_with(events, view, refuses)
        return SimpleNamespace(events=events, unit=ReportAbsences(context))

    return made


def test_all_of_the_order_without_a_commitment_are_reported(place):
    place = place()
    step = place.unit.act(turn_at(80, closed()))
    assert (step.phase, step.acted) == ("open", "reported absent: clients 1, 3")
    assert place.events == [("report_absences", 1, ["account 1", "account 3"])]


@pytest.mark.parametrize(
    "current",
    [
        closed(commits=(1, 2, 3)),
        closed(absences={1}),
        closed(voided=object()),
        closed(end=object()),
        closed(order=tuple(range(1, MAX_REPORT + 3)), commits=(1,)),
    ],
    ids=["nobody is absent", "reported already", "void", "failed", "too many to report"],
)
def test_a_round_without_anything_to_report_leads_to_the_next(place, current):
    place = place()
    assert place.unit.act(turn_at(80, current)) is None and not place.events


def test_as_many_as_a_report_may_name_are_reported(place):
    assert place().unit.act(turn_at(80, closed(order=tuple(range(1, MAX_REPORT + 2)), commits=(1,)))).acted


def test_a_report_that_the_ledger_refuses_does_not_hold_up_training(place):
    place = place(refuses=("report_absences",))
    step = place.unit.act(turn_at(80, closed()))
    assert "absences were not reported" in step.waiting and "too late" in step.waiting and step.until == 81
    assert place.unit.act(turn_at(81, closed())) is None
    assert len(place.events) == 1
