"""The comparisons of a federation: all clients' messages, and partners that send nonsense."""

import hashlib

import numpy as np
import pytest

from fedgrove.common.errors import InvalidContent
from fedgrove.node.methods.procfl.comparing import (
    Party,
    answer_lengths,
    answers,
    blinded_bytes,
    blinded_set,
    part_of,
    set_size,
)
from fedgrove.node.methods.procfl.ecdh import Comparison
from fedgrove.node.methods.procfl.similarity import in_the_clear

SESSION = bytes(range(32))
COUNTS = {2: (3, 0, 2), 4: (1, 1, 4), 5: (0, 5, 0), 9: (2, 2, 2)}
SIZES = {client: sum(counts) for client, counts in COUNTS.items()}


def party(client: int) -> Party:
    """A client anew, as after a restart."""
    return Party(SESSION, client, COUNTS[client], hashlib.sha256(bytes([client])).digest())


def expected():
    return in_the_clear(np.array(list(COUNTS.values()))).overlaps.tolist()


def first_messages() -> dict[int, bytes]:
    found = {client: blinded_set(party(client)) for client in COUNTS}
    for client, message in found.items():
        assert len(message) == blinded_bytes(SIZES[client])
        assert set_size(message, SESSION, client) == SIZES[client]
    return found


def counted(first: dict[int, bytes], sent: dict[int, bytes], left: int, right: int) -> int:
    lengths = {client: answer_lengths(SIZES, client) for client in (left, right)}
    pair = Comparison(SESSION, left, right, first[left], first[right])
    return pair.count(part_of(lengths[left], right, sent[left]), part_of(lengths[right], left, sent[right])).overlap


def test_diffie_hellman_finds_the_overlaps():
    first = first_messages()
    sent = {client: answers(party(client), SIZES, first) for client in COUNTS}
    assert all(len(data) == sum(answer_lengths(SIZES, client).values()) for client, data in sent.items())
    clients = list(COUNTS)
    for i, left in enumerate(clients):
        for k, right in enumerate(clients[i + 1 :], i + 1):
            assert counted(first, sent, left, right) == expected()[i][k]


def test_who_sends_nonsense_gets_zeros_and_the_others_their_answers():
    first = first_messages()
    first[4] = first[4][:-1]
    with pytest.raises(InvalidContent):
        set_size(first[4], SESSION, 4)
    sent, lengths = answers(party(9), SIZES, first), answer_lengths(SIZES, 9)
    for partner in lengths:
        assert any(part_of(lengths, partner, sent)) == (partner != 4)


def test_a_party_is_the_same_after_a_restart():
    assert blinded_set(party(2)) == blinded_set(party(2))
    assert repr(party(2)).count("secret") == 0 and "counts" not in repr(party(2))
