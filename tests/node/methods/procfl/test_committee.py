"""Who judges whom: pools by their definition, lots, halves, votes and the evidence that they follow from."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.common.errors import InvalidContent
from fedgrove.node.methods.procfl.cases import Case
from fedgrove.node.methods.procfl.committee import (
    Ballot,
    by_lot,
    drawn_members,
    opened_ballot,
    pool_of,
    signed_off,
    tally,
    vote_bytes,
)
from fedgrove.node.methods.procfl.evidence import Evidence, Finding, Rule
from fedgrove.node.methods.procfl.similarity import in_the_clear

COUNTS = st.lists(
    st.lists(st.integers(0, 20), min_size=3, max_size=3).filter(any), min_size=6, max_size=12, unique_by=tuple
)
RULE = Rule()


@given(COUNTS, st.floats(0.01, 1), st.data())
def test_a_pool_is_of_those_who_have_enough_in_common(counts, least, data):
    similarity = in_the_clear(np.array(counts, dtype=np.int64))
    everyone = range(len(counts))
    group = data.draw(st.lists(st.sampled_from(everyone), min_size=1, max_size=4, unique=True))
    free = data.draw(st.lists(st.sampled_from(everyone), unique=True))
    found = pool_of(similarity, group, free, least)
    for judge in everyone:
        common = sum(sum(map(min, counts[judge], counts[member])) for member in group)
        largest = sum(max(sum(counts[judge]), sum(counts[member])) for member in group)
        enough = Fraction(common, largest) >= Fraction(str(least))
        assert (judge in found) == (judge in free and judge not in group and enough)


def test_who_claims_samples_of_all_labels_is_no_more_like_a_group_than_others():
    """Its set has all that theirs have: beside its own size that is little."""
    honest, outsider, liar = [40, 0, 8, 0], [8, 8, 24, 8], [3000, 3000, 3000, 3000]
    similarity = in_the_clear(np.array([honest, honest, outsider, liar], dtype=np.int64))
    assert similarity.ism[0, 3] == 1 and pool_of(similarity, (0, 1), (2, 3), 0.1) == (2,)


@given(st.sets(st.integers(1, 2**32 - 2), max_size=30), st.binary(min_size=32, max_size=32))
def test_lots_are_an_order_of_all_that_depends_on_nothing_but_seed_and_purpose(clients, lots):
    first = by_lot(clients, lots, "judge")
    assert sorted(first) == sorted(clients) and first == by_lot(sorted(clients, reverse=True), lots, "judge")


def test_every_judge_is_drawn_as_often():
    drawn = [by_lot(range(1, 9), bytes([k % 256, k // 256]) * 16, "judge")[:2] for k in range(2000)]
    often = np.bincount([client for both in drawn for client in both], minlength=9)[1:]
    assert abs(often - 500).max() < 90  # 4.6 standard deviations


def test_members_are_drawn_up_to_the_most():
    lots = bytes(32)
    assert len(drawn_members((1, 2, 3, 4, 5), 2, lots, {})) == 2 and drawn_members((1, 2), 5, lots, {}) == [1, 2]
    assert drawn_members((), 2, lots, {}) == [] == drawn_members((1, 2), 0, lots, {})


@given(st.binary(min_size=32, max_size=32))
def test_who_was_never_judged_comes_first_and_then_whose_turn_is_longest_ago(lots):
    assert drawn_members((1, 2, 3, 4, 5), 3, lots, {1: 0, 3: 7, 4: 2}) == [1, 2, 5]


@given(st.binary(min_size=32, max_size=32), st.integers(4, 12), st.integers(2, 3))
def test_nobody_is_opened_who_is_not_drawn(lots, n, reach):
    """Whose partners all tell their secrets stands bare, drawn or not."""
    partners = {k: {(k + step) % n for step in range(-reach + 1, reach) if step} for k in range(n)}

    def opens(telling):
        return telling | {k for k, others in partners.items() if others <= telling}

    drawn = set(drawn_members(range(n), n // 2, lots, {}, opens))
    assert opens(drawn) == drawn and 1 <= len(drawn) <= n // 2


def verdict(seats: int, *ballots: Ballot) -> Case:
    committee = tuple(range(1, seats + 1))
    return Case(0, (4, 5, 6), committee, (4, 5, 6), committee, tally((4, 5, 6), committee, ballots))


def test_nobody_is_expelled_without_more_than_half_of_all_seats():
    votes = {1: (True, False, False), 2: (True, False, False), 3: (False, False, True)}
    one, two, three = (Ballot(voter, against, bytes(32)) for voter, against in votes.items())
    assert verdict(3, one, two).against == (2, 0, 0)
    assert verdict(3, one, two).expelled == verdict(3, one, two, three).expelled == (4,)
    assert verdict(4, one, two, three).expelled == verdict(3, one).expelled == verdict(3, three).expelled == ()
    assert verdict(3).against == (0, 0, 0) and verdict(3).expelled == ()


def test_odd_ballots_are_not_counted():
    good = Ballot(1, (True, False), bytes(32))
    for ballots in ([good, good], [good, Ballot(9, (True, False), bytes(32))]):
        with pytest.raises(ValueError, match="every judge must vote once, and nobody else may vote"):
            tally((4, 5), (1, 2), ballots)
    with pytest.raises(ValueError, match="each of the 3 members"):
        tally((4, 5, 6), (1, 2), [good])


@given(st.integers(0, 2**32 - 1), st.lists(st.booleans(), max_size=20), st.binary(min_size=32, max_size=32))
def test_ballots_survive_the_ledger(voter, against, evidence):
    ballot = Ballot(voter, tuple(against), evidence)
    assert Ballot.from_bytes(ballot.to_bytes()) == ballot
    assert len(ballot.to_bytes()) == 44 + (len(against) + 7) // 8


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: b"FGV2" + data[4:],
        lambda data: data[:8] + (9).to_bytes(4) + data[12:],
        lambda data: data[:12] + b"\xff" + data[13:],
    ],
)
def test_bytes_that_are_no_ballot_are_refused(change):
    with pytest.raises(InvalidContent, match="ballot"):
        Ballot.from_bytes(change(Ballot(7, (True, False, True), bytes(32)).to_bytes()))


@given(st.binary(max_size=60))
def test_no_bytes_are_more_than_refused(noise):
    for data in (noise, b"FGV1" + noise):
        try:
            ballot = Ballot.from_bytes(data)
        except InvalidContent:
            continue
        assert ballot.to_bytes() == data


# --- evidence that opens ----------------------------------------------------------------------------------------------

AWAY, AHEAD = Finding(b"\1" * 32, -5_000, 10_000), Finding(b"\2" * 32, 5_000, 10_000)
EVIDENCE = Evidence((AWAY, AHEAD, None))


def test_a_ballot_opens_with_its_evidence():
    data = signed_off(EVIDENCE, 7, RULE)
    assert len(data) == vote_bytes(3)
    assert opened_ballot(data, 7, 3, RULE) == Ballot(7, (True, False, True), EVIDENCE.digest())


VOID = {
    "a digest of nothing": lambda: Ballot(7, (True, False, True), b"\5" * 32).to_bytes() + EVIDENCE.to_bytes(),
    "votes that do not follow": lambda: (
        Ballot(7, (True, True, True), EVIDENCE.digest()).to_bytes() + EVIDENCE.to_bytes()
    ),
    "not evidence": lambda: Ballot(7, (True, False, True), EVIDENCE.digest()).to_bytes(),
    "another's ballot": lambda: signed_off(EVIDENCE, 8, RULE),
    "a ballot on fewer": lambda: signed_off(Evidence((AWAY, AHEAD)), 7, RULE),
    "evidence that is none": lambda: Ballot(7, (True, False, True), EVIDENCE.digest()).to_bytes() + bytes(144),
    "nothing": lambda: b"",
}


@pytest.mark.parametrize("lie", VOID)
def test_a_ballot_whose_evidence_does_not_open_is_void(lie):
    with pytest.raises(InvalidContent):
        opened_ballot(VOID[lie](), 7, 3, RULE)
