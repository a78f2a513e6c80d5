"""The comparisons of a federation: all clients' messages by both protocols, and partners that send nonsense."""

import hashlib

import numpy as np
import pytest
from fedgrove.node.methods.procfl.comparing import Party, Received, comparing, part_of, upload
from fedgrove.node.methods.procfl.ecdh import Comparison
from fedgrove.node.methods.procfl.messages import InvalidMessage
from fedgrove.node.methods.procfl.similarity import in_the_clear

SESSION = bytes(range(32))
COUNTS = {2: (3, 0, 2), 4: (1, 1, 4), 5: (0, 5, 0), 9: (2, 2, 2)}
SIZES = {client: sum(counts) for client, counts in COUNTS.items()}


def party(client: int) -> Party:
    """A client anew, as after a restart."""
    return Party(SESSION, client, COUNTS[client], hashlib.sha256(bytes([client])).digest())


def expected():
    return in_the_clear(np.array(list(COUNTS.values()))).overlaps.tolist()


def everybody(
    psi: str, stage: str, first: dict[int, bytes], before: dict[int, bytes], earlier: str
) -> dict[int, bytes]:
    """All uploads of a round."""
    protocol, found = comparing(psi), {}
    for client in COUNTS:
        received = {}
        for partner in COUNTS:
            lengths = protocol.lengths(earlier, SIZES, partner) if before else {}
            received[partner] = Received(first[partner], part_of(lengths, client, before.get(partner, b"")))
        found[client] = upload(psi, party(client), stage, SIZES, received)
        assert len(found[client]) == sum(protocol.lengths(stage, SIZES, client).values())
    return found


def firsts(psi: str) -> dict[int, bytes]:
    protocol = comparing(psi)
    found = {client: protocol.first(party(client)) for client in COUNTS}
    for client, message in found.items():
        assert len(message) == protocol.first_bytes(SIZES[client])
        assert protocol.size(message, SESSION, client) == SIZES[client]
    return found


def counted(first: dict[int, bytes], answers: dict[int, bytes], left: int, right: int) -> int:
    lengths = {client: comparing("ecdh").lengths("answer", SIZES, client) for client in (left, right)}
    pair = Comparison(SESSION, left, right, first[left], first[right])
    return pair.count(
        part_of(lengths[left], right, answers[left]), part_of(lengths[right], left, answers[right])
    ).overlap


def test_diffie_hellman_finds_the_overlaps():
    first = firsts("ecdh")
    answers = everybody("ecdh", "answer", first, {}, "")
    clients = list(COUNTS)
    for i, left in enumerate(clients):
        for k, right in enumerate(clients[i + 1 :], i + 1):
            assert counted(first, answers, left, right) == expected()[i][k]


def test_rsa_finds_the_overlaps_and_leaves_out_who_does_not_report():
    first = firsts("rsa")
    asked = everybody("rsa", "ask", first, {}, "")
    answered = everybody("rsa", "answer", first, asked, "ask")
    reports = everybody("rsa", "report", first, answered, "answer")
    assert [list(row) for row in comparing("rsa").overlaps(reports, SIZES)] == expected()
    left = {client: report for client, report in reports.items() if client != 4}
    kept = np.array(expected())[np.ix_([0, 2, 3], [0, 2, 3])]
    assert (np.array(comparing("rsa").overlaps(left, SIZES)) == kept).all()


def test_a_report_of_more_than_a_set_has_counts_as_nothing():
    reports = {client: b"\0\0\1\0" * 3 for client in COUNTS}
    assert comparing("rsa").overlaps(reports, SIZES) == tuple(
        tuple(SIZES[own] if own == other else 0 for other in SIZES) for own in SIZES
    )


@pytest.mark.parametrize("psi", ["ecdh", "rsa"])
def test_who_sends_nonsense_gets_zeros_and_the_others_their_answers(psi):
    first = firsts(psi)
    first[4] = first[4][:-1] + bytes([first[4][-1] ^ 1 or 2])
    with pytest.raises(InvalidMessage):
        comparing(psi).size(first[4][:-1], SESSION, 4)
    stage = comparing(psi).stages[1]
    first[4] = first[4][:-1]
    lengths = comparing(psi).lengths(stage, SIZES, 9)
    sent = upload(psi, party(9), stage, SIZES, {client: Received(message) for client, message in first.items()})
    for partner in lengths:
        assert any(part_of(lengths, partner, sent)) == (partner != 4)


def test_a_party_is_the_same_after_a_restart():
    for psi in ("ecdh", "rsa"):
        assert comparing(psi).first(party(2)) == comparing(psi).first(party(2))
    assert repr(party(2)).count("secret") == 0 and "counts" not in repr(party(2))
