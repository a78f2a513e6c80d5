"""Federations whose histories are odd but lawful: each is verified, and says what happened."""

import os

import pytest

from fedgrove.chain.crypto import tree
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import (
    Closed,
    Drawn,
    DrawRejected,
    Failed,
    Released,
    Resumed,
    RoundOpened,
    Shared,
    Skipped,
    VrfKeyRotated,
)
from fedgrove.chain.records.signed_draws import sign_draw
from fedgrove.node.audit.verdict import NONE_CLOSED
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.masking.client import RoundSecrets
from fedgrove.node.protocol.terms import FederationSettings, MembershipSettings
from tests.node.federation import Federation

QUICK = TrainingSettings(batch_size=20)


@pytest.fixture
def found(tmp_path):
    """Founds a federation on a chain of its own."""
    with embedded() as network:

        def make(**options):
            return Federation.found(network, tmp_path, training=QUICK, **options)

        yield make


def test_a_sampled_federation(found):
    federation = found(clients=8, rounds=3, federation=FederationSettings(rounds=3, sampling_rate=0.6))
    federation.register()
    federation.run()
    verdict = federation.audit()
    # Fewer than the quorum are drawn in one round of twenty, which is skipped.
    assert verdict.verdict == "verified" and len(federation.of(Closed)) == 3
    assert 9 <= len(federation.of(Drawn)) < 8 * verdict.rounds  # all of 24 draws at 0.6: below 5e-6


def test_a_round_below_the_quorum_is_skipped_and_the_next_one_opens(found):
    federation = found(clients=3, rounds=2, federation=FederationSettings(rounds=2, sampling_rate=0.001))
    federation.register()
    coordinator, clients = federation.coordinator(), federation.clients()
    while coordinator.round < 3:
        assert federation.turn(coordinator, clients)
    assert [record.round for record in federation.of(Skipped)] == [1, 2]  # fails with probability 2e-8
    assert federation.audit().holds


def test_members_are_approved_revoked_and_approved_again(found):
    federation = found(clients=4, rounds=3, membership=MembershipSettings(mode="approved"))
    founder = federation.ledger(federation.coordinator_keys)
    accounts = [keys.address for keys in federation.keys]
    founder.approve(*accounts)
    federation.register()
    coordinator, clients = federation.coordinator(), federation.clients()
    changed = {2: founder.revoke, 3: founder.approve}
    while federation.turn(coordinator, clients):
        if coordinator.round in changed:
            changed.pop(coordinator.round)(accounts[3])
    assert federation.audit().holds
    rounds_of_fourth = [record.round for record in federation.of(Drawn) if record.client == 4]
    assert rounds_of_fourth == [1, 2]  # a revocation acts from the next round on, and so does an approval


def test_a_key_rotated_in_the_middle_of_a_round_waits_for_the_next(found):
    federation = found(clients=4, rounds=2)
    federation.register()
    coordinator, clients = federation.coordinator(), federation.clients()
    while coordinator.round == 0:
        federation.turn(coordinator, clients)
    federation.keys[1] = federation.keys[1].with_new_vrf()
    federation.ledger(federation.keys[1]).rotate_vrf_key(federation.keys[1])
    clients[2] = federation.client(2)
    federation.run(coordinator, clients)
    assert len(federation.of(VrfKeyRotated)) == 1
    assert [record.round for record in federation.of(Drawn) if record.client == 2] == [2]
    assert federation.audit().holds


def test_who_stays_away_is_idle_until_it_is_back(found):
    federation = found(clients=5, rounds=6)
    federation.register()
    coordinator, clients = federation.coordinator(), federation.clients()
    away = clients.pop(5)
    while coordinator.round < 4:
        federation.turn(coordinator, clients)
    federation.ledger(federation.keys[4]).resume()
    federation.run(coordinator, {**clients, 5: away})
    idle = federation.keys[4].address
    assert [record.barred for record in federation.of(RoundOpened)] == [(), (), (), (idle,), (), ()]
    assert [record.account for record in federation.of(Resumed)] == [idle]
    assert [record.round for record in federation.of(Drawn) if record.client == 5] == [5, 6]
    assert federation.audit().holds


def test_draws_that_somebody_else_hands_in_and_one_that_is_rejected(found):
    federation = found(clients=4, rounds=1)
    federation.register()
    coordinator, clients = federation.coordinator(), federation.clients()
    relayed = clients.pop(4)
    ledger = federation.ledger(federation.coordinator_keys)
    while not ledger.current_round() or not any(ledger.round(1).seed):
        federation.turn(coordinator, clients)
    alpha = tree.draw_alpha(ledger.chain_id, ledger.address, 1, ledger.round(1).seed)
    secrets = RoundSecrets.generate(os.urandom)
    items = [
        sign_draw(federation.deployment, 1, keys, alpha, secrets.mask_key, secrets.seal_key, 60)
        for keys in (federation.keys[3], federation.coordinator_keys)
    ]
    ledger.draw_batch(1, items)
    clients[4] = relayed  # it knows nothing of these secrets, so it sits out and counts as dropped
    federation.run(coordinator, clients)
    (rejected,) = federation.of(DrawRejected)
    assert rejected.account == federation.coordinator_keys.address
    assert any("journal" in reason for reason in federation.said("client 4"))
    assert federation.audit().holds


class Misdirecting(Ledger):
    """Records the digest of nothing in place of what was published."""

    wrong: tuple[str, ...] = ()

    def share(self, number, digest):
        return super().share(number, bytes(31) + b"\7" if "share" in self.wrong else digest)

    def release(self, number, digest, *bounded):
        return super().release(number, bytes(31) + b"\7" if "release" in self.wrong else digest, *bounded)


@pytest.mark.parametrize(("kind", "field"), [(Shared, "share"), (Released, "release")])
def test_a_member_that_publishes_nothing_is_named_and_spoils_nothing(found, kind, field):
    federation = found(clients=5, rounds=1)
    federation.register()
    ledger = Misdirecting(federation.network, federation.deployment, federation.keys[0].account)
    ledger.wrong = (field,)
    federation.run(clients={**federation.clients(), 1: federation.client(1, ledger=ledger)})
    assert federation.of(kind)
    # Nobody can recover its secrets without its shares: the round fails, and the model before stands.
    assert bool(federation.of(Failed)) == (kind is Shared) == (not federation.of(Closed))
    verdict = federation.audit()
    assert verdict.holds, verdict.reason
    assert [(remark.client, remark.field) for remark in verdict.remarks] == [(1, f"{field}.content")]


def test_an_unfinished_round_is_verified_as_far_as_it_goes(found):
    federation = found(clients=4, rounds=2)
    federation.register()
    coordinator, clients = federation.coordinator(), federation.clients()
    while "committed" not in federation.said("client 2"):
        federation.turn(coordinator, clients)
    verdict = federation.audit()
    assert verdict.verdict == NONE_CLOSED and verdict.rounds == 0
    # a commitment whose update has not left the machine yet is a remark
    assert {remark.field for remark in verdict.remarks} <= {"commit.content"}
