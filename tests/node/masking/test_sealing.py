"""Sealed shares: round trip, commitments, every field tampered with, other rounds, forward secrecy."""

import dataclasses
import hashlib
import os
import re

import pytest

from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.context import RoundContext
from fedgrove.node.masking.graph import MaskGraph
from fedgrove.node.masking.keys import RoundSecrets, clamp
from fedgrove.node.masking.sealing import (
    ENTRY_BYTES,
    SEALED_BYTES,
    Kind,
    MaskingRefused,
    Opening,
    SealedShares,
    commitment,
    is_committed,
    open_shares,
    parse_shares,
    seal_shares,
    shares_bytes,
)
from fedgrove.node.masking.shamir import PRIME, combine
from tests.node.masking.rounds import CONTEXT, Round, seeded

HEADER = 40
N = 6


@pytest.fixture(scope="module")
def work():
    return Round.make(N)


@pytest.fixture(scope="module")
def sealed(work):
    """What position 0 shared."""
    return parse_shares(work.blob(0), work.graph, 0)


def with_message(sealed: SealedShares, holder: int, message: bytes) -> SealedShares:
    return dataclasses.replace(sealed, messages={**sealed.messages, holder: message})


def opened(work: Round, owner: int, holder: int, sealed: SealedShares, graph: MaskGraph | None = None):
    return open_shares(graph or work.graph, owner, holder, work.secrets[holder], sealed)


def test_every_holder_opens_its_shares_and_the_threshold_of_them_gives_both_secrets(work):
    for owner in range(N):
        parsed, t = parse_shares(work.blob(owner), work.graph, owner), work.graph.threshold
        pairs = [opened(work, owner, holder, parsed) for holder in work.graph.holders[owner]]
        seeds = dict(enumerate(pair[Kind.SEED].share for pair in pairs[:t]))
        assert combine(seeds).to_bytes(32) == work.secrets[owner].self_seed
        keys = {len(pairs) - 1 - i: pair[Kind.KEY].share for i, pair in enumerate(pairs[::-1][:t])}
        assert combine(keys).to_bytes(32) == work.secrets[owner].mask_secret


@pytest.mark.parametrize("n", [3, 6, 40])
def test_size_is_fixed_by_the_number_of_holders(n):
    work = Round.make(n)
    assert len(work.blob(0)) == shares_bytes(work.graph, 0) == HEADER + 190 * (n - 1)
    assert (SEALED_BYTES, ENTRY_BYTES) == (126, 190)


def test_sealing_twice_never_reuses_a_nonce_or_a_salt(work):
    first, second = (parse_shares(seal_shares(work.graph, 0, work.secrets[0], os.urandom), work.graph, 0) for _ in "ab")
    assert len({message[:12] for each in (first, second) for message in each.messages.values()}) == 2 * (N - 1)
    salts = [
        opening.salt
        for each in (first, second)
        for holder in each.messages
        for opening in opened(work, 0, holder, each).values()
    ]
    assert len(set(salts)) == len(salts) == 4 * (N - 1)


def test_nobody_else_opens_a_message(work, sealed):
    for holder, message in sealed.messages.items():
        for other in set(range(N)) - {0, holder}:
            with pytest.raises(InvalidContent):
                opened(work, 0, other, with_message(sealed, other, message))
            moved = {(other, kind): sealed.commitments[holder, kind] for kind in Kind}
            with pytest.raises(InvalidContent, match="cannot be opened"):
                opened(work, 0, other, SealedShares({other: message}, moved))


def test_what_a_round_makes_public_does_not_open_its_shares(work, sealed):
    """Forward secrecy: with the revealed e and b of everybody, but without c, the ciphertexts stay shut."""
    for holder in work.graph.holders[0]:
        own, sender = work.secrets[holder], work.secrets[0]
        for revealed in (own.mask_secret, sender.mask_secret, own.self_seed, sender.self_seed):
            thief = RoundSecrets(own.mask_secret, clamp(revealed), own.self_seed)
            with pytest.raises(InvalidContent):
                open_shares(work.graph, 0, holder, thief, sealed)


def test_the_writer_can_open_neither_direction_as_the_other(work, sealed):
    """Both directions agree on one point; a message sent back to its writer must not open."""
    back = SealedShares({0: sealed.messages[1]}, {(0, kind): sealed.commitments[1, kind] for kind in Kind})
    with pytest.raises(InvalidContent, match="cannot be opened"):
        opened(work, 1, 0, back)


# --- commitments ------------------------------------------------------------------------------------------------------


def test_a_commitment_is_the_hash_of_round_owner_holder_kind_salt_and_share(work, sealed):
    """Built here field by field from the docstring."""
    for holder in work.graph.holders[0]:
        for kind, opening in opened(work, 0, holder, sealed).items():
            fields = [
                b"fedgrove share commitment 1",
                CONTEXT.chain_id.to_bytes(32),
                bytes.fromhex(CONTEXT.ledger[2:]),
                CONTEXT.round.to_bytes(8),
                work.graph.client(0).to_bytes(4),
                work.graph.client(holder).to_bytes(4),
                bytes([kind]),
                opening.salt,
                opening.share.to_bytes(33),
            ]
            assert sealed.commitments[holder, kind] == hashlib.sha256(b"".join(fields)).digest()
            assert is_committed(work.graph, 0, holder, kind, opening, sealed)


def test_a_share_committed_to_for_one_place_counts_at_no_other(work, sealed):
    """Another kind, holder, owner, salt or share; another round, ledger or chain."""
    right = opened(work, 0, 1, sealed)[Kind.SEED]
    assert is_committed(work.graph, 0, 1, Kind.SEED, right, sealed)
    assert not is_committed(work.graph, 0, 1, Kind.KEY, right, sealed)
    assert not is_committed(work.graph, 0, 2, Kind.SEED, right, sealed)
    assert not is_committed(work.graph, 2, 1, Kind.SEED, right, sealed)
    assert not is_committed(work.graph, 0, 1, Kind.SEED, Opening(right.share + 1, right.salt), sealed)
    assert not is_committed(work.graph, 0, 1, Kind.SEED, Opening(right.share, bytes(16)), sealed)
    for change in ({"round": 8}, {"chain_id": 1}, {"ledger": "0x" + "aa" * 20}):
        graph = dataclasses.replace(work.graph, context=dataclasses.replace(CONTEXT, **change))
        assert not is_committed(graph, 0, 1, Kind.SEED, right, sealed)


def test_commitments_say_nothing_of_a_share_without_its_salt(work):
    """The same secrets shared twice, and the same share under two salts, give unlike commitments."""
    one = commitment(work.graph, 0, 1, Kind.SEED, Opening(5, bytes(16)))
    other = commitment(work.graph, 0, 1, Kind.SEED, Opening(5, bytes(15) + b"\1"))
    assert one != other
    first, second = (parse_shares(work.blob(0, seed), work.graph, 0).commitments for seed in (1, 2))
    assert not set(first.values()) & set(second.values())


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("bit", [0, 100, 255])
def test_a_message_that_opens_to_what_was_not_committed_to_is_the_owners_fault(work, sealed, kind, bit):
    wrong = bytearray(sealed.commitments[1, kind])
    wrong[bit // 8] ^= 1 << bit % 8
    lied = dataclasses.replace(sealed, commitments={**sealed.commitments, (1, kind): bytes(wrong)})
    with pytest.raises(InvalidContent, match="the share of client 2 does not match its commitment"):
        opened(work, 0, 1, lied)
    assert opened(work, 0, 2, lied) == opened(work, 0, 2, sealed)  # nobody else's share is the worse for it


def test_commitments_of_the_two_kinds_are_not_interchangeable(work, sealed):
    seed, key = (sealed.commitments[1, kind] for kind in Kind)
    swapped = {**sealed.commitments, (1, Kind.SEED): key, (1, Kind.KEY): seed}
    with pytest.raises(InvalidContent, match="does not match its commitment"):
        opened(work, 0, 1, dataclasses.replace(sealed, commitments=swapped))


# --- tampering --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("byte", [0, 11, 12, 44, 45, 60, 61, 93, 94, 109, 110, 125])
def test_a_flipped_bit_in_a_message_is_found(work, sealed, byte):
    """Nonce, share and salt of b, share and salt of e, tag."""
    message = bytearray(sealed.messages[1])
    message[byte] ^= 1
    with pytest.raises(InvalidContent, match="cannot be opened"):
        opened(work, 0, 1, with_message(sealed, 1, bytes(message)))


@pytest.mark.parametrize("index", range(N - 1))
@pytest.mark.parametrize("byte", [0, 12, 61, 125, 126, 157, 158, 189])
def test_a_flipped_bit_anywhere_in_an_entry_harms_its_holder_alone(work, index, byte):
    """Message, commitment to b's share, commitment to e's share: whatever of it, one holder complains."""
    blob = bytearray(work.blob(0))
    blob[HEADER + ENTRY_BYTES * index + byte] ^= 1
    parsed = parse_shares(bytes(blob), work.graph, 0)
    harmed = []
    for holder in work.graph.holders[0]:
        try:
            opened(work, 0, holder, parsed)
        except InvalidContent:
            harmed.append(holder)
    assert harmed == [work.graph.holders[0][index]]


@pytest.mark.parametrize("byte", [0, 4, 35, 36, 39])
def test_a_flipped_bit_in_the_header_is_found(work, byte):
    blob = bytearray(work.blob(0))
    blob[byte] ^= 1
    with pytest.raises(InvalidContent, match="another round or client"):
        parse_shares(bytes(blob), work.graph, 0)


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b + b"\0", lambda b: b"", lambda b: b * 1000])
def test_another_length_is_found(work, change):
    with pytest.raises(InvalidContent, match="bytes"):
        parse_shares(change(work.blob(0)), work.graph, 0)


def test_a_blob_of_another_client_is_found(work):
    with pytest.raises(InvalidContent, match="another round or client"):
        parse_shares(work.blob(1), work.graph, 0)


@pytest.mark.parametrize("change", [{"chain_id": 1}, {"ledger": "0x" + "aa" * 20}, {"round": 8}])
def test_a_message_for_another_chain_contract_or_round_does_not_open(work, sealed, change):
    context = dataclasses.replace(work.graph.context, **change)
    assert isinstance(context, RoundContext)
    other = dataclasses.replace(work.graph, context=context)
    with pytest.raises(InvalidContent, match="cannot be opened"):
        opened(work, 0, 1, sealed, other)
    with pytest.raises(InvalidContent, match="another round"):
        parse_shares(work.blob(0), other, 0)


@pytest.mark.parametrize("position", [0, 1])
def test_a_message_between_other_clients_does_not_open(work, sealed, position):
    people = list(work.graph.participants)
    people[position] = dataclasses.replace(people[position], client=999)
    with pytest.raises(InvalidContent):
        opened(work, 0, 1, sealed, dataclasses.replace(work.graph, participants=tuple(people)))


def test_a_holder_with_a_sealing_key_of_low_order_gets_noise(work):
    people = list(work.graph.participants)
    people[2] = dataclasses.replace(people[2], seal_key=bytes(32))
    graph = dataclasses.replace(work.graph, participants=tuple(people))
    parsed = parse_shares(seal_shares(graph, 0, work.secrets[0], seeded(3)), graph, 0)
    assert len(parsed.messages[2]) == SEALED_BYTES
    assert set(opened(work, 0, 1, parsed, graph)) == set(Kind)
    with pytest.raises(InvalidContent):
        opened(work, 2, 1, parsed, graph)


@pytest.mark.parametrize("share", [PRIME, 2**264 - 1])
def test_an_authentic_message_that_is_no_field_element_is_refused(work, monkeypatch, share):
    monkeypatch.setattr("fedgrove.node.masking.sealing.split", lambda *_: (share,) * (N - 1))
    parsed = parse_shares(work.blob(0), work.graph, 0)
    with pytest.raises(InvalidContent, match="not a field element"):
        opened(work, 0, 1, parsed)


@pytest.mark.parametrize("length", [0, 48, 50])
def test_an_opening_has_a_share_and_a_salt_and_nothing_else(length):
    with pytest.raises(InvalidContent, match="not a field element and a salt"):
        Opening.from_bytes(bytes(length))
    assert Opening.from_bytes(Opening(PRIME - 1, b"s" * 16).to_bytes()) == Opening(PRIME - 1, b"s" * 16)


def test_a_client_does_not_share_secrets_of_other_keys(work):
    with pytest.raises(MaskingRefused, match="do not match the keys"):
        seal_shares(work.graph, 0, work.secrets[1], seeded(1))


def test_neither_shares_nor_salts_are_shown(work, sealed):
    pair = opened(work, 0, 1, sealed)
    assert re.fullmatch(r"\{<Kind\.SEED: 1>: Opening\(\), <Kind\.KEY: 2>: Opening\(\)\}", repr(pair))
