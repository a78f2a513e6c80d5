"""Draws and their order at the ledger, on the shipped contracts: who may draw, and which order can be sealed."""

from dataclasses import replace

import pytest

from fedgrove.chain.crypto import tree, vrf
from fedgrove.chain.errors import error_name
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import (
    DrawEnded,
    Drawn,
    DrawRejected,
    SealChunk,
    Sealed,
)
from fedgrove.chain.records.signed_draws import sign_draw
from tests.chain.face.ledger_calls import of_kind, refused
from tests.chain.federations import SETTINGS, TERMS, found


def test_an_order_by_another_block_is_refused(federation):
    """Sorted by the randomness of a block that suits the sender, the tickets do not ascend by the contract's keys."""
    ledger, number = federation.coordinator, federation.open()
    federation.to_draw(number)
    for index in range(4):
        federation.draw(number, index)
    tickets, order_block = federation.tickets(number), ledger.round(number).order_block
    federation.network.advance_to(order_block)
    ledger.records()
    right = federation.order(number)
    hashes = ((block, ledger.block_hash(block)) for block in range(order_block - 1, 0, -1))
    other = next(block for block, found in hashes if sorted_by(federation, number, tickets, found) != right)
    refused("TicketsNotAscending", ledger.seal, number, tickets, other)
    ledger.seal(number, tickets, order_block)


def sorted_by(federation, number, tickets, randomness):
    return tree.order(tickets, tree.order_seed(*federation.place, number, randomness))


def test_a_batch_passes_over_bad_draws(federation):
    ledger, deployment = federation.coordinator, federation.deployment
    number = federation.open()
    federation.to_draw(number)
    alpha = federation.alpha(number)
    items = [sign_draw(deployment, number, keys, alpha, b"m" * 32, b"s" * 32, 5) for keys in federation.keys]
    forged = sign_draw(deployment, number + 1, federation.keys[0], alpha, b"m" * 32, b"s" * 32, 5)
    ledger.draw_batch(number, [forged, *items, items[0]])
    last = ledger.records()[-7:]
    assert [type(record) for record in last] == [DrawRejected] + [Drawn] * 4 + [DrawEnded, DrawRejected]
    assert [error_name(last[0].reason), error_name(last[-1].reason)] == ["BadSignature", "WrongPhase"]
    assert [record.at.author for record in last[1:-2]] == [keys.address for keys in federation.keys]
    assert {record.at.author for record in (last[0], *last[-2:])} == {federation.founder.address}
    with pytest.raises(ValueError, match="batch"):
        ledger.draw_batch(number, [])


def test_a_rate_below_one_selects_by_the_vrf():
    with embedded() as network:
        federation = found(network, terms=replace(TERMS, rates=((1, 300_000), (2, 600_000))))
        for rate in (300_000, 600_000):
            number = federation.open()
            assert federation.coordinator.round(number).sampling_rate == rate
            federation.to_draw(number)
            alpha = federation.alpha(number)
            for index, keys in enumerate(federation.keys):
                beta = vrf.proof_to_hash(vrf.prove(keys.vrf, alpha))
                if tree.is_drawn(beta, rate):
                    federation.draw(number, index)
                else:
                    refused("NotSelected", federation.draw, number, index)
            network.advance_to(federation.coordinator.round(number).seal_end)
            federation.clients[0].fail(number)


def test_a_large_order_is_sealed_in_chunks(federation, monkeypatch):
    monkeypatch.setattr("fedgrove.chain.face.ledger.MAX_SEAL", 2)
    monkeypatch.setattr("fedgrove.chain.face.ledger.MAX_CHUNK", 3)
    number = federation.sealed()
    assert federation.coordinator.round(number).order_root == tree.order_root(federation.order(number))
    assert [record.placed for record in federation.coordinator.records() if isinstance(record, SealChunk)] == [3, 4]


def test_the_randao_mix_orders_where_the_terms_say_so():
    with embedded() as network:
        federation = found(network, settings=replace(SETTINGS, randao=True))
        number, ledger = federation.sealed(), federation.coordinator
        sealed = next(filter(of_kind(Sealed), ledger.records()))
        mix = ledger.block_randomness(ledger.round(number).order_block)
        assert sealed.order_seed == tree.order_seed(*federation.place, number, mix)
