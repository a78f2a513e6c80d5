"""Scores by their definitions, and falls in one respect or the other."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.node.methods.procfl.watching import Score, fallen, score

LABELS = 4


@given(st.data())
def test_scores_are_means_over_what_was_tested(data):
    tested = data.draw(st.lists(st.integers(0, 50), min_size=LABELS, max_size=LABELS))
    right = [data.draw(st.integers(0, most)) for most in tested]
    labels = data.draw(st.lists(st.integers(0, 1 << 30), min_size=LABELS, max_size=LABELS))
    found = score(tuple(right), tuple(tested), tuple(labels))
    known = [label for label in range(LABELS) if tested[label]]
    total = sum(labels[label] for label in known)
    if not total:
        assert found == Score(Fraction(0), Fraction(0))
        return
    expected = sum(labels[label] * right[label] / tested[label] for label in known) / total
    counting = [label for label in known if labels[label] / total >= 0.5 / len(known)]
    assert float(found.expected) == pytest.approx(expected)
    assert float(found.even) == pytest.approx(sum(right[k] / tested[k] for k in counting) / len(counting))


def test_what_does_worse_in_one_respect_by_more_than_the_tolerance_fell():
    best = [Score(Fraction(8, 10), Fraction(6, 10))] * 5
    found = [Score(Fraction(a, 100), Fraction(b, 100)) for a, b in ((70, 50), (69, 90), (90, 49), (80, 60), (71, 51))]
    assert fallen(found, best, 0.1) == (1, 2)
    assert [each.reaches(best[0]) for each in found] == [False, False, False, True, False]
    assert fallen([], [], 0.1) == ()
