"""Discrete Gaussian noise on the integers, exact, for millions of coordinates at a time.

N_ℤ(0, v) has P(k) ∝ exp(−k²/2v) (Canonne, Kamath and Steinke 2020). Their sampler rejects one candidate after the
other; here a table is looked up, which numpy does for whole vectors. No noise is ever rounded from a float:

1. A *table* (v up to 2048²) holds P to 256 bits: the integers w_k = c_k − c_{k−1}, with c_k = ⌊2²⁵⁶·P(X ≤ k)⌋ for
   |k| ≤ R = ⌈19.2·√v⌉, computed in fixed point with 384 fractional bits. P is drawn as a mixture. Of all words of 32
   random bits each k gets n_k, where 2¹⁶ ≤ n_k ≤ 2³²·P(k), one k after the other from word 0 on. Among words with the
   same upper half at most one such range ends, so that one look-up tells which k a word belongs to. The last words (a
   few thousandths of all, as long as √v is below 500) are nobody's. They draw from what is left, w_k − 2²²⁴·n_k, by
   inversion with a uniform number of 256 bits: 64 of them decide by a list in double precision, unless they come so
   close to a boundary that the list might be wrong. Then all bits do, by integers. So the outcome has the probability
   w_k/2²⁵⁶, whatever the list.
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
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import DTypeLike

from node.masking.keys import Random
from node.masking.prg import keystream

MIN_VARIANCE = 16
MAX_VARIANCE = 1 << 52

_PLACES = 256  # bits of a probability
_GUARD = 128  # further bits while they are computed
_WORD = 32  # bits that a first look-up takes
_HALF = 16
_HEADS = 1 << _HALF
_LIST = 64  # bits of the list for what is left
_BINS = 1 << 16
_DOUBT = np.uint64(1 << 20)  # units of 2⁻⁶⁴; doubles make the list wrong by less than 2¹⁸ (see ``_leftover``)
_ONE_TABLE = 2048**2  # wider ones leave so many words to nobody that two tables are faster
_WIDEST_STEP = 128
_CHUNK = 1 << 15  # coordinates at a time, so that temporaries stay in the processor's cache
_BATCH = 64 * _CHUNK  # coordinates after which the words that are nobody's are drawn again, all at once
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
    """A discrete Gaussian as a mixture.

    Attributes
    ----------
    variance : Fraction
        v.
    near : int
        Outcomes −near … near have entries in ``counts`` and ``ends``; all others belong to what is left.
    counts : ndarray
        n_k: int64 (2·near + 1,), 0 or at least 2¹⁶, and their sum a multiple of 2¹⁶.
    heads : int
        Σ n_k/2¹⁶; words whose upper half is at least that are nobody's.
    starts : ndarray
        uint32 (65536,): a word plus the entry for its upper half has k in its upper half, modulo 2¹⁶.
    ends : ndarray
        uint64 (2·near + 1,): Σ_{j ≤ k} (2⁶⁴·P(j) − 2³²·n_j), off by less than ``_DOUBT``.
    """

    variance: Fraction
    near: int
    counts: np.ndarray = field(repr=False)
    heads: int
    starts: np.ndarray = field(repr=False)
    ends: np.ndarray = field(repr=False)

    def add(self, words: np.ndarray, step: int, stream: Stream) -> None:
        """Add ``step`` times an independent draw to each of ``words``, uint32, modulo 2³²."""
        for start in range(0, len(words), _BATCH):
            batch = words[start : start + _BATCH]
            places, heads = self._add_sure(batch, step, stream)
            for first in range(0, len(places), _CHUNK):
                some = slice(first, first + _CHUNK)
                left = self._draw_leftover(heads[some], stream)
                batch[places[some]] += (step * left).astype(np.uint32)

    def _add_sure(self, words: np.ndarray, step: int, stream: Stream) -> tuple[np.ndarray, np.ndarray]:
        """Add the draws that one look-up decides; return the places of the others and the upper halves they drew."""
        size = min(_CHUNK, len(words))
        heads, index, sums = np.empty(size, np.uint32), np.empty(size, np.intp), np.empty(size, np.uint32)
        places, drawn = [], []
        for start in range(0, len(words), _CHUNK):
            part = words[start : start + _CHUNK]
            head, where, outcome = heads[: len(part)], index[: len(part)], sums[: len(part)]
            word = stream.take(len(part), np.uint32)
            np.right_shift(word, _HALF, out=head)
            np.copyto(where, head)
            self.starts.take(where, out=outcome, mode="wrap")  # the only mode that writes to ``out`` directly
            np.add(outcome, word, out=outcome)
            signed = outcome.view(np.int32)
            np.right_shift(signed, _HALF, out=signed)
            if step != 1:
                np.multiply(outcome, np.uint32(step), out=outcome)
            np.add(part, outcome, out=part)
            open_ = np.flatnonzero(head >= self.heads)
            places.append(open_ + start)
            drawn.append(head[open_])
        return np.concatenate(places), np.concatenate(drawn)

    def _draw_leftover(self, heads: np.ndarray, stream: Stream) -> np.ndarray:
        """Draws from what is left: int64, one for each of ``heads``, at most 2¹⁵."""
        points = heads.astype(np.uint64) - np.uint64(self.heads) << np.uint64(_LIST - _HALF)
        points |= stream.take(len(heads), np.uint64) >> np.uint64(_HALF)
        last = len(self.ends) - 1
        found = np.minimum(self._guide[points >> self._shift], last)
        later = np.flatnonzero(self.ends[found] <= points)
        found[later] = np.minimum(np.searchsorted(self.ends, points[later], side="right"), last)
        above, below = self.ends[found] - points, points - self.ends[found - 1]  # wrap round at both ends: never small
        outcomes = found - self.near
        for doubt in np.flatnonzero((above <= _DOUBT) | (below <= _DOUBT) | (found == 0) | (found == last)):
            outcomes[doubt] = self.exactly(int(points[doubt]) << (_PLACES - _LIST) | stream.integer(_PLACES - _LIST))
        return outcomes

    def exactly(self, point: int) -> int:
        """The outcome that is left for a uniform integer below 2²⁵⁶ − 2²²⁴·Σ n_k."""
        boundaries, reach = self.leftover
        return bisect_right(boundaries, point) - reach

    @cached_property
    def leftover(self) -> tuple[list[int], int]:
        """Σ_{j ≤ k} (w_j − 2²²⁴·n_j) for k = −R … R, exact, and R. Hardly ever needed: its making takes a while."""
        reach = _reach(self.variance)
        ends = [*_ends(self.variance, reach), 1 << _PLACES]
        given = 0
        for place, count in enumerate(self.counts.tolist(), reach - self.near):
            given += count
            ends[place] -= given << (_PLACES - _WORD)
        for place in range(reach + self.near + 1, len(ends)):
            ends[place] -= given << (_PLACES - _WORD)
        return ends, reach

    @cached_property
    def _shift(self) -> np.uint64:
        """Bits of a point below its bin."""
        return np.uint64((((_HEADS - self.heads) << (_LIST - _HALF)) // _BINS).bit_length())

    @cached_property
    def _guide(self) -> np.ndarray:
        """For each bin of points: how many ``ends`` are at most its first point."""
        bins = (self.ends >> self._shift) + ((self.ends & (np.uint64(1) << self._shift) - np.uint64(1)) > 0)
        return np.bincount(bins.astype(np.intp), minlength=_BINS + 1).cumsum()

    @property
    def log_ratio(self) -> float:
        """Bound on |ln P(k)/N(k; v)|."""
        return _log_ratio(self.variance)

    @property
    def distance(self) -> float:
        """Bound on the statistical distance between a draw and N_ℤ(0, v): the tails, the floors, the fixed point."""
        return (2 * _reach(self.variance) + 4) * 2.0**-_PLACES


@dataclass(frozen=True)
class Wide:
    """X₁ + step·X₂."""

    variance: Fraction
    step: int
    fine: Table
    coarse: "Table | Wide"

    def add(self, words: np.ndarray, step: int, stream: Stream) -> None:
        """Add ``step`` times an independent draw to each of ``words``, uint32, modulo 2³²."""
        self.coarse.add(words, step * self.step, stream)
        self.fine.add(words, step, stream)

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
    return Wide(variance, step, _table(fine), discrete_gaussian((variance - fine) / step**2))


def add_noise(words: np.ndarray, variance: Fraction, random: Random) -> None:
    """Add independent noise N_ℤ(0, ``variance``) to each word, modulo 2³², in place.

    Parameters
    ----------
    words : uint32 array, one-dimensional and contiguous
    random : Random
        ``os.urandom``: the guarantee is as good as this.
    """
    discrete_gaussian(variance).add(words, 1, Stream(random))


def sum_log_ratio(variance: Fraction, shares: int) -> float:
    """Bound on |ln P(k)/N(k; n·v)| for the sum of n shares of variance v: n·(a share's own + η(√(v/2)))."""
    return shares * (discrete_gaussian(variance).log_ratio + _log_ratio(variance / 2))


def _log_ratio(variance: Fraction) -> float:
    """|ln(1 ± η(w))| for w² = ``variance`` ≥ 8, where η < 10⁻⁶⁸ and the series is its first term."""
    return 2.001 * math.exp(-2 * math.pi**2 * float(variance))


@lru_cache(maxsize=16)
def _table(variance: Fraction) -> Table:
    near = math.ceil(9.6 * math.sqrt(variance))
    chances = _chances(variance, near)
    counts = np.floor(chances * (2.0**_WORD * (1 - 2.0**-40))).astype(np.int64)
    counts[counts < _HEADS] = 0
    last = np.flatnonzero(counts)[-1]
    counts[last] -= counts.sum() % _HEADS
    ends = counts.cumsum()
    return Table(variance, near, counts, int(ends[-1]) // _HEADS, _starts(ends, near), _leftover(chances, counts))


def _chances(variance: Fraction, near: int) -> np.ndarray:
    """P(k) for |k| ≤ near: float64, each wrong by less than 2⁻⁴⁵, and all together by less than 2⁻⁴⁸."""
    outcomes = np.arange(-near, near + 1, dtype=np.float64)
    weights = np.exp(-(outcomes**2) / float(2 * variance))
    return weights / weights.sum()


def _starts(ends: np.ndarray, near: int) -> np.ndarray:
    """``Table.starts``, from Σ_{j ≤ k} n_j."""
    first = -(-ends // _HEADS)  # upper half from which on the words are those of later outcomes
    outcome = np.repeat(np.arange(len(ends)), np.diff(first, prepend=0))
    begins = np.arange(_HEADS) << _HALF
    found = np.zeros(_HEADS, np.int64)
    room = ends[outcome] - begins[: len(outcome)]  # words up to the end of the outcome's range
    found[: len(outcome)] = (outcome - near << _HALF) + np.maximum(0, _HEADS - room)
    return (found - begins).astype(np.uint32)


def _leftover(chances: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """``Table.ends``.

    Each is wrong by 2⁶⁴ times the errors of the chances, below 2¹⁶, and by less than one for each of 2¹⁶ floors.
    """
    parts = (chances * 2.0**_WORD - counts) * 2.0 ** (_LIST - _WORD)
    return parts.astype(np.int64).cumsum().astype(np.uint64)


def _reach(variance: Fraction) -> int:
    """R, with exp(−R²/2v) < 2⁻²⁶⁶."""
    return math.isqrt(math.ceil(variance * 369)) + 1


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
