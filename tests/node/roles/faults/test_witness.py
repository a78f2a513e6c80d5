"""The witness does not sleep: it names a client that lets go of too much. Their journal keeps clients from it."""

import shutil

import pytest

from fedgrove.chain.face.networks import anvil
from fedgrove.ipfs.unixfs import cid_of
from tests.node.federation import Federation
from tests.node.roles.faults.killing import kind_of
from tests.node.roles.faults.lives import TellingStore
from tests.node.roles.faults.witness import Told, told_by, violations
from tests.node.roles.faults.world import QUICK

ME, PEER = 1, 5


@pytest.fixture
def federation(tmp_path):
    with anvil() as network:
        made = Federation.found(network, tmp_path, clients=5, training=QUICK)
        made.register()
        yield made


def telling(federation, number):
    """A client whose every blob is noted."""
    store = TellingStore(federation.store, federation.directory / f"told-{number}")
    client = federation.client(number, store=store)
    store.view = client.view
    return client


def found(federation, client):
    """What the witness says of a client."""
    client.view.refresh()
    rounds = client.view.rounds.rounds
    place = (federation.deployment.chain_id, federation.deployment.ledger, federation.config.masking)
    told = told_by(ME, federation.directory / f"told-{ME}")
    assert {kind_of(one.data) for one in told} == {"shares", "masked update", "release"}
    return violations(told, rounds, {number: each.graph(*place) for number, each in rounds.items()})


def until(federation, client, acted):
    """Let a client act until it has done this; time passes while it waits."""
    for _ in range(30):
        step = client.step()
        if step.acted == acted:
            return
        if not step.acted:
            federation.network.advance_to(step.until)
    raise AssertionError(f"it has not {acted}: {step}")


@pytest.fixture
def forked(federation):
    """Client 1 released its shares of client 5 as of a survivor, on a branch that the chain then abandoned.

    On the branch that stands client 5 never commits. Yields client 1 and a copy of its journal of before it released.
    """
    coordinator, clients = federation.coordinator(), federation.clients() | {ME: telling(federation, ME)}
    while "published its masked update" not in federation.said(f"client {PEER - 1}"):
        acting = {
            number: each for number, each in clients.items() if number != PEER or "shared" not in said(federation)
        }
        federation.turn(coordinator, acting)
    shutil.copytree(federation.directory / f"client-{ME}", federation.directory / "rolled back")
    fork = federation.network.request("evm_snapshot")
    until(federation, clients[PEER], "published its masked update")
    until(federation, clients[ME], "released shares")
    assert found(federation, clients[ME]) == []
    federation.network.request("evm_revert", fork)
    yield clients[ME]


def said(federation):
    return federation.said(f"client {PEER}")


def test_a_client_with_its_journal_releases_the_same_again_whatever_the_chain_says(federation, forked):
    client = telling(federation, ME)
    until(federation, client, "released shares")  # the same bytes, which are in the store
    # The ledger now lists a release that was made for other survivors: of no use, and no harm.
    (fault,) = found(federation, client)
    assert "belongs to another round, client or list of survivors" in fault


def test_a_client_whose_journal_was_rolled_back_is_found_out(federation, forked):
    shutil.rmtree(federation.directory / f"client-{ME}")
    (federation.directory / "rolled back").rename(federation.directory / f"client-{ME}")
    client = telling(federation, ME)
    until(federation, client, "released shares")
    position = client.view.rounds.latest.order.index(PEER)
    assert found(federation, client) == [
        f"client {ME} in round 1 handed out 2 blobs of kind release",
        f"client {ME} in round 1 released both kinds of share for position {position}",
    ]


def test_an_update_that_left_before_it_was_committed_is_found_out(federation):
    coordinator, clients = federation.coordinator(), federation.clients()
    while "shared" not in federation.said("client 1"):
        federation.turn(coordinator, clients)
    early = Told(ME, 1, b"masked, but of no use to a client whose list of survivors changes")
    rounds = coordinator.view.rounds.rounds
    for abandoned in ((), [(PEER, 1, cid_of(early.data).digest)], [(ME, 1, bytes(32))]):
        told = violations([early], rounds, {}, abandoned)
        assert told == ["client 1 in round 1 published an update before it was committed"]
    assert violations([early], rounds, {}, [(ME, 1, cid_of(early.data).digest)]) == []
