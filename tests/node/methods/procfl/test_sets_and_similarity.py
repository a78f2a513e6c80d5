"""χ and ISM: the formula against sets of Python, the matrix against hostile comparisons."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.methods.procfl.sets import MAX_ELEMENTS, Q_MAX, elements, label_counts
from fedgrove.node.methods.procfl.similarity import Intersection, Similarity, assemble, in_the_clear, pairs

COUNTS = st.integers(2, 6).flatmap(
    lambda classes: st.lists(
        st.lists(st.integers(0, 9), min_size=classes, max_size=classes).filter(any), min_size=2, max_size=6
    )
)


def python_set(counts) -> set[int]:
    """Spec 05, literally."""
    return {label * Q_MAX + i for label, count in enumerate(counts) for i in range(1, count + 1)}


def test_labels_are_counted():
    assert label_counts(np.array([2, 0, 2]), 4).tolist() == [1, 0, 2, 0]
    with pytest.raises(InvalidInput, match="a label 7"):
        label_counts(np.array([7]), 4)


@given(COUNTS)
def test_sets_and_overlaps_are_those_of_the_definition(counts):
    matrix = np.array(counts, dtype=np.int64)
    similarity = in_the_clear(matrix)
    sets = [python_set(own) for own in counts]
    for n, own in enumerate(sets):
        found = elements(matrix[n])
        assert set(found.tolist()) == own and len(found) == len(own)
        for m, other in enumerate(sets):
            assert similarity.ism[n, m] == len(own & other) / len(own)


@pytest.mark.parametrize("counts", [[0, 0], [MAX_ELEMENTS, 1], [5, -1]])
def test_sets_that_nobody_has_are_refused(counts):
    with pytest.raises(InvalidInput, match="use fewer"):
        elements(np.array(counts))


def test_the_threshold_is_not_rounded():
    similarity = in_the_clear(np.array([[10, 0], [3, 7]]))
    assert similarity.at_least(Fraction(3, 10)).all()
    assert similarity.at_least(Fraction(3, 10) + Fraction(1, 10**18)).tolist() == [[True, False], [False, True]]


@given(COUNTS)
def test_comparisons_of_all_pairs_make_the_matrix(counts):
    similarity = in_the_clear(np.array(counts, dtype=np.int64))
    assert np.array_equal(assemble(len(counts), comparisons(similarity)).overlaps, similarity.overlaps)


def comparisons(similarity: Similarity) -> list[Intersection]:
    sizes, overlaps = similarity.sizes.tolist(), similarity.overlaps.tolist()
    return [Intersection(n, m, sizes[n], sizes[m], overlaps[n][m]) for n, m in pairs(similarity.clients)]


def test_pairs_serve_all_directions():
    assert list(pairs(4)) == list(combinations(range(4), 2))
    assert len(list(pairs(100))) == 4950


def test_comparisons_that_contradict_each_other_are_named():
    good = [Intersection(0, 1, 5, 6, 2), Intersection(0, 2, 5, 7, 2), Intersection(1, 2, 6, 7, 3)]
    with pytest.raises(InvalidContent, match="1 comparisons are missing, the first between clients 1 and 2"):
        assemble(3, good[:2])
    with pytest.raises(InvalidContent, match="the pair 0, 1 was not due, or was compared twice"):
        assemble(3, [*good, good[0]])
    with pytest.raises(InvalidContent, match="client 1 compared sets of different sizes, 6 and 8"):
        assemble(3, [*good[:2], Intersection(1, 2, 8, 7, 3)])
    with pytest.raises(InvalidContent, match="clients 0 and 1 cannot have 6 elements"):
        Intersection(0, 1, 5, 6, 6)


@pytest.mark.parametrize(
    "overlaps", [[[2, 1], [0, 2]], [[2, 3], [3, 4]], [[0, 0], [0, 1]], [[1, 0]], [[2, -1], [-1, 2]]]
)
def test_a_matrix_that_no_sets_give_is_refused(overlaps):
    with pytest.raises(InvalidContent):
        Similarity(np.array(overlaps, dtype=np.int64))
