"""Sparse vectors: equal bins are one, and what vanishes is gone."""

import numpy as np

from fedgrove.node.methods.kmeans.counts import BinCounts


def vector(bins):
    """From {levels: count}."""
    return BinCounts.of(np.array(list(bins), np.int32).reshape(len(bins), 2), np.array(list(bins.values()), np.int64))


def test_equal_bins_are_added_up_in_order():
    merged = BinCounts.of(np.array([[2, 0], [1, 5], [2, 0], [1, -5]]), np.array([3, 1, 4, 1]))
    assert merged.levels.tolist() == [[1, -5], [1, 5], [2, 0]]
    assert merged.counts.tolist() == [1, 1, 7]
    assert merged.total == 9


def test_a_difference_keeps_only_what_changed():
    before, after = vector({(0, 0): 3, (1, 1): 2, (5, 5): 7}), vector({(0, 0): 3, (1, 1): 1, (4, 4): 8})
    difference = after - before
    assert difference == vector({(1, 1): -1, (4, 4): 8, (5, 5): -7})
    assert before + difference == after
    assert len(after - after) == 0 and after - after == BinCounts.empty(2)


def test_a_difference_on_the_same_bins_is_that_of_any():
    before = vector({(0, 0): 3, (1, 1): 2, (5, 5): 7})
    after = BinCounts(before.levels, np.array([3, 1, 9]))
    apart = BinCounts(before.levels.copy(), after.counts)
    assert after - before == apart - before == vector({(1, 1): -1, (5, 5): 2})
    assert len(before - before) == 0
