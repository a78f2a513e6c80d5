"""Draws from what a mixture leaves of a discrete Gaussian: by a list in double precision, and exact all the same.

N_ℤ(0, v) is held to 256 bits: the integers w_k = c_k − c_{k−1}, with c_k = ⌊2²⁵⁶·P(X ≤ k)⌋ for |k| ≤ R = ⌈19.2·√v⌉,
computed in fixed point with 384 fractional bits. A mixture takes t_k ≤ w_k of it for itself. An outcome of the rest
belongs to a uniform integer below Σ (w_k − t_k). 64 of its bits decide by a list, unless they come so close to a
boundary that the list might be wrong. Then all bits do, by integers. So k has the probability
(w_k − t_k)/Σ (w_j − t_j), whatever the list.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from fedgrove.node.privacy.stream import Stream

PLACES = 256
"""Bits of a probability."""

_GUARD = 128  # further bits while they are computed
_LIST = 64  # bits of the list
_DOUBT = np.uint64(1 << 20)  # units of 2⁻⁶⁴; doubles make the list wrong by less than 2¹⁸ (see ``Residue.ends``)
_MOST_BINS = 1 << 16


class Intervals:
    """Finds the interval that a point is in.

    Parameters
    ----------
    ends : uint64 array (n,)
        Where each interval ends, and the next one begins; ascending.
    """

    def __init__(self, ends: np.ndarray) -> None:
        self.ends = ends
        self._shift = np.uint64(max(0, int(ends[-1]).bit_length() - _MOST_BINS.bit_length() + 1))  # of a point's bin
        bins = (ends >> self._shift) + ((ends & (np.uint64(1) << self._shift) - np.uint64(1)) > 0)
        # How many intervals end at or before the first point of a bin.
        self._guide = np.bincount(bins.astype(np.intp), minlength=_MOST_BINS + 1).cumsum().astype(np.int32)

    def find(self, points: np.ndarray) -> np.ndarray:
        """How many intervals end at or before each of ``points``, uint64 and not beyond the last end; int32."""
        found = self._guide[points >> self._shift]
        later = np.flatnonzero(self.ends.take(found, mode="clip") <= points)
        found[later] += 1  # mostly it is the next one
        later = later[self.ends.take(found[later], mode="clip") <= points[later]]
        found[later] = np.searchsorted(self.ends, points[later], side="right")
        return found


@dataclass(frozen=True)
class Residue:
    """What is left of N_ℤ(0, v).

    Attributes
    ----------
    variance : Fraction
        v.
    near : int
        Nothing was taken of outcomes beyond −near … near.
    taken : ndarray
        t_k·2^(bits − 256): int64 (2·near + 1,).
    bits : int
        At most 48.
    chances : ndarray
        P(k): float64 (2·near + 1,), each wrong by less than 2⁻⁴⁵, and all together by less than 2⁻⁴⁸.
    """

    variance: Fraction
    near: int
    taken: np.ndarray = field(repr=False)
    bits: int
    chances: np.ndarray = field(repr=False)

    def draw(self, words: np.ndarray, stream: Stream) -> np.ndarray:
        """One outcome for each of ``words``, uniform uint64 below 2³²·Σ (w_k − t_k)/2²⁵⁶; int64."""
        points = words << np.uint64(_LIST // 2) | stream.take(len(words), np.uint32)
        last = len(self.ends.ends) - 1
        found = np.minimum(self.ends.find(points), last)
        ends = self.ends.ends
        above, below = ends[found] - points, points - ends[found - 1]  # wrap round at both ends: never small
        outcomes = found - self.near
        for doubt in np.flatnonzero((above <= _DOUBT) | (below <= _DOUBT) | (found == 0) | (found == last)):
            outcomes[doubt] = self.exactly(int(points[doubt]) << (PLACES - _LIST) | stream.integer(PLACES - _LIST))
        return outcomes

    def exactly(self, point: int) -> int:
        """The outcome for a uniform integer below Σ (w_k − t_k)."""
        boundaries, reach = self.boundaries
        return bisect_right(boundaries, point) - reach

    @property
    def distance(self) -> float:
        """Bound on the statistical distance between w_k/2²⁵⁶ and P: the tails, the floors, the fixed point."""
        return (2 * reach(self.variance) + 4) * 2.0**-PLACES

    @cached_property
    def ends(self) -> Intervals:
        """Σ_{j ≤ k} (w_j − t_j)/2¹⁹² for |k| ≤ near, off by less than ``_DOUBT``.

        Each is wrong by 2⁶⁴ times the errors of the chances, below 2¹⁶, and by less than one for each of 2¹⁶ floors.
        """
        parts = (self.chances - self.taken * 2.0**-self.bits) * 2.0**_LIST
        return Intervals(parts.astype(np.int64).cumsum().astype(np.uint64))

    @cached_property
    def boundaries(self) -> tuple[list[int], int]:
        """Σ_{j ≤ k} (w_j − t_j) for k = −R … R, exact, and R. Hardly ever needed: its making takes a while."""
        own = reach(self.variance)
        cumulative = [*ends(self.variance, own), 1 << PLACES]
        given = 0
        for place, part in enumerate(self.taken.tolist(), own - self.near):
            given += part
            cumulative[place] -= given << (PLACES - self.bits)
        for place in range(own + self.near + 1, len(cumulative)):
            cumulative[place] -= given << (PLACES - self.bits)
        return cumulative, own


def log_ratio(variance: Fraction) -> float:
    """|ln(1 ± η(w))| for w² = ``variance`` ≥ 8, where η < 10⁻⁶⁸ and the series is its first term (``discrete``)."""
    return 2.001 * math.exp(-2 * math.pi**2 * float(variance))


def reach(variance: Fraction) -> int:
    """R, with exp(−R²/2v) < 2⁻²⁶⁶."""
    return math.isqrt(math.ceil(variance * 369)) + 1


def chances(variance: Fraction, near: int) -> np.ndarray:
    """P(k) for |k| ≤ near ≤ 10√v: float64, as ``Residue.chances`` has it, and wrong by less than 2⁻⁴⁴ of itself."""
    outcomes = np.arange(-near, near + 1, dtype=np.float64)
    weights = np.exp(-(outcomes**2) / float(2 * variance))
    return weights / weights.sum()


def ends(variance: Fraction, reach: int) -> list[int]:
    """c_k for k = −R … R − 1.

    P(k + 1)/P(k) = exp(−(2k + 1)/2v) is kept as a running product. Each product is rounded down by one unit in the last
    of 384 places, and of these errors at most R² < 2²⁷ add up.
    """
    places = PLACES + _GUARD
    ratio, square = _exponential(-1 / (2 * variance), places), _exponential(-1 / variance, places)
    weights = [1 << places]
    for _ in range(reach):
        weights.append(weights[-1] * ratio >> places)
        ratio = ratio * square >> places
    half = weights[:0:-1]
    total = 2 * sum(half) + weights[0]
    found: list[int] = []
    running = 0
    for weight in [*half, *weights[:-1]]:
        running += weight
        found.append((running << PLACES) // total)
    return found


def _exponential(power: Fraction, places: int) -> int:
    """exp(``power``)·2^places for a power in [−1, 0], to within a unit, by its series."""
    guard = 32
    term = total = 1 << (places + guard)
    order, sign = 0, 1
    while term:
        order, sign = order + 1, -sign
        term = term * -power.numerator // (power.denominator * order)
        total += sign * term
    return total >> guard
