"""How rounds end at the ledger, on the shipped contracts: absences, disputes, failures, and the last round."""

from dataclasses import replace

import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import (
    AbsenceRecorded,
    Disputed,
    FailureReason,
    Phase,
    Voided,
)
from tests.chain.face.ledger_calls import closed, refused
from tests.chain.federations import TERMS, found


def test_no_round_beyond_the_terms():
    with embedded() as network:
        federation = found(network, terms=replace(TERMS, rounds=1, repeats=1))
        number = federation.open()
        federation.network.advance_to(federation.coordinator.round(number).draw_end)
        federation.coordinator.skip(number)
        closed(federation, 4, b"\x08" * 32)
        over = refused("FederationOver", federation.open)
        assert over.arguments == {"opened": 2, "closed": 1}


def test_a_report_of_absences_is_complete_or_refused(federation):
    ledger, accounts = federation.coordinator, [keys.address for keys in federation.keys]
    first = closed(federation, 2, b"\x08" * 32)
    refused("ReportIncomplete", ledger.report_absences, first, accounts[2:3])
    refused("ReportIncomplete", ledger.report_absences, first, accounts[1:])
    refused("NotAbsent", ledger.report_absences, first, accounts[1:3])
    refused("ReportNotAscending", ledger.report_absences, first, accounts[2:3] * 2)
    assert not any(isinstance(record, AbsenceRecorded) for record in ledger.records())
    running = federation.open()
    refused("DrawStillOpen", ledger.report_absences, first, accounts[2:])
    federation.network.advance_to(ledger.round(running).draw_end)
    ledger.report_absences(first, accounts[2:])
    told = [record for record in ledger.records() if isinstance(record, AbsenceRecorded)]
    assert [record.client for record in told] == sorted((3, 4), key=lambda client: int(accounts[client - 1], 16))
    ledger.report_absences(first, accounts[2:])
    assert ledger.records()[-2:] == told
    ledger.skip(running)
    refused("NotLatestClosed", ledger.report_absences, first, accounts[2:])
    with pytest.raises(ValueError, match="at least one"):
        ledger.report_absences(first, [])


def test_most_clients_void_a_round_and_the_one_that_runs_on_it(federation):
    ledger, (first, second, third, fourth) = federation.coordinator, federation.clients
    stood = closed(federation, 4, b"\x08" * 32)
    number = closed(federation, 3, b"\x09" * 32)
    running = federation.sealed(range(2))
    refused("NotDisputable", first.dispute, stood, b"e" * 32)
    refused("NotCommitted", fourth.dispute, number, b"e" * 32)
    refused("NotCommitted", ledger.dispute, number, b"e" * 32)
    first.dispute(number, b"e" * 32)
    refused("AlreadyDisputed", first.dispute, number, b"e" * 32)
    assert (ledger.round(number).phase, ledger.current_model()) == (Phase.CLOSED, b"\x09" * 32)
    third.dispute(number, b"f" * 32)

    last = ledger.records()[-4:]
    places = [record.at for record in last]
    assert last == [
        Disputed(places[0], number, 1, b"e" * 32),
        Disputed(places[1], number, 3, b"f" * 32),
        Voided(places[2], number, b"\x08" * 32, 2),
        Voided(places[3], running, b"\x08" * 32, 0),
    ]
    assert (ledger.round(number).phase, ledger.round(running).phase) == (Phase.VOIDED, Phase.VOIDED)
    assert ledger.current_model() == b"\x08" * 32
    wrong = refused("WrongPhase", first.share, running, b"x" * 32)
    assert "phase voided" in str(wrong)
    refused("NotDisputable", second.dispute, number, b"e" * 32)
    refused("NotLatestClosed", ledger.report_absences, running, [federation.keys[3].address])
    refused("WrongModel", ledger.open, b"\x09" * 32)
    assert federation.open() == running + 1


def test_an_overdue_round_fails_by_anyone(federation):
    ledger, client = federation.coordinator, federation.clients[0]
    number = federation.sealed(range(3))
    federation.network.advance_to(ledger.round(number).recover_end)
    client.fail(number, FailureReason.INVALID_UPDATE, b"e" * 32)
    assert ledger.records()[-1].reason is FailureReason.DEADLINE


def test_absentees_sit_out(federation):
    ledger, address = federation.coordinator, federation.keys[3].address
    for model in (b"\x08" * 32, b"\x09" * 32):
        number = closed(federation, 3, model)
        federation.clients[0].report_absences(number, [address])
    assert ledger.sits_out_until(address) == number + 1
    number = federation.open()
    federation.to_draw(number)
    refused("SittingOut", federation.draw, number, 3)
