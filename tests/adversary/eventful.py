"""A federation in which everything happens that the ledger can record."""

import os
from unittest import mock

from fedgrove.chain.crypto import tree
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.face import ledger
from fedgrove.chain.records.signed_draws import sign_draw
from fedgrove.node.masking.client import RoundSecrets
from fedgrove.node.protocol.terms import FederationSettings, MembershipSettings
from fedgrove.node.roles.coordinator import Coordinator
from tests.adversary.standing_in import with_standbys
from tests.node.federation import Federation, LyingCoordinator

TERMS = {"membership": MembershipSettings(mode="approved"), "federation": FederationSettings(rounds=3), "repeats": 5}


class Erring(LyingCoordinator):
    """Closes the first round that closes after round 3 with a lie."""

    def lie(self, current, model):
        return super().lie(current, model) if current.number > 3 else model


def hold(made: Federation) -> None:
    """Approvals, rotations, a withdrawal; draws in a batch; a failure, and a round without draws; an order that is
    sealed in chunks; a lie that members replace, so that they go on without the coordinator."""
    _join(made)
    coordinator, clients = made.coordinator(Erring), made.clients()
    relayed = clients.pop(4)
    _relay(made, coordinator, clients)
    clients[4] = relayed
    with mock.patch.multiple(ledger, MAX_SEAL=0, MAX_CHUNK=2):
        _fail(made, coordinator, clients)
        _skip(made, coordinator)
        made.run(coordinator, with_standbys(made, clients))


def _fail(made: Federation, coordinator: Coordinator, clients: dict) -> None:
    """Nobody commits in a round that is sealed."""
    while (latest := coordinator.view.refresh()).sealed is None or latest.number == 1:
        assert made.turn(coordinator, clients)
    while coordinator.view.refresh().end is None:
        assert made.turn(coordinator, {})


def _skip(made: Federation, coordinator: Coordinator) -> None:
    """Nobody draws, and the coordinator does not wait for them."""
    book = made.ledger(made.coordinator_keys)
    while coordinator.view.refresh().end is not None:
        assert made.turn(coordinator, {})
    current = coordinator.view.rounds.last
    made.network.advance_to(current.opened.seed_block + made.config.ledger.draw_window + 1)
    book.skip(current.number)


def approve(made: Federation) -> None:
    """Let the members register."""
    made.ledger(made.coordinator_keys).approve(*(keys.address for keys in made.keys))


def _join(made: Federation) -> None:
    founder, outsider = made.ledger(made.coordinator_keys), Keys.generate().address
    founder.approve(outsider)
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
