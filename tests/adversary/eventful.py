"""A federation in which everything happens that the ledger can record."""

import os
from unittest import mock

from fedgrove.chain.crypto import tree
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.face import ledger
from fedgrove.chain.records import FailureReason, Phase, Skipped, Voided
from fedgrove.chain.records.signed_draws import sign_draw
from fedgrove.node.masking.client import RoundSecrets
from fedgrove.node.protocol.terms import FederationSettings, MembershipSettings
from fedgrove.node.roles.coordinator import Coordinator
from fedgrove.node.roles.coordinator.context import fail
from fedgrove.node.roles.coordinator.summing import RecordRecovery
from tests.node.federation import Federation, LyingCoordinator

TERMS = {"membership": MembershipSettings(mode="approved"), "federation": FederationSettings(rounds=3), "repeats": 5}


class Erring(LyingCoordinator):
    """Closes round 2 with a lie, and then has one round fail for nothing."""

    def __init__(self, *parts, **options):
        super().__init__(*parts, **options)
        self.units[Phase.RECOVER] = self._recover = FailsOnce(self.context)

    @property
    def failed(self):
        """The round that failed for nothing; 0 before that."""
        return self._recover.failed

    def lie(self, current, model):
        return super().lie(current, model) if current.number == 2 else model


class FailsOnce(RecordRecovery):
    """Has one round after the second fail for nothing."""

    failed = 0

    def _recover(self, turn, number):
        if turn.current.number > 2 and not self.failed:
            self.failed = turn.current.number
            return fail(self.context, turn.current, FailureReason.INVALID_UPDATE, {})
        return super()._recover(turn, number)


def hold(made: Federation) -> None:
    """Approvals, rotations, a withdrawal; draws in a batch, an absence; a lie that is voided; a failure, and a round
    without draws; an order that is sealed in chunks."""
    _join(made)
    coordinator, clients = made.coordinator(Erring), made.clients()
    relayed = clients.pop(4)
    _relay(made, coordinator, clients)
    clients[4] = relayed
    chunks = {"MAX_SEAL": 0, "MAX_CHUNK": 2}
    with mock.patch.multiple(ledger, **chunks):
        while _void(coordinator) is None or not coordinator.failed:
            assert made.turn(coordinator, clients)
        while not any(isinstance(each.end, Skipped) for each in coordinator.view.rounds.ended()):
            latest = coordinator.view.refresh()
            away = latest.number > coordinator.failed or latest.end is not None
            assert made.turn(coordinator, {} if away else clients)
        made.run(coordinator, clients)


def _join(made: Federation) -> None:
    founder = made.ledger(made.coordinator_keys)
    outsider = Keys.generate().address
    for account in (*(keys.address for keys in made.keys), outsider):
        founder.approve(account)
    founder.revoke(outsider)
    before = made.ledger(made.keys[0])
    before.withdraw(1, b"\5" * 32)
    made.keys[0] = made.keys[0].with_new_mailbox().with_new_vrf()
    before.rotate_mailbox_key(made.keys[0])
    before.rotate_vrf_key(made.keys[0])


def _relay(made: Federation, coordinator: Coordinator, clients: dict) -> None:
    """Hand in the draws of a member, which knows nothing of it, and of somebody who is none."""
    book = made.ledger(made.coordinator_keys)
    while not book.current_round() or not any(book.round(1).seed):
        made.turn(coordinator, clients)
    alpha = tree.draw_alpha(book.chain_id, book.address, 1, book.round(1).seed)
    secrets = RoundSecrets.generate(os.urandom)
    signed = (made.keys[3], made.coordinator_keys)
    book.draw_batch(
        1, [sign_draw(made.deployment, 1, keys, alpha, secrets.mask_key, secrets.seal_key, 60) for keys in signed]
    )


def _void(coordinator: Coordinator) -> Voided | None:
    return next((each.voided for each in coordinator.view.rounds.rounds.values() if each.voided), None)
