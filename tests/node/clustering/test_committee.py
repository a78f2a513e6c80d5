"""Detection afterwards: algorithm 3 written literally, votes and verdicts by their definitions, odd ballots."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from node.clustering.committee import (
    Ballot,
    Evidence,
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


@st.composite
def evidences(draw):
    tested = draw(st.lists(st.integers(0, 30), min_size=1, max_size=4).filter(any))
    row = st.tuples(*(st.integers(0, most) for most in tested))
    return Evidence(tuple(tested), draw(row), tuple(draw(st.lists(st.one_of(st.none(), row), min_size=1, max_size=8))))


EVIDENCE = evidences()


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


@given(EVIDENCE, st.sampled_from(["gap", "mean"]), st.floats(0, 0.5), st.floats(0, 0.9))
def test_votes_are_those_of_the_rule(evidence, split, margin, floor):
    labels = [label for label, tested in enumerate(evidence.tested) if tested]

    def score(row):
        return sum(row[label] / evidence.tested[label] for label in labels) / len(labels)

    shown = sorted(score(row) for row in evidence.right if row is not None)
    least = floor * score(evidence.reference)
    if split == "mean" and shown:
        least = max(least, sum(shown) / len(shown) - margin)
    gaps = [high - low for low, high in pairwise(shown)]
    if split == "gap" and gaps:
        widest = max(gaps)
        # Floats cannot say which of two equal gaps is meant, nor on which side of the margin one lies.
        assume(sum(gap > widest - 1e-9 for gap in gaps) == 1 and abs(widest - margin) > 1e-9)
        least = max(least, shown[gaps.index(widest) + 1] if widest > margin else 0)
    votes = evidence.votes(Rule(margin, floor, split))
    for row, vote in zip(evidence.right, votes, strict=True):
        if row is None:
            assert vote
        elif abs(score(row) - least) > 1e-9:
            assert vote == (score(row) < least)


def evidence_of(*right: int, reference: int = 0) -> Evidence:
    """One label, 100 samples."""
    return Evidence((100,), (reference,), tuple((number,) for number in right))


def test_a_tie_with_the_threshold_is_no_vote_against():
    """Mean 0.5, margin 0.1: 40 of 100 is not below it; floats would say that it is."""
    rule = Rule(0.1, 0, "mean")
    assert evidence_of(40, 60).votes(rule) == (False, False) and evidence_of(39, 61).votes(rule) == (True, False)
    gap = Rule(0.1, 0)
    assert evidence_of(80, 70).votes(gap) == (False, False) and evidence_of(80, 69).votes(gap) == (False, True)


def test_the_gap_finds_a_majority_that_the_mean_does_not():
    models = (90, 88, 20, 22, 18, 21, 19, 20, 22, 18)
    assert evidence_of(*models).votes(Rule(0.1, 0)) == (False,) * 2 + (True,) * 8
    assert not any(evidence_of(*models).votes(Rule(0.2, 0, "mean")))


def test_the_floor_finds_a_cluster_that_is_malicious_as_a_whole():
    evidence = evidence_of(10, 11, 9, reference=90)
    assert evidence.votes(Rule(floor=0)) == (False,) * 3 and evidence.votes(Rule(floor=0.5)) == (True,) * 3


def test_a_model_that_knows_two_labels_is_not_worse_for_a_judge_who_has_many_of_a_third():
    specialists, forger = (10, 10, 0), (5, 5, 60)
    evidence = Evidence((10, 10, 80), (10, 10, 80), (specialists, specialists, forger))
    assert [float(evidence.score(row)) for row in (specialists, forger)] == pytest.approx([2 / 3, 7 / 12])


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


@pytest.mark.parametrize(
    ("tested", "reference", "right"),
    [
        ((0, 0), (0, 0), ((0, 0),)),
        ((10, 0), (11, 0), ((1, 0),)),
        ((10, 0), (1, 0), ((1, 1),)),
        ((10, 0), (1, 0), ((-1, 0),)),
        ((10, 0), (1, 0), ((1,),)),
        ((10, 0), (1,), ((1, 0),)),
    ],
)
def test_evidence_that_nobody_can_have_is_refused(tested, reference, right):
    with pytest.raises(ValueError, match="right answers of each label"):
        Evidence(tested, reference, right)


def test_evidence_shows_no_counts_and_commits_to_all_of_them():
    evidence = Evidence((12345, 1), (3, 1), ((1, 1), None))
    assert "12345" not in repr(evidence)
    models, salt = [bytes([1]) * 32, bytes(32)], bytes([7]) * 32
    others = [
        Evidence((12345, 1), (3, 1), ((1, 1), (0, 0))).digest(models, salt),
        Evidence((12345, 1), (3, 1), ((1, 0), None)).digest(models, salt),
        Evidence((12345, 1), (2, 1), ((1, 1), None)).digest(models, salt),
        Evidence((12346, 1), (3, 1), ((1, 1), None)).digest(models, salt),
        evidence.digest(models[::-1], salt),
        evidence.digest(models, bytes(32)),
    ]
    assert len({evidence.digest(models, salt), *others}) == 7
    with pytest.raises(ValueError, match="a salt of 32 bytes"):
        evidence.digest(models, b"")


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


def test_a_drop_is_seen_and_the_worst_clusters_are_suspected():
    assert has_dropped([50, 80, 69], 100, 0.1) and not has_dropped([50, 80, 70], 100, 0.1)
    assert not has_dropped([50], 100, 0.1) and not has_dropped([], 100, 0.1)
    assert suspected([80, 30, 69, 70, 90], 80, 100, 0.1) == (1, 2)


@pytest.mark.parametrize("settings", [{"margin": -0.1}, {"margin": 1.0}, {"floor": 1.0}, {"floor": float("nan")}])
def test_rules_out_of_range_are_refused(settings):
    with pytest.raises(ValueError, match="from 0 to below 1"):
        Rule(**settings)
    with pytest.raises(ValueError, match="set it to gap or mean"):
        Rule(split="median")
