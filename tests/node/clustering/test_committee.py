"""Detection afterwards: algorithm 3 written literally, votes and verdicts by their definitions, odd ballots."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.clustering.committee import (
    Ballot,
    NoCommittee,
    Rule,
    Verdict,
    draw_committee,
    has_dropped,
    suspected,
    tally,
)
from node.clustering.similarity import in_the_clear

COUNTS = st.lists(
    st.lists(st.integers(0, 20), min_size=3, max_size=3).filter(any), min_size=6, max_size=12, unique_by=tuple
)
RESULTS = st.integers(1, 200).flatmap(
    lambda tested: st.tuples(
        st.just(tested),
        st.integers(0, tested),
        st.lists(st.one_of(st.none(), st.integers(0, tested)), min_size=1, max_size=8),
    )
)


@settings(deadline=None)
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


@given(RESULTS, st.floats(0, 0.5), st.floats(0, 0.9))
def test_votes_are_those_of_the_rule(results, margin, floor):
    tested, reference, right = results
    shown = [number / tested for number in right if number is not None]
    least = max(sum(shown) / len(shown) - margin if shown else 0, floor * reference / tested)
    for number, vote in zip(right, Ballot(0, tested, reference, tuple(right)).votes(Rule(margin, floor)), strict=True):
        if number is None:
            assert vote
        elif abs(number / tested - least) > 1e-9:
            assert vote == (number / tested < least)


def test_a_tie_with_the_threshold_is_no_vote_against():
    """Mean 0.5, margin 0.1: 40 of 100 is not below it; floats would say that it is."""
    assert Ballot(0, 100, 0, (40, 60)).votes(Rule(0.1, 0)) == (False, False)
    assert Ballot(0, 100, 0, (39, 61)).votes(Rule(0.1, 0)) == (True, False)


def test_the_floor_finds_a_cluster_that_is_malicious_as_a_whole():
    ballot = Ballot(0, 100, 90, (10, 11, 9))
    assert ballot.votes(Rule(floor=0)) == (False,) * 3 and ballot.votes(Rule(floor=0.5)) == (True,) * 3


def test_nobody_is_expelled_without_more_than_half_of_all_seats():
    against = Ballot(1, 100, 90, (10, 90, 90)), Ballot(2, 50, 45, (5, 45, 45)), Ballot(3, 50, 45, (45, 45, 45))
    assert tally((4, 5, 6), against[:2], 3, Rule()) == Verdict((4, 5, 6), (2, 0, 0), 3)
    assert tally((4, 5, 6), against[:2], 3, Rule()).expelled == (4,)
    assert tally((4, 5, 6), against[:2], 3, Rule()).kept == (5, 6)
    assert tally((4, 5, 6), against[:2], 4, Rule()).expelled == ()
    assert tally((4, 5, 6), against[:1], 3, Rule()).expelled == ()
    assert tally((4, 5, 6), [], 3, Rule()) == Verdict((4, 5, 6), (0, 0, 0), 3)


def test_odd_ballots_are_not_counted():
    good = Ballot(1, 10, 9, (1, 2))
    with pytest.raises(ValueError, match="votes once"):
        tally((4, 5), [good, good], 3, Rule())
    with pytest.raises(ValueError, match="votes once"):
        tally((4, 5), [good, Ballot(2, 10, 9, (1, 2))], 1, Rule())
    with pytest.raises(ValueError, match="each of the 3 members"):
        tally((4, 5, 6), [good], 3, Rule())
    for tested, reference, right in ((0, 0, (0,)), (10, 11, (1,)), (10, 1, (11,)), (10, 1, (-1,)), (2**32, 1, (1,))):
        with pytest.raises(ValueError, match="more right answers than samples"):
            Ballot(1, tested, reference, right)


@given(RESULTS)
def test_ballots_survive_the_ledger(results):
    tested, reference, right = results
    ballot = Ballot(7, tested, reference, tuple(right))
    assert Ballot.from_bytes(ballot.to_bytes()) == ballot
    assert len(ballot.to_bytes()) == 20 + 4 * len(right)
    models = [bytes([place]) * 32 for place in range(len(right))]
    assert ballot.digest(models) == hashlib.sha256(ballot.to_bytes() + b"".join(models)).digest()


@pytest.mark.parametrize(
    "change", [lambda b: b[:-1], lambda b: b[:-4], lambda b: b + bytes(4), lambda b: b"FGV2" + b[4:]]
)
def test_bytes_that_are_no_ballot_are_refused(change):
    with pytest.raises(ValueError):
        Ballot.from_bytes(change(Ballot(7, 10, 9, (1, None, 10)).to_bytes()))


@given(st.binary(max_size=60))
def test_no_bytes_are_more_than_refused(noise):
    try:
        ballot = Ballot.from_bytes(noise)
    except ValueError:
        return
    assert ballot.to_bytes() == noise


def test_a_drop_is_seen_and_the_worst_clusters_are_suspected():
    assert has_dropped([50, 80, 69], 100, 0.1) and not has_dropped([50, 80, 70], 100, 0.1)
    assert not has_dropped([50], 100, 0.1) and not has_dropped([], 100, 0.1)
    assert suspected([80, 30, 69, 70, 90], 80, 100, 0.1) == (1, 2)


@pytest.mark.parametrize("settings", [{"margin": -0.1}, {"margin": 1.0}, {"floor": 1.0}, {"floor": float("nan")}])
def test_rules_out_of_range_are_refused(settings):
    with pytest.raises(ValueError, match="from 0 to below 1"):
        Rule(**settings)
