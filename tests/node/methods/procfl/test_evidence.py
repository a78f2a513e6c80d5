"""How a judge decides: rules by their definitions in floats, exact ties, evidence in bytes."""

from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fedgrove.common.errors import InvalidContent
from fedgrove.common.settings import InvalidConfig
from fedgrove.node.learning.samples import Samples
from fedgrove.node.methods.procfl.evidence import (
    Evidence,
    Finding,
    Rule,
    direction,
    even_score,
    evidence_bytes,
    resampled,
)

MODEL = b"\1" * 32


def gap_rule(margin=0.1, floor=0.0, test="gap") -> Rule:
    return Rule(test, margin=margin, floor=floor)


def scored(*scores: int | None, reference: int = 0) -> Evidence:
    """Evidence of models that are this good, in percent, and whose directions are all fine."""
    return Evidence(tuple(None if each is None else Finding(MODEL, 5_000, 10_000, each) for each in scores), reference)


SCORES = st.lists(st.one_of(st.none(), st.integers(0, 100)), min_size=1, max_size=8)


@given(SCORES, st.integers(0, 100), st.sampled_from(["gap", "mean"]), st.floats(0, 0.5), st.floats(0, 0.9))
def test_votes_are_those_of_the_rule(found, reference, split, margin, floor):
    shown = sorted(each / 100 for each in found if each is not None)
    least = floor * reference / 100
    if split == "mean" and shown:
        least = max(least, sum(shown) / len(shown) - margin)
    gaps = [high - low for low, high in pairwise(shown)]
    if split == "gap" and gaps:
        widest = max(gaps)
        # Floats cannot say which of two equal gaps is meant, nor on which side of the margin one lies.
        assume(sum(gap > widest - 1e-9 for gap in gaps) == 1 and abs(widest - margin) > 1e-9)
        least = max(least, shown[gaps.index(widest) + 1] if widest > margin else 0)
    votes = scored(*found, reference=reference).votes(gap_rule(margin, floor, split))
    for each, vote in zip(found, votes, strict=True):
        if each is None:
            assert vote
        elif abs(each / 100 - least) > 1e-9:
            assert vote == (each / 100 < least)


def test_a_tie_with_the_threshold_is_no_vote_against():
    """Mean 0.5, margin 0.1: 40 of 100 is not below it; floats would say that it is."""
    rule = gap_rule(test="mean")
    assert scored(40, 60).votes(rule) == (False, False) and scored(39, 61).votes(rule) == (True, False)
    gap = gap_rule()
    assert scored(80, 70).votes(gap) == (False, False) and scored(80, 69).votes(gap) == (False, True)


def test_the_gap_finds_a_majority_that_the_mean_does_not():
    models = (90, 88, 20, 22, 18, 21, 19, 20, 22, 18)
    assert scored(*models).votes(gap_rule()) == (False,) * 2 + (True,) * 8
    assert not any(scored(*models).votes(gap_rule(0.2, test="mean")))


def test_the_floor_finds_a_cluster_that_is_malicious_as_a_whole():
    evidence = scored(10, 11, 9, reference=90)
    assert evidence.votes(gap_rule()) == (False,) * 3 and evidence.votes(gap_rule(floor=0.5)) == (True,) * 3


def test_a_model_that_knows_two_labels_is_not_worse_for_a_judge_who_has_many_of_a_third():
    tested, specialist, forger = (10, 10, 80), (10, 10, 0), (5, 5, 60)
    assert [even_score(tested, right) for right in (specialist, forger)] == [67, 58]
    assert even_score((10, 0), (3, 0)) == 30  # of labels that it does not have a judge says nothing


FINDINGS = st.builds(
    Finding,
    st.binary(min_size=32, max_size=32).filter(any),
    st.integers(-10_000, 10_000),
    st.integers(0, 2**63 - 1),
    st.integers(0, 100),
)


@given(st.lists(st.one_of(st.none(), FINDINGS), min_size=1, max_size=6), st.integers(0, 100))
def test_evidence_survives_its_bytes_and_its_digest_commits_to_all_of_it(findings, reference):
    evidence = Evidence(tuple(findings), reference)
    data = evidence.to_bytes()
    assert len(data) == evidence_bytes(len(findings)) and Evidence.from_bytes(data) == evidence
    other = replace(evidence, reference=(reference + 1) % 101)
    more = replace(evidence, findings=(*findings, None))
    assert len({evidence.digest(), other.digest(), more.digest()}) == 3


@given(st.binary(max_size=120))
def test_no_bytes_are_more_than_refused(noise):
    for data in (noise, b"FGX1" + noise, b"FGX1" + (2).to_bytes(4) + b"\0" + noise[:90].ljust(90, b"\0")):
        try:
            evidence = Evidence.from_bytes(data)
        except InvalidContent:
            continue
        assert evidence.to_bytes() == data


WRONG = {
    "no digest": (bytes(32), 0, 0, 0),
    "a short digest": (b"\1" * 31, 0, 0, 0),
    "a cosine above one": (MODEL, 10_001, 0, 0),
    "a negative length": (MODEL, 0, -1, 0),
    "more than all": (MODEL, 0, 0, 101),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_findings_that_nobody_can_have_are_refused(wrong):
    with pytest.raises(InvalidContent, match="in their ranges"):
        Finding(*WRONG[wrong])
    with pytest.raises(InvalidContent, match="needs at least one member"):
        Evidence(())


def test_evidence_says_nothing_of_a_judges_samples():
    """But an angle and a length for each member, and, where the rule looks at accuracies, a percentage."""
    assert {item.name for item in fields(Finding)} == {"model", "cosine", "length", "score"}
    assert {item.name for item in fields(Evidence)} == {"findings", "reference"}


def test_what_leads_away_or_too_far_is_malicious():
    found = [(1, 29_999), (0, 30_000), (-1, 10), (9_000, 30_001)]
    evidence = Evidence((*(Finding(MODEL, *each) for each in found), None))
    assert evidence.votes(Rule(least_cosine=0)) == (False, False, True, True, True)
    assert evidence.votes(Rule()) == (False, False, False, True, True)
    assert evidence.votes(Rule(least_cosine=0.5, most_length=5)) == (True, True, True, False, True)


@given(st.integers(1, 50), st.integers(0, 2**32), st.floats(0.1, 10))
def test_directions_are_angles_and_lengths(length, seed, times):
    rng = np.random.default_rng(seed)
    update, own = rng.standard_normal((2, length)).astype(np.float32)
    found = direction(np.float32(times) * update, own)
    cosine = float(update @ own / np.linalg.norm(update) / np.linalg.norm(own))
    assert found[0] == pytest.approx(1e4 * cosine, abs=1)
    assert found[1] == pytest.approx(1e4 * times * np.linalg.norm(update) / np.linalg.norm(own), rel=1e-4, abs=1)
    assert direction(-update, own)[0] == -direction(update, own)[0]


def test_who_has_more_samples_may_come_further_and_nothing_is_divided_by_zero():
    own = np.array([3.0, 4.0], np.float32)
    assert direction(4 * own, own, steps=2.0) == (10_000, 20_000)
    assert direction(4 * own, own, steps=0.5) == (10_000, 40_000)
    zero = np.zeros(2, np.float32)
    assert direction(zero, own) == (0, 0) == direction(zero, zero)
    assert direction(own, zero)[0] == 0 and direction(own, zero)[1] > 10**12


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
        ({"test": "median"}, "one of direction, gap, mean"),
    ],
)
def test_rules_out_of_range_are_refused(settings, allowed):
    with pytest.raises(InvalidConfig, match=allowed):
        Rule(**settings)
