"""A client that has drawn leaves a round that too few of the members it knows have joined."""

from types import SimpleNamespace

import pytest

from fedgrove.node.roles.client import joining
from fedgrove.node.roles.client.joining import reason_to_leave
from tests.node.roles.fakes import ME, Events, client_turn_at, context_with, entry_with, view_at


@pytest.fixture
def attendance(monkeypatch):
    """What is said of the attendance in the round."""
    said = SimpleNamespace(fault="")
    monkeypatch.setattr(joining, "attendance_fault", lambda rounds, current, config: said.fault)
    return said


def leaves(current, note=True):
    journal = SimpleNamespace(note=lambda number: note)
    context = context_with(Events(), view_at(35, rounds=None), journal=journal, config=None)
    return reason_to_leave(context, client_turn_at(35, current))


def test_without_its_journal_it_can_do_nothing(attendance):
    for sealed in (None, object()):
        assert "journal of the round is missing" in leaves(entry_with(draws=(ME,), sealed=sealed), note=None)


def test_it_looks_at_who_drew_once_the_order_is_sealed(attendance):
    attendance.fault = "only 2 of 8 are there"
    assert leaves(entry_with(draws=(ME,))) == ""
    refused = leaves(entry_with(draws=(ME,), sealed=object()))
    assert refused == "its members: this client refuses the round, only 2 of 8 are there"


def test_it_stays_where_enough_have_drawn(attendance):
    assert leaves(entry_with(draws=(ME,), sealed=object())) == ""


def test_it_stays_once_it_has_committed(attendance):
    attendance.fault = "only 2 of 8 are there"
    assert leaves(entry_with(draws=(ME,), sealed=object(), shares=(ME,), commits=(ME,))) == ""
