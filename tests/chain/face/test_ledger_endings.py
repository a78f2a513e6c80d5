"""How rounds end at the ledger, on the shipped contracts: judgements, failures, idle members, and the last round."""

from dataclasses import replace

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Failed, Judged, Phase, Replaced, RoundOpened, Voided
from tests.chain.face.ledger_calls import closed, refused
from tests.chain.federations import SETTINGS, TERMS, found

ZERO = bytes(32)


def committed(federation, committers):
    """A round in which all clients drew, and which ``committers`` of them committed in, behind its commits."""
    number = federation.sealed()
    for client in federation.clients[:committers]:
        client.share(number, b"x" * 32)
    federation.network.advance_to(federation.coordinator.round(number).share_end)
    for client in federation.clients[:committers]:
        client.commit(number, b"x" * 32, b"y" * 32)
    federation.network.advance_to(federation.coordinator.round(number).commit_end)
    return number


def test_no_round_beyond_the_terms():
    with embedded() as network:
        federation = found(network, terms=replace(TERMS, rounds=1, repeats=0))
        number = federation.sealed()
        federation.network.advance_to(federation.coordinator.round(number).recover_end)
        federation.clients[0].fail(number)
        over = refused("FederationOver", federation.open)
        assert over.arguments == {"closed": 0, "failed": 1}


def test_a_closing_needs_releases_and_its_coordinator():
    with embedded() as network:
        federation = found(network, settings=replace(SETTINGS, coordinator_grace=4))
        ledger, first = federation.coordinator, federation.clients[0]
        number = committed(federation, 4)
        refused("ReleasesMissing", ledger.close, number, b"\x08" * 32, b"M" * 32)
        for client in federation.clients[:2]:
            client.release(number, b"r" * 32)
        refused("OnlyCoordinator", first.close, number, b"\x08" * 32, b"M" * 32)
        network.advance_to(ledger.round(number).commit_end + 8)  # its grace, and the longest lot
        first.close(number, b"\x08" * 32, b"M" * 32)
        federation.clients[2].release(number, b"r" * 32)  # in the window, closed or not
        assert ledger.round(number).released == 3


def test_most_clients_replace_a_closing_and_end_the_round_that_runs_on_it(federation):
    ledger, (first, second, third, fourth) = federation.coordinator, federation.clients
    stood = closed(federation, 4, b"\x08" * 32)
    number = closed(federation, 3, b"\x09" * 32)
    running = federation.sealed(range(2))
    right = (Phase.CLOSED, b"\x0a" * 32, b"N" * 32)
    refused("NotJudgeable", first.judge, stood, *right)
    refused("NotCommitted", fourth.judge, number, *right)
    refused("NotCommitted", ledger.judge, number, *right)
    first.judge(number, *right)
    refused("AlreadyJudged", first.judge, number, *right)
    assert (ledger.round(number).phase, ledger.current_model()) == (Phase.CLOSED, b"\x09" * 32)
    third.judge(number, *right)

    last = ledger.records()[-4:]
    places = [record.at for record in last]
    assert last == [
        Judged(places[0], number, 1, *right),
        Judged(places[1], number, 3, *right),
        Replaced(places[2], number, *right[1:]),
        Voided(places[3], running, b"\x0a" * 32),
    ]
    assert (ledger.round(number).phase, ledger.round(running).phase) == (Phase.CLOSED, Phase.VOIDED)
    assert ledger.current_model() == b"\x0a" * 32
    assert ledger.is_struck(federation.founder.address)
    assert "phase voided" in str(refused("WrongPhase", first.share, running, b"x" * 32))
    refused("IsStruck", ledger.open, b"\x0a" * 32)
    second.judge(number, *right)  # a confirmation, after the fact


def test_most_clients_void_a_closing(federation):
    ledger, (first, second, third, _) = federation.coordinator, federation.clients
    closed(federation, 4, b"\x08" * 32)
    number = closed(federation, 3, b"\x09" * 32)
    for client in (first, second):
        client.judge(number, Phase.CLOSED, ZERO, ZERO)
    voided = ledger.records()[-1]
    assert voided == Voided(voided.at, number, b"\x08" * 32)
    assert ledger.round(number).phase is Phase.VOIDED
    refused("NotJudgeable", third.judge, number, Phase.CLOSED, ZERO, ZERO)


def test_most_clients_say_that_nothing_may_be_summed(federation):
    number = committed(federation, 4)
    first, second, third, _ = federation.clients
    refused("OnlyNothing", first.judge, number, Phase.RECOVER, b"\x0a" * 32, b"N" * 32)
    first.judge(number, Phase.RECOVER, ZERO, ZERO)
    first.release(number, b"r" * 32)
    second.judge(number, Phase.RECOVER, ZERO, ZERO)
    assert federation.coordinator.round(number).phase is Phase.RECOVER  # half of four
    third.judge(number, Phase.RECOVER, ZERO, ZERO)
    failed = federation.coordinator.records()[-1]
    assert failed == Failed(failed.at, number)
    assert federation.coordinator.round(number).phase is Phase.FAILED


def test_nobody_says_so_any_more_once_enough_have_released(federation):
    number = committed(federation, 4)
    for client in federation.clients[:2]:
        client.release(number, b"r" * 32)
    refused("ReleasesListed", federation.clients[2].judge, number, Phase.RECOVER, ZERO, ZERO)


def test_a_round_waits_for_its_quorum(federation):
    ledger, network = federation.coordinator, federation.network
    number = federation.open()
    federation.to_draw(number)
    federation.draw(number, 0)
    network.mine(30)
    assert ledger.round(number).phase is Phase.DRAW
    network.mine(2)  # its grace
    refused("MembersUnchanged", federation.clients[0].skip, number)
    federation.draw(number, 1)
    assert ledger.round(number).phase is Phase.SEAL
    assert ledger.round(number).draw_end == network.block_number()


def test_idle_members_are_not_waited_for(federation):
    ledger, accounts = federation.coordinator, [keys.address for keys in federation.keys]
    for _ in range(2):
        number = federation.open()
        federation.to_draw(number)
        for index in range(3):
            federation.draw(number, index)
        federation.network.advance_to(ledger.round(number).draw_end)
        federation.seal(number)
        federation.network.advance_to(ledger.round(number).recover_end)
        ledger.fail(number)
    refused("NotBarred", ledger.open, ledger.current_model(), accounts[2:3])
    ledger.open(ledger.current_model(), accounts[3:])
    opened = ledger.records()[-1]
    assert isinstance(opened, RoundOpened) and opened.barred == (accounts[3],)
    assert ledger.idle_in(accounts[3]) == opened.round
    federation.to_draw(opened.round)
    refused("ListedAsIdle", federation.draw, opened.round, 3)
    federation.clients[3].resume()
    for index in range(3):
        federation.draw(opened.round, index)
    assert ledger.round(opened.round).phase is Phase.SEAL
