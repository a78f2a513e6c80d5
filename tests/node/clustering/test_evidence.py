"""How a judge decides: rules by their definitions in floats, exact ties, evidence that shows nothing."""

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from node.clustering.evidence import Evidence, Rule


@st.composite
def evidences(draw):
    tested = draw(st.lists(st.integers(0, 30), min_size=1, max_size=4).filter(any))
    row = st.tuples(*(st.integers(0, most) for most in tested))
    return Evidence(tuple(tested), draw(row), tuple(draw(st.lists(st.one_of(st.none(), row), min_size=1, max_size=8))))


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


@pytest.mark.parametrize("settings", [{"margin": -0.1}, {"margin": 1.0}, {"floor": 1.0}, {"floor": float("nan")}])
def test_rules_out_of_range_are_refused(settings):
    with pytest.raises(ValueError, match="from 0 to below 1"):
        Rule(**settings)
    with pytest.raises(ValueError, match="set it to gap or mean"):
        Rule(split="median")
