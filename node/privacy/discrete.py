"""Discrete Gaussian noise on the integers, exact, for millions of coordinates at a time.

N_ℤ(0, v) has P(k) ∝ exp(−k²/2v) (Canonne, Kamath and Steinke 2020). Their sampler rejects one candidate after the
other; here a table is looked up, which numpy does for whole vectors. Nothing is ever rounded to a float:

1. A *table* (v up to 512²) inverts the cumulative distribution. With R = ⌈19.2·√v⌉ it has the integers c_k =
   ⌊2²⁵⁶·P(X ≤ k)⌋ for |k| ≤ R, computed in fixed point with 384 fractional bits, and gives, for a uniform u of 256
   bits, the k with c_{k−1} ≤ u < c_k. The first 16 bits of u decide, but for a few heads in a hundred, which hold a
   boundary; those draw 48 bits more, and where even these equal a boundary's, the rest. To draw bits when they are
   needed does not change the distribution: the outcome is a function of u alone.
2. A wider Gaussian is X₁ + c·X₂ with Var X₁ = 16c² and Var X₂ = (v − 16c²)/c², both from tables or such sums.

How far is it from what the accounting assumes? Write N(x; v) for the density of the normal distribution and η(w) =
2·Σ_{j≥1} exp(−2π²·w²·j²). Poisson's summation formula gives, for every centre a, Σ_{k∈ℤ} N(k − a; w²) ∈ 1 ± η(w).
Hence P(k) = N(k; v)·(1 ± η(√v))⁻¹ for a discrete Gaussian. For the sum of two independent ones, with N(j; a)·N(k − j;
b) = N(k; a + b)·N(j − ka/(a + b); w²) and w² = ab/(a + b), it gives N(k; a + b) up to such factors again; for X₁ +
c·X₂ likewise with w²/c². So a sum of discrete Gaussians is a discrete Gaussian up to a factor in each probability.
Its logarithm is at most ``log_ratio``, below 10⁻⁶⁷ for one share and below 10⁻⁶⁰ for the sum of a million
(``sum_log_ratio``; Kairouz, Liu and Steinke 2021 bound it likewise). What the table loses by its finite size is
``distance``, a statistical distance below 2⁻²³⁸ a coordinate. Both are far below what a double can add to an ε or δ.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import DTypeLike

from node.masking.keys import Random
from node.masking.prg import keystream

MIN_VARIANCE = 16
MAX_VARIANCE = 1 << 52

_PLACES = 256  # bits of u
_GUARD = 128  # further bits while the table is computed
_HEAD = 16
_WORD = 64
_UNDECIDED = np.iinfo(np.int16).min
_ONE_TABLE = 256**2  # up to this variance one table is faster than two
_WIDEST_TABLE = 512**2  # in wider ones too many heads would hold a boundary
_WIDEST_STEP = 128
_CHUNK = 1 << 15  # coordinates at a time, so that temporaries stay in the processor's cache
_BLOCK = 16


class Stream:
    """An AES-256-CTR key stream under a key that is drawn for it, as numpy arrays."""

    def __init__(self, random: Random) -> None:
        self._cipher = keystream(random(32))
        self._zeros = bytes(8 * _CHUNK)
        self._scratch = bytearray(8 * _CHUNK + _BLOCK - 1)  # the cipher asks for room for one more block

    def take(self, count: int, dtype: DTypeLike) -> np.ndarray:
        """The next ``count`` ≤ 2¹⁵ uniform words; the array is overwritten by the next call."""
        words = np.dtype(dtype)
        self._cipher.update_into(memoryview(self._zeros)[: count * words.itemsize], self._scratch)
        return np.frombuffer(self._scratch, words, count)

    def integer(self, bits: int) -> int:
        """A uniform integer of so many bits, a multiple of 8."""
        return int.from_bytes(self.take(bits // 8, np.uint8).tobytes())


@dataclass(frozen=True)
class Table:
    """A discrete Gaussian by inversion of its cumulative distribution.

    Attributes
    ----------
    variance : Fraction
        v.
    reach : int
        R; nothing beyond ±R is drawn.
    ends : list of int
        c_k for k = −R … R − 1, with 256 bits; c_R is 2²⁵⁶.
    words : ndarray
        uint64 (2R,), the first 64 bits of ``ends``.
    outcomes : ndarray
        int16 (65536,): k for each first 16 bits of u, or −32768 where a boundary lies between.
    """

    variance: Fraction
    reach: int
    ends: list[int] = field(repr=False)
    words: np.ndarray = field(repr=False)
    outcomes: np.ndarray = field(repr=False)

    def draw(self, stream: Stream, out: np.ndarray) -> None:
        """Fill ``out``, int32 of at most 2¹⁵ elements."""
        heads = stream.take(len(out), np.uint16)
        outcomes = np.take(self.outcomes, heads)
        out[:] = outcomes
        open_ = np.flatnonzero(outcomes == _UNDECIDED)
        if len(open_):
            out[open_] = self._decide(heads[open_].astype(np.uint64), stream)

    def _decide(self, heads: np.ndarray, stream: Stream) -> np.ndarray:
        tails = stream.take(len(heads), np.uint64) >> np.uint64(_HEAD)
        words = heads << np.uint64(_WORD - _HEAD) | tails
        below = np.searchsorted(self.words, words)  # boundaries that are smaller for certain
        for tie in np.flatnonzero(self.words[np.minimum(below, len(self.words) - 1)] == words):
            point = int(words[tie]) << (_PLACES - _WORD) | stream.integer(_PLACES - _WORD)
            below[tie] = bisect_right(self.ends, point)
        return below - self.reach

    @property
    def log_ratio(self) -> float:
        """Bound on |ln P(k)/N(k; v)|."""
        return _log_ratio(self.variance)

    @property
    def distance(self) -> float:
        """Bound on the statistical distance between a draw and N_ℤ(0, v): the tails, the floors, the fixed point."""
        return (2 * self.reach + 4) * 2.0**-_PLACES


@dataclass(frozen=True)
class Wide:
    """X₁ + step·X₂."""

    variance: Fraction
    step: int
    fine: Table
    coarse: "Table | Wide"

    def draw(self, stream: Stream, out: np.ndarray) -> None:
        """Fill ``out``, int32 of at most 2¹⁵ elements."""
        self.coarse.draw(stream, out)
        np.multiply(out, self.step, out=out)
        fine = np.empty_like(out)
        self.fine.draw(stream, fine)
        np.add(out, fine, out=out)

    @property
    def log_ratio(self) -> float:
        """Bound on |ln P(k)/N(k; v)|."""
        between = self.fine.variance * (self.variance - self.fine.variance) / self.variance / self.step**2
        return self.fine.log_ratio + self.coarse.log_ratio + _log_ratio(between)

    @property
    def distance(self) -> float:
        """Bound on the statistical distance that the finite tables make."""
        return self.fine.distance + self.coarse.distance


@lru_cache(maxsize=16)
def discrete_gaussian(variance: Fraction) -> Table | Wide:
    """A sampler of N_ℤ(0, ``variance``); up to ``log_ratio`` and ``distance``, both negligible.

    Raises
    ------
    ValueError
        The variance is below 16, where the sum of such noises is no discrete Gaussian any more, or above 2⁵².
    """
    if not MIN_VARIANCE <= variance <= MAX_VARIANCE:
        raise ValueError(f"the noise must have a variance from {MIN_VARIANCE} to 2^52 grid units, not {variance}")
    if variance <= _ONE_TABLE:
        return _table(variance)
    # The widths of the two parts are then equal, as long as a table holds them.
    step = min(math.isqrt(math.isqrt(math.floor(variance))) // 2, _WIDEST_STEP)
    fine = Fraction(16 * step**2)
    return Wide(variance, step, _table(fine), _part((variance - fine) / step**2))


def _part(variance: Fraction) -> Table | Wide:
    return _table(variance) if variance <= _WIDEST_TABLE else discrete_gaussian(variance)


def add_noise(words: np.ndarray, variance: Fraction, random: Random) -> None:
    """Add independent noise N_ℤ(0, ``variance``) to each word, modulo 2³², in place.

    Parameters
    ----------
    words : uint32 array, one-dimensional and contiguous
    random : Random
        ``os.urandom``: the guarantee is as good as this.
    """
    sampler, stream = discrete_gaussian(variance), Stream(random)
    noise = np.empty(min(_CHUNK, len(words)), np.int32)
    for start in range(0, len(words), _CHUNK):
        part = words[start : start + _CHUNK]
        sampler.draw(stream, noise[: len(part)])
        np.add(part, noise[: len(part)].view(np.uint32), out=part)


def sum_log_ratio(variance: Fraction, shares: int) -> float:
    """Bound on |ln P(k)/N(k; n·v)| for the sum of n shares of variance v: n·(a share's own + η(√(v/2)))."""
    return shares * (discrete_gaussian(variance).log_ratio + _log_ratio(variance / 2))


def _log_ratio(variance: Fraction) -> float:
    """|ln(1 ± η(w))| for w² = ``variance`` ≥ 8, where η < 10⁻⁶⁸ and the series is its first term."""
    return 2.001 * math.exp(-2 * math.pi**2 * float(variance))


@lru_cache(maxsize=16)
def _table(variance: Fraction) -> Table:
    reach = math.isqrt(math.ceil(variance * 369)) + 1  # exp(−369/2) < 2⁻²⁶⁶
    ends = _ends(variance, reach)
    outcomes = np.full(1 << _HEAD, _UNDECIDED, np.int16)
    shift = _PLACES - _HEAD
    start = 0
    for k, end in enumerate([*ends, 1 << _PLACES], -reach):
        outcomes[-(-start >> shift) : end >> shift] = k
        start = end
    words = np.array([end >> (_PLACES - _WORD) for end in ends], np.uint64)
    return Table(variance, reach, ends, words, outcomes)


def _ends(variance: Fraction, reach: int) -> list[int]:
    """c_k for k = −R … R − 1.

    P(k + 1)/P(k) = exp(−(2k + 1)/2v) is kept as a running product. Each product is rounded down by one unit in the last
    of 384 places, and of these errors at most R² < 2²⁷ add up.
    """
    places = _PLACES + _GUARD
    ratio, square = _exponential(-1 / (2 * variance), places), _exponential(-1 / variance, places)
    weights = [1 << places]
    for _ in range(reach):
        weights.append(weights[-1] * ratio >> places)
        ratio = ratio * square >> places
    half = weights[:0:-1]
    total = 2 * sum(half) + weights[0]
    ends, running = [], 0
    for weight in [*half, *weights[:-1]]:
        running += weight
        ends.append((running << _PLACES) // total)
    return ends


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
