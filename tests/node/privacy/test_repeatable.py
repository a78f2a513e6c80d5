"""Noise that everybody can draw again: exact, and the same for ever."""

from fractions import Fraction
from hashlib import sha256

import numpy as np
import pytest
from scipy import stats

from fedgrove.node.privacy import repeatable
from fedgrove.node.privacy.repeatable import add_repeatable_noise

KEY = sha256(b"key").digest()


def noise(variance: Fraction, count: int, key: bytes = KEY) -> np.ndarray:
    words = np.zeros(count, np.uint32)
    add_repeatable_noise(words, variance, key)
    return words.view(np.int32).astype(np.float64)


@pytest.mark.parametrize("variance", [Fraction(16), Fraction(12345, 7), Fraction(1500**2), Fraction(10**9)])
def test_it_has_the_distribution_that_it_says(variance):
    drawn = noise(variance, 100_000)
    assert drawn.mean() == pytest.approx(0, abs=4.5 * float(variance) ** 0.5 / 100_000**0.5)
    assert drawn.var() == pytest.approx(float(variance), rel=0.02)
    smoothed = drawn + np.random.default_rng(0).uniform(-0.5, 0.5, len(drawn))
    assert stats.kstest(smoothed, "norm", (0, float(variance + Fraction(1, 12)) ** 0.5)).pvalue > 1e-4


def test_it_is_the_same_for_ever():
    """A change of these numbers voids every round that was closed with them."""
    assert noise(Fraction(100), 8).tolist() == [1, 10, -1, 11, -10, 16, 7, 8]
    assert sha256(noise(Fraction(10**9, 3), 100_000).tobytes()).hexdigest()[:16] == "ea51c268343e91cd"


def test_other_keys_give_other_noise():
    assert (noise(Fraction(10**4), 1000) != noise(Fraction(10**4), 1000, bytes(32))).mean() > 0.9


def test_where_64_bits_do_not_decide_all_bits_do(monkeypatch):
    """With words that lie on a boundary for sure."""
    variance = Fraction(16)
    tops, boundaries = repeatable.tables_of(variance)
    middle = len(boundaries) // 2
    word = int(tops[middle])

    class Stream:
        def __init__(self, random):
            self.rest = 0

        def take(self, count, dtype):
            return np.full(count, word, np.uint64)

        def integer(self, bits):
            return (boundaries[middle] & (1 << bits) - 1) - (self.rest == 0)

    monkeypatch.setattr(repeatable, "Stream", Stream)
    assert noise(variance, 2).tolist() == [0, 0]  # one below the boundary between 0 and 1
    monkeypatch.setattr(Stream, "integer", lambda self, bits: boundaries[middle] & (1 << bits) - 1)
    assert noise(variance, 2).tolist() == [1, 1]
