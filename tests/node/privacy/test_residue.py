"""The exact integers behind a discrete Gaussian, and draws from what a mixture leaves of it."""

from bisect import bisect_right
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.node.privacy.residue import Intervals, Residue, log_ratio
from fedgrove.node.privacy.triangles import triangles

VARIANCES = [Fraction(16), Fraction(100, 3), Fraction(1.7**12), Fraction(256**2), Fraction(8192**2 + 9, 100)]


class Dictated:
    """A stream that says what it is told."""

    def __init__(self, *words) -> None:
        self.words = list(words)

    def take(self, count: int, dtype) -> np.ndarray:
        return np.array([self.words.pop(0)] * count, dtype)

    def integer(self, bits: int) -> int:
        assert bits == 192
        return self.words.pop(0)


def all_bits(residue: Residue) -> list[int]:
    """c_k for |k| ≤ R: 2²⁵⁶ times the probability of at most k, of mixture and residue together."""
    left, reach = residue.boundaries
    given = np.zeros(len(left), object)
    given[reach - residue.near : reach + residue.near + 1] = residue.taken.tolist()
    return [end + (sure << 256 - residue.bits) for end, sure in zip(left, given.cumsum(), strict=True)]


@pytest.mark.parametrize("variance", VARIANCES[:-1])
def test_the_integers_hold_the_distribution_to_250_bits(variance):
    residue = triangles(variance).residue
    ends, reach = all_bits(residue), residue.boundaries[1]
    assert ends[-1] == 1 << 256
    with mpmath.workdps(110):
        v = mpmath.mpf(variance.numerator) / variance.denominator
        weights = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * v)) for k in range(reach + 200)]
        total = 2 * mpmath.fsum(weights) - weights[0]
        steps = np.diff([0, *ends])
        wrong = [abs(mpmath.mpf(int(step)) / 2**256 - weights[abs(k)] / total) for k, step in enumerate(steps, -reach)]
        tails = 2 * mpmath.fsum(weights[reach + 1 :]) / total
        assert max(wrong) < mpmath.mpf(2) ** -255
        assert (mpmath.fsum(wrong) + tails) / 2 < residue.distance < mpmath.mpf(2) ** -240


@pytest.mark.parametrize("variance", VARIANCES)
def test_nothing_is_taken_that_is_not_there_and_the_list_is_as_right_as_it_is_believed(variance):
    residue = triangles(variance).residue
    left, reach = residue.boundaries
    assert left == sorted(left) and left[0] >= 0
    assert left[-1] < 0.01 * 2**256
    listed = [left[reach + k] >> 192 for k in range(-residue.near, residue.near + 1)]
    assert max(abs(int(end) - exact) for end, exact in zip(residue.ends.ends, listed, strict=True)) < 1 << 18


@pytest.mark.parametrize("k", [-60, -35, -20, 0, 3, 17, 48])
def test_a_draw_near_a_boundary_is_decided_by_all_256_bits(k):
    residue = triangles(Fraction(16)).residue
    left, reach = residue.boundaries
    end = left[k + reach]  # below it k and less, from it on k + 1
    for point in (end - 1, end, end + 1, end + 2**200, end - 2**200, end + 2**213, end - 2**213):
        if 0 <= point < left[-1]:
            stream = Dictated((point >> 192) % 2**32, point % 2**192)
            drawn = residue.draw(np.array([point >> 224], np.uint64), stream)
            assert drawn.tolist() == [bisect_right(left, point) - reach]
            asked = abs(point - end) < 2**212
            assert not stream.words or not asked


def test_only_points_near_a_boundary_and_those_of_the_first_and_the_last_outcome_need_all_bits():
    residue = triangles(Fraction(16)).residue
    left, reach = residue.boundaries
    for k, needed in ((-residue.near, True), (-3, False), (5, False), (residue.near, True)):
        point = (left[k + reach - 1] + left[k + reach]) // 2
        stream = Dictated((point >> 192) % 2**32, point % 2**192)
        assert residue.draw(np.array([point >> 224], np.uint64), stream).tolist() == [k]
        assert (not stream.words) == needed


@pytest.mark.parametrize("variance", [Fraction(8), Fraction(100, 7), Fraction(21)])
def test_the_bound_on_the_ratio_covers_both_signs_of_the_series_and_no_more_than_a_thousandth(variance):
    with mpmath.workdps(400):
        terms = [mpmath.exp(-2 * mpmath.pi**2 * variance.numerator * k * k / variance.denominator) for k in (1, 2, 3)]
        series = 2 * mpmath.fsum(terms)
        worst = max(abs(mpmath.log(1 + series)), abs(mpmath.log(1 - series)))
        assert worst < log_ratio(variance) < worst * mpmath.mpf("1.001")


@given(st.lists(st.integers(0, 2**40) | st.just(0), min_size=1, max_size=200), st.data())
def test_the_interval_of_a_point_is_found(lengths, data):
    ends = np.cumsum([*lengths, 1], dtype=np.uint64)
    points = np.array(data.draw(st.lists(st.integers(0, int(ends[-1]) - 1), max_size=50)), np.uint64)
    near = np.concatenate([points, ends[:-1], ends - np.uint64(1)])
    near = near[near < ends[-1]]
    assert (Intervals(ends).find(near) == np.searchsorted(ends, near, side="right")).all()
