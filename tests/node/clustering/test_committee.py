"""Detection afterwards: algorithm 3 written literally, votes and verdicts by their definitions, odd ballots."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.clustering.committee import (
    Ballot,
    NoCommittee,
    Verdict,
    draw_committee,
    suspected,
    tally,
)
from node.clustering.similarity import in_the_clear

COUNTS = st.lists(
    st.lists(st.integers(0, 20), min_size=3, max_size=3).filter(any), min_size=6, max_size=12, unique_by=tuple
)


@given(COUNTS, st.integers(1, 4), st.data())
def test_the_committee_is_that_of_algorithm_3(counts, seats, data):
    similarity = in_the_clear(np.array(counts, dtype=np.int64))
    everyone = range(len(counts))
    size = data.draw(st.integers(1, len(counts) - 1))
    cluster = data.draw(st.lists(st.sampled_from(everyone), min_size=size, max_size=size, unique=True))
    ism, outside = similarity.ism, [n for n in everyone if n not in cluster]
    chosen = set(outside)
    if len(cluster) < len(counts) / 2 and len(cluster) > seats:
        likest = {max(outside, key=lambda v, m=m: ism[m, v]) for m in cluster}
        chosen = likest if len(likest) >= seats else chosen
    found = draw_committee(similarity, cluster, seats)
    assert set(found) <= chosen and len(found) == min(seats, len(chosen))
    likeness = {v: sum(ism[m, v] for m in cluster) for v in chosen}
    assert min(likeness[v] for v in found) >= max((likeness[v] for v in chosen - set(found)), default=0) - 1e-9


def test_members_of_other_suspected_clusters_do_not_judge():
    similarity = in_the_clear(np.array([[9, 0], [9, 0], [9, 1], [9, 2], [0, 9]]))
    assert draw_committee(similarity, (0, 1), 1) == (2,)
    assert draw_committee(similarity, (0, 1), 1, barred=(2,)) == (3,)
    with pytest.raises(NoCommittee, match="nobody outside the suspected cluster of 2 clients"):
        draw_committee(similarity, (0, 1), 1, barred=(2, 3, 4))


def test_seats_are_not_left_empty_where_all_members_are_like_one_client():
    similarity = in_the_clear(np.array([[9, 0], [9, 0], [9, 0], [9, 1], [0, 9], [1, 9], [2, 9], [3, 9]]))
    assert len(draw_committee(similarity, (0, 1, 2), 2)) == 2


def test_nobody_is_expelled_without_more_than_half_of_all_seats():
    def verdict(seats, *voters):
        votes = {1: (True, False, False), 2: (True, False, False), 3: (False, False, True)}
        return tally((4, 5, 6), range(1, seats + 1), [Ballot(voter, votes[voter], bytes(32)) for voter in voters])

    assert verdict(3, 1, 2) == Verdict((4, 5, 6), (2, 0, 0), 3)
    assert verdict(3, 1, 2).expelled == verdict(3, 1, 2, 3).expelled == (4,) and verdict(3, 1, 2).kept == (5, 6)
    assert verdict(4, 1, 2, 3).expelled == verdict(3, 1).expelled == verdict(3).expelled == ()
    assert verdict(3) == Verdict((4, 5, 6), (0, 0, 0), 3)


def test_odd_ballots_are_not_counted():
    good = Ballot(1, (True, False), bytes(32))
    for ballots in ([good, good], [good, Ballot(9, (True, False), bytes(32))]):
        with pytest.raises(ValueError, match="every judge votes once, and nobody else"):
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
    with pytest.raises(ValueError, match="ballot"):
        Ballot.from_bytes(change(Ballot(7, (True, False, True), bytes(32)).to_bytes()))


@given(st.binary(max_size=60))
def test_no_bytes_are_more_than_refused(noise):
    for data in (noise, b"FGV1" + noise):
        try:
            ballot = Ballot.from_bytes(data)
        except ValueError:
            continue
        assert ballot.to_bytes() == data


def test_clusters_that_fell_by_more_than_the_tolerance_are_suspected():
    assert suspected([0.8, 0.3, 0.69, 0.71, 0.9], [0.8] * 5, 0.1) == (1, 2)
    assert suspected([0.5, 0.5], [0.5, 0.9], 0.1) == (1,) and suspected([], [], 0.1) == ()
