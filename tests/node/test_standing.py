"""``fedgrove status``: phase, who acted, who is waited for, until which block."""

import pytest

from chain.networks import embedded
from node.learning.settings import TrainingSettings
from node.standing import standing
from tests.node.federation import Federation


@pytest.fixture
def federation(tmp_path):
    with embedded() as network:
        made = Federation.found(network, tmp_path, clients=3, training=TrainingSettings(batch_size=20))
        made.register()
        yield made


def test_every_phase_of_a_round_is_told(federation):
    coordinator, clients = federation.coordinator(), federation.clients()
    reader, account = federation.ledger(federation.keys[0]), federation.keys[0].address
    told = {}
    before = standing(reader, account)
    assert (before.round, before.members, before.phase) == (0, 3, "open")
    while federation.turn(coordinator, clients):
        now = standing(reader, account)
        told.setdefault(now.phase, now)
        assert not now.until or now.until > now.block
    assert {"draw", "share", "commit", "recover", "closed"} <= set(told)
    assert told["share"].until == federation.ledger(federation.keys[0]).round(1).share_end
    assert standing(reader, account).account.startswith("client 1, in round 1: drew, shared, committed, released")


def test_it_names_who_is_waited_for(federation):
    coordinator, clients = federation.coordinator(), federation.clients()
    del clients[2]
    reader = federation.ledger(federation.keys[0])
    seen = set()
    while federation.turn(coordinator, clients):
        seen.add(standing(reader).waiting)
    assert "client 2 to draw" in seen


def test_a_stranger_is_told_so(federation):
    stranger = federation.coordinator_keys.address
    assert "not registered" in standing(federation.ledger(federation.keys[0]), stranger).account


def test_an_overdue_round_is_told(federation):
    coordinator, clients = federation.coordinator(), federation.clients()
    while "shared" not in federation.said("client 3"):
        federation.turn(coordinator, clients)
    reader = federation.ledger(federation.keys[0])
    federation.network.advance_to(reader.round(1).close_end + 1)
    now = standing(reader)
    assert (now.phase, now.waiting) == ("overdue", "anyone to record the round as failed")
