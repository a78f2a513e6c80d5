"""What a holder lets go of, what it never does, and hostile release blobs."""

import dataclasses

import pytest

from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.graph import Group
from fedgrove.node.masking.parameters import Sharing
from fedgrove.node.masking.release import held_shares, most_release_bytes, parse_release, release
from fedgrove.node.masking.sealing import Kind, MaskingRefused, open_shares, parse_shares
from fedgrove.node.masking.shamir import PRIME
from tests.node.masking.rounds import Round

N = 8
SHARERS = (0, 1, 2, 3, 4, 5, 6)
SURVIVORS = (0, 1, 2, 3, 4, 5)
HEADER = 40
FIRST, ENTRY = HEADER + 12, 54
"""Where the entries begin when nothing is unavailable or bad, and their length."""


@pytest.fixture(scope="module")
def work():
    return Round.make(N)


@pytest.fixture(scope="module")
def blobs(work):
    return {p: work.blob(p) for p in SHARERS}


def parse(work, data, position=0, sharers=SHARERS, survivors=SURVIVORS):
    return parse_release(data, work.graph, position, sharers, survivors)


def shares_of(work, blobs, owner, holder):
    return open_shares(work.graph, owner, holder, work.secrets[holder], parse_shares(blobs[owner], work.graph, owner))


def test_of_each_client_one_kind_of_share_is_released_and_never_the_other(work, blobs):
    """Seeds of survivors, keys of dropouts; the other kind's bytes are nowhere in the blob."""
    for holder in range(N):
        data = work.released(holder, blobs, SURVIVORS)
        parsed = parse(work, data, holder)
        assert set(parsed.shares) == set(SHARERS) - {holder}
        for owner in parsed.shares:
            pair = shares_of(work, blobs, owner, holder)
            right, wrong = (Kind.SEED, Kind.KEY) if owner in SURVIVORS else (Kind.KEY, Kind.SEED)
            assert parsed.shares[owner] == pair[right]
            assert pair[wrong].share.to_bytes(33) not in data and pair[wrong].salt not in data


def test_clients_out_of_the_mask_graph_are_left_out(work, blobs):
    """Position 7 never shared: nothing of it is released, yet it may hold and release shares itself."""
    assert 7 not in parse(work, work.released(0, blobs, SURVIVORS)).shares
    assert len(parse(work, work.released(7, blobs, SURVIVORS), 7).shares) == 7


def test_a_dropout_may_release_what_it_holds(work, blobs):
    assert set(parse(work, work.released(6, blobs, SURVIVORS), 6).shares) == set(SURVIVORS)


def test_a_dropout_without_surviving_partners_keeps_its_secret():
    work = Round.make(N)
    lonely = 0
    survivors = tuple(p for p in range(N) if p not in (lonely, *work.graph.neighbours[lonely]))
    graph = dataclasses.replace(work.graph, threshold=3, groups=(Group(tuple(range(N)), 3, tuple(range(N))),))
    work = dataclasses.replace(work, graph=graph)
    blobs = {p: work.blob(p) for p in range(N)}
    released = parse_release(work.released(7, blobs, survivors), graph, 7, range(N), survivors)
    assert lonely not in released.shares


@pytest.mark.parametrize(
    ("position", "survivors", "committed", "reason"),
    [
        (0, SURVIVORS, False, "wrongly listed"),
        (6, SURVIVORS, True, "wrongly not listed"),
        (0, (0, 1, 2, 3), True, "4 clients survived, but 5 are needed"),
        (0, (), False, "0 clients survived"),
        (0, (0, 1, 2, 3, 4, 5, 7), True, "client 23 is listed as a survivor but never shared"),
        (0, (0, 1, 2, 3, 4, 5, 8), True, "not in the round's order"),
        (0, (0, 1, 2, 3, 4, 5, -1), True, "not in the round's order"),
    ],
)
def test_nothing_is_released_for_lists_that_cannot_be(work, blobs, position, survivors, committed, reason):
    with pytest.raises(MaskingRefused, match=reason):
        work.released(position, blobs, survivors, committed=committed)


def test_nothing_is_released_of_a_survivor_that_lost_all_its_partners():
    """With its self-mask off, its update would be readable: it is left out, and the others are summed."""
    work = Round.make(16, shares=Sharing(15, 3))
    lonely = 5
    survivors = tuple(p for p in range(16) if p not in work.graph.neighbours[lonely])
    blobs = {p: work.blob(p) for p in range(16)}
    for holder in survivors:
        parsed = parse_release(work.released(holder, blobs, survivors), work.graph, holder, range(16), survivors)
        assert lonely not in parsed.shares


def test_with_kappa_below_one_nothing_is_released_if_a_tensor_would_be_bare():
    """Levels 0 to 2 of the tree cover tensors 0–1, 2–3, 0–1: without its partner of level 1 a client's 2–3 are bare."""
    work = Round.make(8, kappa=0.5, shares=Sharing(7, 3))
    blobs = {p: work.blob(p) for p in range(8)}
    work.released(1, blobs, range(8))
    survivors = tuple(p for p in range(8) if p != 2)
    with pytest.raises(MaskingRefused, match="no surviving partner of client 2 masks its tensor 2"):
        work.released(1, blobs, survivors)


def test_a_bad_or_missing_blob_is_reported_and_done_without(work, blobs):
    garbage = bytearray(blobs[2])
    garbage[-1] ^= 1  # the last entry is for holder 7: what it opens is not what was committed to
    held = held_shares(work.graph, 7, work.secrets[7], {**blobs, 1: b"nonsense", 2: bytes(garbage)} | {7: b"own"})
    assert set(held.bad) == {1, 2} and set(held.shares) == {0, 3, 4, 5, 6}
    data = release(work.graph, 7, held, SHARERS, SURVIVORS, committed=False)
    parsed = parse(work, data, 7)
    assert parsed.bad == (1, 2) and set(parsed.shares) == {0, 3, 4, 5, 6}


def test_shares_that_cannot_be_had_are_as_bad_as_wrong_ones(work, blobs):
    missing = {owner: blob for owner, blob in blobs.items() if owner != 3}
    held = held_shares(work.graph, 7, work.secrets[7], missing)
    assert held.bad == {3: "the shares of client 11 are unavailable"}
    assert parse(work, release(work.graph, 7, held, SHARERS, SURVIVORS, committed=False), 7).bad == (3,)


def test_nobody_is_called_bad_who_did_not_share(work, blobs):
    """Position 7 is not on the list of shares: there is nothing that it should have sealed."""
    held = held_shares(work.graph, 0, work.secrets[0], blobs)
    assert 7 in held.bad
    assert parse(work, release(work.graph, 0, held, SHARERS, SURVIVORS, committed=True)).bad == ()


def test_a_blob_of_megabytes_is_bad_whatever_is_in_it(work, blobs):
    held = held_shares(work.graph, 7, work.secrets[7], {**blobs, 2: bytes(1 << 20)})
    assert "have 1048576 bytes instead of 1370" in held.bad[2]


@pytest.mark.parametrize("survivors", [SURVIVORS, SHARERS])
def test_no_release_is_longer_than_the_most_that_is_fetched(work, blobs, survivors):
    for holder in range(N):
        full = work.released(holder, blobs, survivors, unavailable=survivors)
        none = work.released(holder, {owner: b"" for owner in blobs}, survivors, unavailable=survivors)
        assert max(len(full), len(none)) <= most_release_bytes(work.graph, holder)


def test_an_unavailable_update_is_reported_and_its_key_kept(work, blobs):
    data = work.released(0, blobs, SURVIVORS, unavailable=(4, 2))
    parsed = parse(work, data)
    assert parsed.unavailable == (2, 4)
    assert parsed.shares[4] == shares_of(work, blobs, 4, 0)[Kind.SEED]
    with pytest.raises(MaskingRefused, match="never committed"):
        work.released(0, blobs, SURVIVORS, unavailable=(6,))


def test_the_same_lists_give_the_same_blob(work, blobs):
    assert work.released(0, blobs, SURVIVORS) == work.released(0, dict(reversed(blobs.items())), SURVIVORS[::-1])


@pytest.mark.parametrize("byte", [0, 4, 35, 36, 39, 40, 43, 44, 47, 48, 51, 52, 55, 56])
def test_a_flipped_bit_in_any_field_but_share_and_salt_is_found(work, blobs, byte):
    """Magic, transcript, holder, counts of unavailable, of bad, of shares; owner, kind."""
    data = bytearray(work.released(0, blobs, SURVIVORS))
    data[byte] ^= 1
    with pytest.raises(InvalidContent):
        parse(work, bytes(data))


@pytest.mark.parametrize("byte", [58, 89, 90, 105])
def test_another_share_or_salt_parses_and_is_not_the_one_committed_to(work, blobs, byte):
    """Whoever has the commitments sees it (``test_liars``); the blob alone does not show it."""
    data = bytearray(work.released(0, blobs, SURVIVORS))
    data[byte] ^= 1
    assert parse(work, bytes(data)).shares[1] != shares_of(work, blobs, 1, 0)[Kind.SEED]


@pytest.mark.parametrize("cut", [0, 10, 39, 40, 43, 44, 47, 48, 51, 52, 60, -1])
def test_a_cut_or_padded_blob_is_found(work, blobs, cut):
    data = work.released(0, blobs, SURVIVORS)
    for wrong in (data[:cut], data + b"\0"):
        with pytest.raises(InvalidContent):
            parse(work, wrong)


def test_a_share_outside_the_field_is_found(work, blobs):
    data = bytearray(work.released(0, blobs, SURVIVORS))
    data[FIRST + 5 : FIRST + 5 + 33] = PRIME.to_bytes(33)
    with pytest.raises(InvalidContent, match=r"released an invalid share \(position 1\)"):
        parse(work, bytes(data))


def test_entries_out_of_order_or_twice_are_found(work, blobs):
    data = work.released(0, blobs, SURVIVORS)
    entries = [data[FIRST + ENTRY * i : FIRST + ENTRY * (i + 1)] for i in range(6)]
    for wrong in ([entries[1], entries[0], *entries[2:]], [entries[0], entries[0], *entries[2:]]):
        with pytest.raises(InvalidContent, match="should not have"):
            parse(work, data[:FIRST] + b"".join(wrong))


def test_unavailable_positions_must_be_survivors_in_order(work, blobs):
    data = work.released(0, blobs, SURVIVORS)
    body = data[HEADER + 4 :]
    for wrong in ([6], [9], [2, 1], [1, 1], [2**32 - 1]):
        listed = len(wrong).to_bytes(4) + b"".join(p.to_bytes(4) for p in wrong)
        with pytest.raises(InvalidContent):
            parse(work, data[:HEADER] + listed + body)
    with pytest.raises(InvalidContent, match="cut short"):
        parse(work, data[:HEADER] + b"\xff" * 4 + body)


def test_bad_positions_must_be_owners_of_held_shares_in_order(work, blobs):
    """And no share comes with a complaint about it."""
    data = work.released(0, blobs, SURVIVORS)
    start = HEADER + 4
    for wrong in ([7], [0], [9], [2, 1], [1, 1], [2**32 - 1], [1]):
        listed = len(wrong).to_bytes(4) + b"".join(p.to_bytes(4) for p in wrong)
        with pytest.raises(InvalidContent):
            parse(work, data[:start] + listed + data[start + 4 :])
    without_first = (5).to_bytes(4) + data[FIRST + ENTRY :]
    parsed = parse(work, data[:start] + (1).to_bytes(4) + (1).to_bytes(4) + without_first)
    assert parsed.bad == (1,) and set(parsed.shares) == set(SHARERS) - {0, 1}


@pytest.mark.parametrize("field", [HEADER, HEADER + 4])
@pytest.mark.parametrize("count", [8, 1 << 20, 2**32 - 1])
def test_a_list_that_is_longer_than_what_is_held_is_refused_unread(work, blobs, field, count):
    data = work.released(0, blobs, SURVIVORS)
    padded = data[:field] + count.to_bytes(4) + b"".join(p.to_bytes(4) for p in range(min(count, 1 << 16)))
    with pytest.raises(InvalidContent, match="cut short, or lists more than 6 positions"):
        parse(work, padded + data[field + 4 :])


@pytest.mark.parametrize(
    ("position", "sharers", "survivors"),
    [(1, SHARERS, SURVIVORS), (0, SHARERS, SHARERS), (0, range(N), SURVIVORS), (0, SHARERS, (0, 1))],
)
def test_a_release_for_other_lists_or_another_holder_is_found(work, blobs, position, sharers, survivors):
    with pytest.raises(InvalidContent):
        parse(work, work.released(0, blobs, SURVIVORS), position, sharers, survivors)


def test_held_shares_are_not_shown(work, blobs):
    held = held_shares(work.graph, 0, work.secrets[0], blobs)
    assert repr(held) == "HeldShares(holder=0, bad={7: 'the shares of client 23 are unavailable'})"
    released = parse(work, work.released(0, blobs, SURVIVORS))
    assert repr(released) == "Release(holder=0, unavailable=(), bad=())"
