"""Appendix K's decoder, and that it agrees with the field's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.node.methods.kmeans.code import Code
from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.decoder import decode
from fedgrove.node.methods.kmeans.grid import BinGrid
from tests.node.methods.kmeans import paper_decoder as paper

GRID = BinGrid(2, 0.1, 3)
BINS = 49
COUNTS = st.dictionaries(st.integers(1, BINS), st.integers(1, 1000), max_size=6)


def as_vector(counts: dict[int, int]) -> BinCounts:
    levels = GRID.levels(np.array([[number - 1] for number in counts], np.uint64).reshape(-1, 1))
    return BinCounts.of(levels, np.array(list(counts.values()), np.int64))


@given(COUNTS)
@settings(max_examples=50)
def test_both_decoders_agree(counts):
    sums = paper.encode(counts, 6, paper.modulus(6, BINS, 6000))
    assert paper.decode(sums, BINS) == dict(sorted(counts.items()))
    code = Code(GRID, 6, 6000)
    assert decode(code, code.encode(as_vector(counts))) == as_vector(counts)


def test_the_example_of_figure_2():
    # K = 2, L = 2, B^d = 4, n = 12: the sum over two clients is the sum of what each alone gives
    p = paper.modulus(4, 4, 12)
    first, second = paper.encode({1: 2, 4: 4}, 4, p), paper.encode({4: 1, 2: 5}, 4, p)
    sums = [(a + b) % p for a, b in zip(first, second, strict=True)]
    assert paper.decode(sums, 4) == {1: 2, 2: 5, 4: 5}


def test_more_bins_than_agreed_are_an_error():
    with pytest.raises(ValueError, match=r"so few bins|positive integer"):
        paper.decode(paper.encode({1: 1, 5: 2, 9: 3}, 2, paper.modulus(2, BINS, 10**6)), BINS)
