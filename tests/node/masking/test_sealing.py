"""Sealed shares: round trip, every field tampered with, other rounds, forward secrecy."""

import dataclasses
import os

import pytest

from node.masking.context import RoundContext
from node.masking.keys import RoundSecrets
from node.masking.sealing import (
    SEALED_BYTES,
    InvalidShares,
    MaskingRefused,
    SharePair,
    open_shares,
    parse_shares,
    seal_shares,
)
from node.masking.shamir import combine
from tests.node.masking.rounds import Round, seeded


@pytest.fixture(scope="module")
def work():
    return Round.make(6)


def test_every_holder_opens_its_shares_and_the_threshold_of_them_gives_both_secrets(work):
    for owner in range(6):
        messages = parse_shares(work.blob(owner), work.graph, owner)
        opened = [open_shares(work.graph, owner, h, work.secrets[h], m) for h, m in messages.items()]
        t = work.graph.thresholds[owner]
        assert combine(dict(enumerate(pair.seed for pair in opened[:t]))).to_bytes(32) == work.secrets[owner].self_seed
        keys = {len(opened) - 1 - i: pair.key for i, pair in enumerate(opened[::-1][:t])}
        assert combine(keys).to_bytes(32) == work.secrets[owner].mask_secret


def test_size_is_fixed_by_the_number_of_holders(work):
    assert len(work.blob(0)) == 40 + 5 * SEALED_BYTES == 510
    assert len(Round.make(40).blob(0)) == 40 + 32 * 94


def test_sealing_twice_never_reuses_a_nonce(work):
    first, second = (seal_shares(work.graph, 0, work.secrets[0], os.urandom) for _ in range(2))
    messages = [parse_shares(blob, work.graph, 0).values() for blob in (first, second)]
    assert len({message[:12] for blob in messages for message in blob}) == 10


def test_nobody_else_opens_a_message(work):
    messages = parse_shares(work.blob(0), work.graph, 0)
    for holder, message in messages.items():
        for other in range(6):
            if other != holder:
                with pytest.raises(InvalidShares):
                    open_shares(work.graph, 0, other, work.secrets[other], message)


def test_what_a_round_makes_public_does_not_open_its_shares(work):
    """Forward secrecy: with the revealed e and b of everybody, but without c, the ciphertexts stay shut."""
    messages = parse_shares(work.blob(0), work.graph, 0)
    for holder, message in messages.items():
        own, sender = work.secrets[holder], work.secrets[0]
        for revealed in (own.mask_secret, sender.mask_secret):
            thief = RoundSecrets(own.mask_secret, revealed, own.self_seed)
            with pytest.raises(InvalidShares):
                open_shares(work.graph, 0, holder, thief, message)


def test_the_writer_can_open_neither_direction_as_the_other(work):
    """Both directions agree on one point; a message sent back to its writer must not open."""
    message = parse_shares(work.blob(0), work.graph, 0)[1]
    with pytest.raises(InvalidShares):
        open_shares(work.graph, 1, 0, work.secrets[0], message)


@pytest.mark.parametrize("byte", [0, 11, 12, 44, 45, 77, 78, 93])
def test_a_flipped_bit_in_a_message_is_found(work, byte):
    message = bytearray(parse_shares(work.blob(0), work.graph, 0)[1])
    message[byte] ^= 1
    with pytest.raises(InvalidShares, match="cannot be opened"):
        open_shares(work.graph, 0, 1, work.secrets[1], bytes(message))


@pytest.mark.parametrize("byte", [0, 4, 35, 36, 39])
def test_a_flipped_bit_in_the_header_is_found(work, byte):
    blob = bytearray(work.blob(0))
    blob[byte] ^= 1
    with pytest.raises(InvalidShares, match="another round or client"):
        parse_shares(bytes(blob), work.graph, 0)


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b + b"\0", lambda b: b"", lambda b: b * 1000])
def test_another_length_is_found(work, change):
    with pytest.raises(InvalidShares, match="bytes"):
        parse_shares(change(work.blob(0)), work.graph, 0)


def test_a_blob_of_another_client_is_found(work):
    with pytest.raises(InvalidShares, match="another round or client"):
        parse_shares(work.blob(1), work.graph, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"chain_id": 1},
        {"ledger": "0x" + "aa" * 20},
        {"round": 8},
    ],
)
def test_a_message_for_another_chain_contract_or_round_does_not_open(work, change):
    message = parse_shares(work.blob(0), work.graph, 0)[1]
    context = dataclasses.replace(work.graph.context, **change)
    assert isinstance(context, RoundContext)
    other = dataclasses.replace(work.graph, context=context)
    with pytest.raises(InvalidShares, match="cannot be opened"):
        open_shares(other, 0, 1, work.secrets[1], message)
    with pytest.raises(InvalidShares, match="another round"):
        parse_shares(work.blob(0), other, 0)


@pytest.mark.parametrize("position", [0, 1])
def test_a_message_between_other_clients_does_not_open(work, position):
    message = parse_shares(work.blob(0), work.graph, 0)[1]
    people = list(work.graph.participants)
    people[position] = dataclasses.replace(people[position], client=999)
    with pytest.raises(InvalidShares):
        open_shares(dataclasses.replace(work.graph, participants=tuple(people)), 0, 1, work.secrets[1], message)


def test_a_holder_with_a_sealing_key_of_low_order_gets_noise(work):
    people = list(work.graph.participants)
    people[2] = dataclasses.replace(people[2], seal_key=bytes(32))
    graph = dataclasses.replace(work.graph, participants=tuple(people))
    blob = seal_shares(graph, 0, work.secrets[0], seeded(3))
    messages = parse_shares(blob, graph, 0)
    assert len(messages[2]) == SEALED_BYTES
    open_shares(graph, 0, 1, work.secrets[1], messages[1])
    with pytest.raises(InvalidShares):
        open_shares(graph, 2, 1, work.secrets[1], messages[1])


def test_an_authentic_message_that_is_no_field_element_is_refused(work, monkeypatch):
    monkeypatch.setattr("node.masking.sealing.split", lambda *_: (2**264 - 1,) * 5)
    message = parse_shares(work.blob(0), work.graph, 0)[1]
    with pytest.raises(InvalidShares, match="not an element"):
        open_shares(work.graph, 0, 1, work.secrets[1], message)


def test_a_client_does_not_share_secrets_of_other_keys(work):
    with pytest.raises(MaskingRefused, match="not those of the keys"):
        seal_shares(work.graph, 0, work.secrets[1], seeded(1))


def test_shares_are_not_shown():
    assert repr(SharePair(12345, 67890)) == "SharePair()"
