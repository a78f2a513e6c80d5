"""Federations whose histories are odd but lawful: each is verified, and says what happened."""

import os

import pytest

from fedgrove.chain.crypto import tree
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import (
    AbsenceRecorded,
    Closed,
    Drawn,
    DrawRejected,
    Failed,
    FailureReason,
    Released,
    Shared,
    Skipped,
    VrfKeyRotated,
)
from fedgrove.chain.records.signed_draws import sign_draw
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.masking.client import RoundSecrets
from fedgrove.node.protocol.step import Step
from fedgrove.node.protocol.terms import FederationSettings, MembershipSettings
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.client.contributing import Commit
from fedgrove.node.roles.client.role import Duty
from tests.node.federation import Federation, with_phase

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
    assert verdict.verdict == "verified" and verdict.rounds == 3
    drawn = [sum(record.round == number for record in federation.of(Drawn)) for number in (1, 2, 3)]
    assert 0 < sum(drawn) < 24  # all or none of 24 draws at 0.6: below 5e-6
    assert not federation.of(AbsenceRecorded)


def test_a_round_below_the_quorum_is_skipped_and_the_next_one_opens(found):
    federation = found(clients=3, rounds=2, federation=FederationSettings(rounds=2, sampling_rate=0.001))
    federation.register()
    federation.run()
    assert [record.round for record in federation.of(Skipped)] == [1, 2]  # fails with probability 2e-8
    assert federation.audit().verdict == "verified"


def test_members_are_approved_revoked_and_approved_again(found):
    federation = found(clients=4, rounds=3, membership=MembershipSettings(mode="approved"))
    founder = federation.ledger(federation.coordinator_keys)
    accounts = [keys.address for keys in federation.keys]
    founder.approve(accounts[0])  # before it registers
    federation.register()
    for account in accounts[1:]:
        founder.approve(account)
    coordinator, clients = federation.coordinator(), federation.clients()
    changed = {2: founder.revoke, 3: founder.approve}
    while federation.turn(coordinator, clients):
        if coordinator.round in changed:
            changed.pop(coordinator.round)(accounts[3])
    assert federation.audit().verdict == "verified"
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
    assert federation.audit().verdict == "verified"


class Idle(Commit):
    """Never trains or commits; its client draws and shares."""

    def act(self, turn):
        return Step.wait("train", "nobody: it is idle", turn.deadlines.commit_end)


def test_who_draws_and_never_commits_is_counted_absent_and_sits_out(found):
    federation = found(clients=5, rounds=5)
    federation.register()
    clients = {**federation.clients(), 5: federation.client(5, with_phase(Client, Duty.COMMIT, Idle))}
    federation.run(clients=clients)
    absences = [(record.client, record.absences) for record in federation.of(AbsenceRecorded)]
    assert absences == [(5, 1), (5, 2), (5, 3), (5, 4)]
    assert [record.round for record in federation.of(Drawn) if record.client == 5] == [1, 2, 3, 5]
    assert federation.audit().verdict == "verified"


def test_who_does_not_draw_is_not_absent(found):
    """Nobody can be kept from drawing, and then be barred for it."""
    federation = found(clients=5, rounds=2)
    federation.register()
    clients = federation.clients()
    del clients[5]
    federation.run(clients=clients)
    assert not federation.of(AbsenceRecorded)
    assert federation.audit().verdict == "verified"


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
    assert federation.audit().verdict == "verified"


class Misdirecting(Ledger):
    """Records the digest of nothing in place of what was published."""

    wrong: tuple[str, ...] = ()

    def share(self, number, digest):
        return super().share(number, bytes(31) + b"\7" if "share" in self.wrong else digest)

    def release(self, number, digest):
        return super().release(number, bytes(31) + b"\7" if "release" in self.wrong else digest)


@pytest.mark.parametrize(("kind", "field"), [(Shared, "share"), (Released, "release")])
def test_a_member_that_publishes_nothing_is_named_and_spoils_nothing(found, kind, field):
    federation = found(clients=5, rounds=1)
    federation.register()
    ledger = Misdirecting(federation.network, federation.deployment, federation.keys[0].account)
    ledger.wrong = (field,)
    federation.run(clients={**federation.clients(), 1: federation.client(1, ledger=ledger)})
    assert federation.of(kind)
    verdict = federation.audit()
    assert verdict.verdict == "verified", verdict.reason
    assert [(remark.client, remark.field) for remark in verdict.remarks] == [(1, f"{field}.content")]


def test_a_share_blob_of_nothing_can_cost_the_round_but_not_the_history(found):
    """With its shares lost, a client's secrets cannot be recovered: the round fails and the model before stands."""
    federation = found(clients=5, rounds=1)
    federation.register()
    ledger = Misdirecting(federation.network, federation.deployment, federation.keys[0].account)
    ledger.wrong = ("share",)
    federation.run(clients={**federation.clients(), 1: federation.client(1, ledger=ledger)})
    assert [record.reason for record in federation.of(Failed)] == [FailureReason.TOO_FEW_SHARES]
    assert not federation.of(Closed)


def test_an_unfinished_round_is_verified_as_far_as_it_goes(found):
    federation = found(clients=4, rounds=2)
    federation.register()
    coordinator, clients = federation.coordinator(), federation.clients()
    while "committed" not in federation.said("client 2"):
        federation.turn(coordinator, clients)
    verdict = federation.audit()
    assert verdict.verdict == "verified" and verdict.rounds == 0
    # a commitment whose update has not left the machine yet is a remark
    assert {remark.field for remark in verdict.remarks} <= {"commit.content"}
