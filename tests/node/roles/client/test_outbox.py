"""A client pays for no transaction twice that the ledger refused."""

from types import SimpleNamespace

import pytest

from fedgrove.chain.errors import ContractRevert
from fedgrove.node.roles.client.context import Outbox
from tests.node.roles.fakes import DEADLINES, GAS, Events, entry_with, view_at


@pytest.fixture
def events():
    return Events()


def test_what_the_ledger_takes_is_a_step_with_its_gas(events):
    send = events.noting("share", SimpleNamespace(gas_used=GAS))
    step = Outbox(view_at(35)).send(entry_with(), "share", "shared", send)
    assert (step.phase, step.acted, step.gas) == ("share", "shared", GAS)


def test_what_the_ledger_refused_is_not_sent_again_in_that_phase_and_round(events):
    outbox, send = Outbox(view_at(35)), events.noting("share", ContractRevert("too late"))
    for _ in range(3):
        step = outbox.send(entry_with(), "share", "shared", send)
        assert step.phase == "sit out" and "too late" in step.waiting and step.until == DEADLINES.close_end
    assert events.names() == ["share"]


def test_other_phases_and_later_rounds_are_tried(events):
    outbox, refused = Outbox(view_at(35)), events.noting("refused", ContractRevert("too late"))
    outbox.send(entry_with(1), "share", "shared", refused)
    outbox.send(entry_with(1), "commit", "committed", refused)
    outbox.send(entry_with(2), "share", "shared", refused)
    assert len(events) == 3


def test_two_refusals_in_a_round_are_both_remembered(events):
    outbox, refused = Outbox(view_at(35)), events.noting("refused", ContractRevert("too late"))
    for phase in ("share", "commit", "share", "commit"):
        outbox.send(entry_with(1), phase, "did it", refused)
    assert len(events) == 2


def test_no_deadline_is_named_that_has_passed(events):
    refused = events.noting("dispute", ContractRevert("too late"))
    assert Outbox(view_at(DEADLINES.close_end)).send(entry_with(), "dispute", "disputed", refused).until == 0
