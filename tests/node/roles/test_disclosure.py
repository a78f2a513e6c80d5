"""What a client discloses is made once, and only for the order it was made for."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Drawn, Sealed, Shared
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.learning.settings import ModelSpec, TrainingSettings
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.terms import method_of
from fedgrove.node.methods.training.codec import ModelUpdate
from fedgrove.node.methods.training.terms import TrainingTerms
from fedgrove.node.protocol.journal import Journal, JournalDamaged
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.roles.disclosure import Disclosure, OrderAbandoned
from tests.node.federation import Federation
from tests.node.masking.rounds import Round

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    """A federation whose first round is past its share phase, and the round's records."""
    with embedded() as network:
        made = Federation.found(network, tmp_path_factory.mktemp("sealed"), training=QUICK)
        made.register()
        coordinator, clients = made.coordinator(), made.clients()
        while "committed" not in made.said("client 4"):
            made.turn(coordinator, clients)
        yield made, coordinator.view.refresh()


@pytest.fixture
def client(sealed):
    federation, _ = sealed
    return federation.client(2)


def test_the_same_round_gives_the_same_bytes_also_after_a_restart(sealed, client):
    federation, each = sealed
    again = federation.client(2)
    for made in (client, again):
        assert made.context.disclosure.published(each, 2) is not None
    assert client.context.disclosure.shares(each, 2) == again.context.disclosure.shares(each, 2)


def test_shares_sealed_for_one_order_are_not_used_in_another(sealed, client):
    _, each = sealed
    client.context.disclosure.shares(each, 2)
    other = replace(each, once={**each.once, Sealed: replace(each.sealed, order_root=bytes(32))})
    with pytest.raises(OrderAbandoned):
        client.context.disclosure.shares(other, 2)
    with pytest.raises(OrderAbandoned):
        client.context.disclosure.released(other, 2, [])


def test_keys_that_a_partner_exchanged_make_another_order(sealed, client):
    _, each = sealed
    peer = each.draws[1]
    draws = {**each.draws, 1: replace(peer, mask_key=bytes(31) + b"\x09")}
    other = replace(each, by_member={**each.by_member, Drawn: draws})
    with pytest.raises(OrderAbandoned):
        client.context.disclosure.shares(other, 2)


def test_masks_that_hid_one_sum_never_hide_another(sealed, client):
    """The difference of two updates under the same masks would be the update itself."""
    _, each = sealed
    update = client.context.work.result(each, 2)
    masked = client.context.disclosure.masked(each, 2, update)
    shares = {number: share for number, share in each.shares.items() if number != 3}
    fewer = replace(each, by_member={**each.by_member, Shared: shares})
    with pytest.raises(OrderAbandoned):
        client.context.disclosure.masked(fewer, 2, update)
    other = ModelUpdate({name: tensor + np.float32(1) for name, tensor in update.tensors.items()})
    assert client.context.disclosure.masked(each, 2, other) == masked


def test_a_release_made_before_a_restart_is_the_one_that_is_sent(sealed):
    """Shares of other clients in a second one could expose them."""
    federation, each = sealed
    first = federation.client(3).context.disclosure.released(each, 3, [])
    again = federation.client(3).context.disclosure
    assert again.released(each, 3, [2]) == first
    (federation.directory / "client-3" / "00000001-released.sealed").unlink()
    with pytest.raises(JournalDamaged, match="released"):
        again.released(each, 3, [2])


def test_a_client_whose_order_was_abandoned_sits_out_and_says_why(sealed, client):
    federation, each = sealed
    note = client.context.journal.note(1)
    client.context.journal.save(note.replace(order="0" * 64))
    try:
        # Past the commit phase: what is left to do is to release.
        settings = federation.config.ledger
        federation.network.advance_to(each.opened.opened_at + sum_of_windows(settings))
        for peer in (*federation.clients().values(), client):
            while peer.step().acted:  # what is committed is published: it serves the sum that it was made for
                pass
        step = client.step()
        assert step.phase == "sit out" and "abandoned" in step.waiting and step.until
    finally:
        client.context.journal.save(note)


def sum_of_windows(settings):
    return (
        settings.seed_delay
        + settings.draw_window
        + settings.seal_window
        + settings.share_window
        + settings.commit_window
        + 1
    )


def test_what_was_made_once_and_lost_is_not_made_again(sealed, tmp_path):
    """A second release could hold other kinds of share than the first."""
    federation, each = sealed
    client = federation.client(1)
    (federation.directory / "client-1" / "00000001-shares.sealed").unlink()
    with pytest.raises(JournalDamaged, match="shares"):
        client.context.disclosure.shares(each, 1)


def test_nobody_waits_for_an_upload_that_is_in_no_sum(tmp_path):
    """Who left all groups could else hold up each round, by committing to what it never publishes."""
    config = FederationConfig(TrainingTerms(), TaskSettings.of_network(ModelSpec("small-cnn", (1, 8, 8), 10)))
    store, graph = DiskStore(tmp_path / "store"), Round.make(6, groups=((0, 1, 2, 3),), mode="pairwise").graph
    current = RoundRecords(SimpleNamespace(round=1), order=(7, 3, 9, 4, 8, 5))
    current.commits.update(
        {client: SimpleNamespace(digest=store.put(b"%d" % client).digest) for client in current.order}
    )
    inputs = SimpleNamespace(graph=graph, bounds=None)
    disclosure = Disclosure(Journal(tmp_path, bytes(32)), store, method_of(config), lambda current: inputs)
    disclosure.method.codec.expected_bytes = lambda number, client: 1
    assert disclosure.unpublished(current, 7) == []
    for client in (5, 9):
        current.commits[client].digest = bytes(32)
    assert disclosure.unpublished(current, 7) == [9]
    store.available = lambda digest, most: False  # of the others nobody asks: they could be of any size
    assert disclosure.unpublished(current, 7) == [3, 4, 9]
    current.commits.clear()
    assert disclosure.unpublished(current, 7) == []
