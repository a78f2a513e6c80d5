"""How a judge decides: rules by their definitions in floats, exact ties, evidence that shows nothing."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from node.clustering.evidence import Direction, Evidence, Rule, direction, resampled
from node.learning.samples import Samples

AHEAD = Direction(500_000, 1_000_000)


def gap_rule(margin=0.1, floor=0.0, test="gap") -> Rule:
    return Rule(test, margin=margin, floor=floor)


def evidence_on(tested, reference, right) -> Evidence:
    """Evidence whose directions are all fine."""
    return Evidence(tested, reference, right, tuple(None if row is None else AHEAD for row in right))


@st.composite
def evidences(draw):
    tested = draw(st.lists(st.integers(0, 30), min_size=1, max_size=4).filter(any))
    row = st.tuples(*(st.integers(0, most) for most in tested))
    return evidence_on(
        tuple(tested), draw(row), tuple(draw(st.lists(st.one_of(st.none(), row), min_size=1, max_size=8)))
    )


EVIDENCE = evidences()


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
    votes = evidence.votes(gap_rule(margin, floor, split))
    for row, vote in zip(evidence.right, votes, strict=True):
        if row is None:
            assert vote
        elif abs(score(row) - least) > 1e-9:
            assert vote == (score(row) < least)


def evidence_of(*right: int, reference: int = 0) -> Evidence:
    """One label, 100 samples."""
    return evidence_on((100,), (reference,), tuple((number,) for number in right))


def test_a_tie_with_the_threshold_is_no_vote_against():
    """Mean 0.5, margin 0.1: 40 of 100 is not below it; floats would say that it is."""
    rule = gap_rule(test="mean")
    assert evidence_of(40, 60).votes(rule) == (False, False) and evidence_of(39, 61).votes(rule) == (True, False)
    gap = gap_rule()
    assert evidence_of(80, 70).votes(gap) == (False, False) and evidence_of(80, 69).votes(gap) == (False, True)


def test_the_gap_finds_a_majority_that_the_mean_does_not():
    models = (90, 88, 20, 22, 18, 21, 19, 20, 22, 18)
    assert evidence_of(*models).votes(gap_rule()) == (False,) * 2 + (True,) * 8
    assert not any(evidence_of(*models).votes(gap_rule(0.2, test="mean")))


def test_the_floor_finds_a_cluster_that_is_malicious_as_a_whole():
    evidence = evidence_of(10, 11, 9, reference=90)
    assert evidence.votes(gap_rule()) == (False,) * 3 and evidence.votes(gap_rule(floor=0.5)) == (True,) * 3


def test_a_model_that_knows_two_labels_is_not_worse_for_a_judge_who_has_many_of_a_third():
    specialists, forger = (10, 10, 0), (5, 5, 60)
    evidence = evidence_on((10, 10, 80), (10, 10, 80), (specialists, specialists, forger))
    assert [float(evidence.score(row)) for row in (specialists, forger)] == pytest.approx([2 / 3, 7 / 12])


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
        evidence_on(tested, reference, right)


def test_evidence_shows_no_counts_and_commits_to_all_of_them():
    evidence = evidence_on((12345, 1), (3, 1), ((1, 1), None))
    assert "12345" not in repr(evidence)
    models, salt = [bytes([1]) * 32, bytes(32)], bytes([7]) * 32
    others = [
        evidence_on((12345, 1), (3, 1), ((1, 1), (0, 0))).digest(models, salt),
        evidence_on((12345, 1), (3, 1), ((1, 0), None)).digest(models, salt),
        evidence_on((12345, 1), (2, 1), ((1, 1), None)).digest(models, salt),
        evidence_on((12346, 1), (3, 1), ((1, 1), None)).digest(models, salt),
        evidence.digest(models[::-1], salt),
        evidence.digest(models, bytes(32)),
        replace(evidence, directions=(Direction(500_001, 1_000_000), None)).digest(models, salt),
        replace(evidence, directions=(Direction(500_000, 1_000_001), None)).digest(models, salt),
    ]
    assert len({evidence.digest(models, salt), *others}) == 9
    with pytest.raises(ValueError, match="a salt of 32 bytes"):
        evidence.digest(models, b"")


def test_a_model_that_was_not_shown_has_no_direction():
    for directions in ((AHEAD,), (AHEAD, AHEAD), (None, None)):
        with pytest.raises(ValueError, match="the direction of each model"):
            Evidence((1,), (1,), ((1,), None), directions)


def test_what_leads_away_or_too_far_is_malicious():
    found = [Direction(1, 2_999_999), Direction(0, 3_000_000), Direction(-1, 10), Direction(900_000, 3_000_001), None]
    evidence = Evidence((1,), (1,), ((1,), (1,), (1,), (1,), None), tuple(found))
    assert evidence.votes(Rule(least_cosine=0)) == (False, False, True, True, True)
    assert evidence.votes(Rule()) == (False, False, False, True, True)
    assert evidence.votes(Rule(least_cosine=0.5, most_length=5)) == (True, True, True, False, True)


@given(st.integers(1, 50), st.integers(0, 2**32), st.floats(0.1, 10))
def test_directions_are_angles_and_lengths(length, seed, times):
    rng = np.random.default_rng(seed)
    update, own = rng.standard_normal((2, length)).astype(np.float32)
    found = direction(np.float32(times) * update, own)
    cosine = float(update @ own / np.linalg.norm(update) / np.linalg.norm(own))
    assert found.cosine == pytest.approx(1e6 * cosine, abs=3)
    assert found.length == pytest.approx(1e6 * times * np.linalg.norm(update) / np.linalg.norm(own), rel=1e-4, abs=1)
    reversed_one = direction(-update, own)
    assert reversed_one.cosine == -direction(update, own).cosine


def test_who_has_more_samples_may_come_further_and_nothing_is_divided_by_zero():
    own = np.array([3.0, 4.0], np.float32)
    assert direction(4 * own, own, steps=2.0) == Direction(1_000_000, 2_000_000)
    assert direction(4 * own, own, steps=0.5) == Direction(1_000_000, 4_000_000)
    zero = np.zeros(2, np.float32)
    assert direction(zero, own) == Direction(0, 0) == direction(zero, zero)
    assert direction(own, zero).cosine == 0 and direction(own, zero).length > 10**12


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.lists(st.integers(0, 500), min_size=5, max_size=5))
def test_a_judge_takes_its_own_samples_in_the_proportions_of_the_clusters_labels(own, mix):
    y, labels = np.array(own, np.int64), np.array(mix, np.int64)
    samples = Samples(np.arange(len(y), dtype=np.float32).reshape(-1, 1, 1, 1) / 64, y)
    found = resampled(samples, labels, np.random.default_rng(0))
    assert len(found) == len(samples) and set(found.x.ravel()) <= set(samples.x.ravel())
    assert np.array_equal(y[(64 * found.x.ravel()).astype(int)], found.y)
    shared = np.where(np.bincount(y, minlength=5) > 0, labels, 0)
    if shared.any():
        assert np.abs(np.bincount(found.y, minlength=5) - shared / shared.sum() * len(y)).max() <= 1
    else:
        assert found is samples


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        ({"margin": -0.1}, "from 0 to below 1"),
        ({"margin": 1.0}, "from 0 to below 1"),
        ({"floor": 1.0}, "from 0 to below 1"),
        ({"floor": float("nan")}, "from 0 to below 1"),
        ({"least_cosine": 1.0}, "from -1 to below 1"),
        ({"most_length": 0.5}, "from 1 to 1000000"),
        ({"test": "median"}, "set it to direction, gap or mean"),
    ],
)
def test_rules_out_of_range_are_refused(settings, allowed):
    with pytest.raises(ValueError, match=allowed):
        Rule(**settings)
