"""Triangles and residue give each outcome its exact probability, whichever way a pair is drawn."""

from fractions import Fraction

import numpy as np
import pytest

from fedgrove.node.privacy.stream import Stream
from fedgrove.node.privacy.triangles import WIDEST, Triangles, triangles
from tests.node.privacy.test_residue import VARIANCES, Dictated

WIDTHS = [*VARIANCES, Fraction(WIDEST)]


def centre(sampler: Triangles, symbol: int) -> int:
    """c·j − (c − 1), the least outcome of the triangle of a j."""
    width = 1 << sampler.bits
    return (symbol - len(sampler.weights) // 2 + 1) * width - (width - 1)


@pytest.mark.parametrize("variance", WIDTHS)
def test_what_the_triangles_take_is_what_they_give(variance):
    sampler = triangles(variance)
    width, residue = 1 << sampler.bits, sampler.residue
    one = np.convolve(np.ones(width, np.int64), np.ones(width, np.int64))  # of u₁ + u₂, in units of 1/c²
    given = np.zeros(2 * residue.near + 1, np.int64)
    for symbol, weight in enumerate(sampler.weights[:-1].tolist()):
        first = residue.near + centre(sampler, symbol)
        given[first : first + len(one)] += weight * one
    assert (given == residue.taken).all()
    assert residue.bits == 32 + 2 * sampler.bits
    assert int(sampler.weights.sum()) == 1 << 32
    assert residue.boundaries[0][-1] == int(sampler.weights[-1]) << 224


@pytest.mark.parametrize("variance", WIDTHS)
def test_codes_and_the_rest_give_each_pair_the_product_of_its_weights(variance):
    sampler = triangles(variance)
    symbols = len(sampler.weights)
    values, counts = np.unique(sampler.table[: sampler.codes], return_counts=True)
    codes = dict(zip(values.tolist(), counts.tolist(), strict=True))
    assert not sampler.table[sampler.codes :].any()  # nothing is added before they are drawn again
    rest = np.diff(sampler.rest.ends, prepend=np.uint64(0)).tolist()
    weights = sampler.weights.tolist()
    for pair, (value, left) in enumerate(zip(sampler.pairs.tolist(), rest, strict=True)):
        first, second = divmod(pair, symbols)
        starred = symbols - 1 in (first, second)
        assert (0 if starred else codes.get(value, 0) << 48) + left == weights[first] * weights[second]
    assert sum(rest) == 65536 - sampler.codes << 48 < 0.025 * 2**64


@pytest.mark.parametrize("step", [1, 77])
@pytest.mark.parametrize("variance", [Fraction(16), Fraction(819**2)])
def test_a_point_of_the_rest_is_the_pair_in_whose_interval_it_lies(variance, step):
    sampler = triangles(variance)
    symbols, star = len(sampler.weights), len(sampler.weights) - 1
    lengths = np.diff(sampler.rest.ends, prepend=np.uint64(0))
    some = np.flatnonzero(lengths)[::37].tolist()
    for pair in (*some, star, star * symbols, star * symbols + 3, symbols**2 - 1):
        first, second = divmod(pair, symbols)
        inside = int(lengths[pair]) * 2 // 3
        point = int(sampler.rest.ends[pair]) - int(lengths[pair]) + inside
        sums = np.array([[3, 5]] if sampler.bits else [[0, 0]], np.uint16)
        words = np.array([10, 20, *sums[0], 30, 40], np.uint32)
        words[2:4] *= np.uint32(step)
        stream = Dictated(point % 2**48 << 16, *[0] * 4)
        code = np.array([sampler.codes + (point >> 48)], np.uint16)
        sampler._add_rest(words, step, np.array([1]), code, sums.view(np.uint32).ravel(), stream)
        quotient, remainder = divmod(inside, int(sampler.weights[second]))
        expected = [
            step * (sampler.residue.exactly(uniform << 224) if symbol == star else centre(sampler, symbol) + int(own))
            for symbol, uniform, own in zip((first, second), (quotient, remainder), sums[0], strict=True)
        ]
        assert words.view(np.int32).tolist() == [10, 20, *expected, 30, 40]


def test_the_uniform_numbers_have_all_their_bits():
    sampler = triangles(Fraction(819**2))
    noise = np.zeros(1 << 16, np.uint16)
    sampler._add_uniform(noise, np.arange(1 << 16, dtype=np.uint16), np.empty(1 << 16, np.uint16))
    width = 1 << sampler.bits
    assert (np.bincount(noise) == np.convolve(np.ones(width), np.ones(width)) * ((1 << 16) / width**2)).all()


@pytest.mark.parametrize("size", [0, 1, 2, 3, (1 << 17) + 1, (1 << 20) + 3])
def test_vectors_of_any_length_are_filled(size):
    words = np.zeros(size, np.uint32)
    triangles(Fraction(819**2)).add(words, 1, Stream(lambda count: bytes(count)))
    assert size < 4 or (words[-4:] != 0).all()
    again = np.full(size, 2**32 - 1, np.uint32)
    triangles(Fraction(819**2)).add(again, 1, Stream(lambda count: bytes(count)))
    assert (again + np.uint32(1) == words).all()
