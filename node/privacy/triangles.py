"""A discrete Gaussian as a mixture of triangles, drawn in pairs with one look-up.

The triangle of j is the distribution of c·j − (c − 1) + u₁ + u₂ with u₁ and u₂ uniform on 0 … c − 1: outcomes around
c·j, with the weights (c − |k − c·j|)/c². A mixture of these triangles with the weights q_j is a broken line through
q_j/c at c·j. N_ℤ(0, v) is above this line, with 3.6c ≤ √v < 7.2c all but a hundredth of it:

    P(k) = Σ_j q_j·(c − |k − c·j|)₊/c² + q_*·R(k),     Σ_j q_j + q_* = 1,

where q_j is a multiple of 2⁻³² and R is what is left of P (``residue``). So a draw is a j or the star, drawn with these
weights, and then two uniform numbers of log₂ c bits or a draw from R.

Two outcomes are drawn at once. Of 2¹⁶ codes a pair (j, j′) has n_jj′ = ⌊2¹⁶·q_j·q_j′⌋, and a table says which. The
last codes, two of a hundred, are nobody's. They draw a pair, stars included, from what is left: q_j·q_j′ − 2⁻¹⁶·n_jj′
is a multiple of 2⁻⁶⁴, and this code with 48 further bits is a uniform one. All this is exact in integers.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from fedgrove.node.privacy.residue import Intervals, Residue, chances, log_ratio
from fedgrove.node.privacy.stream import Stream

WIDEST = 1600**2
"""The largest v: outcomes fit into 16 bits, and c is at most 256."""

_CHUNK = 1 << 17  # outcomes at a time: few calls, and temporaries that stay near the processor
_BATCH = 8 * _CHUNK  # outcomes after which pairs are drawn whose codes are nobody's, all at once
_CODE = 16  # bits of a code
_WEIGHT = 32  # bits of q_j
_REST = 48  # bits after a code that is nobody's
_NARROWEST = 3.6  # least √v/c: few codes are nobody's and few of them draw stars, over all widths
_WIDTH = 5  # standard deviations that triangles reach; the tails are left to R
_LIST_WIDTH = 9.6  # standard deviations that the list of R reaches
_MARGIN = 1 - 2.0**-20  # so that no error of a double makes a triangle too large


@dataclass(frozen=True)
class Triangles:
    """A sampler of N_ℤ(0, v).

    Attributes
    ----------
    variance : Fraction
        v.
    bits : int
        log₂ c, at most 8.
    weights : ndarray
        2³²·q_j for j = −J … J, and then 2³²·q_*: uint64 (2J + 2,).
    pairs : ndarray
        For each pair of them, c·j − (c − 1) and c·j′ − (c − 1), and 0 for a star: uint32 ((2J + 2)²,), each two uint16.
    codes : int
        Codes from this one on are nobody's.
    table : ndarray
        The entry of ``pairs`` that a code stands for, 0 where it is nobody's: uint32 (65536,).
    rest : Intervals
        What is left of each pair, in units of 2⁻⁶⁴.
    residue : Residue
        R.
    """

    variance: Fraction
    bits: int
    weights: np.ndarray = field(repr=False)
    pairs: np.ndarray = field(repr=False)
    codes: int
    table: np.ndarray = field(repr=False)
    rest: Intervals = field(repr=False)
    residue: Residue = field(repr=False)

    def add(self, words: np.ndarray, step: int, stream: Stream) -> None:
        """Add ``step`` times an independent draw to each of ``words``, uint32, modulo 2³²."""
        even = len(words) // 2 * 2
        for start in range(0, even, _BATCH):
            self._add_pairs(words[start : min(start + _BATCH, even)], step, stream)
        if even < len(words):
            two = np.zeros(2, np.uint32)
            self._add_pairs(two, step, stream)
            words[-1:] += two[:1]

    def _add_pairs(self, words: np.ndarray, step: int, stream: Stream) -> None:
        most = min(_CHUNK, len(words)) // 2
        room, drawn = np.empty(most, np.intp), np.empty(most, np.uint32)
        rest: list[tuple[np.ndarray, ...]] = []
        for start in range(0, len(words), _CHUNK):
            part = words[start : start + _CHUNK].view(np.int32)
            pairs = len(part) // 2
            random = stream.take(3 * pairs, np.uint16)
            codes, uniform = random[:pairs], random[pairs:]
            index, sums = room[:pairs], drawn[:pairs]
            np.copyto(index, codes)
            self.table.take(index, out=sums, mode="wrap")  # no index wraps; other modes would make a copy for ``out``
            self._add_uniform(sums.view(np.uint16), uniform, index.view(np.uint16)[: 2 * pairs])
            draws = sums.view(np.int16)
            np.add(part, draws if step == 1 else np.multiply(draws, step, dtype=np.int32), out=part)
            nobodys = np.flatnonzero(codes >= self.codes)
            rest.append((nobodys + start // 2, codes[nobodys], sums[nobodys]))
        places, codes, drawn = map(np.concatenate, zip(*rest, strict=True))
        self._add_rest(words, step, places, codes, drawn, stream)

    def _add_uniform(self, noise: np.ndarray, words: np.ndarray, room: np.ndarray) -> None:
        """Add u₁ + u₂, from the upper and lower bits of ``words``."""
        if self.bits:
            np.right_shift(words, 16 - self.bits, out=room)
            np.add(noise, room, out=noise)
            np.bitwise_and(words, (1 << self.bits) - 1, out=room)
            np.add(noise, room, out=noise)

    def _add_rest(
        self, words: np.ndarray, step: int, places: np.ndarray, codes: np.ndarray, sums: np.ndarray, stream: Stream
    ) -> None:
        """Add what the pairs draw whose codes are nobody's; they have got their ``sums`` u₁ + u₂ already."""
        points = codes.astype(np.uint64) - np.uint64(self.codes) << np.uint64(_REST)
        points |= stream.take(len(codes), np.uint64) >> np.uint64(64 - _REST)
        found = self.rest.find(points)
        pairs = words.view(np.uint64)
        both = pairs[places].view(np.int32)
        both += np.multiply(self.pairs[found].view(np.int16), step, dtype=np.int32)
        pairs[places] = both.view(np.uint64)
        starred = np.flatnonzero(self.starred[found])
        found, places, sums = found[starred], places[starred], sums[starred].view(np.uint16).reshape(-1, 2)
        symbols = np.divmod(found, len(self.weights))
        # In an interval of q_j·q_j′ all points are alike, so that quotient and remainder are uniform and independent.
        uniform = np.divmod(points[starred] - self.rest.ends[found - 1], self.weights[symbols[1]])
        stars = np.flatnonzero(np.concatenate(symbols) == len(self.weights) - 1)  # of all first outcomes, then second
        side, pair = np.divmod(stars, max(1, len(found)))
        draws = self.residue.draw(np.concatenate(uniform)[stars], stream) - sums[pair, side]
        words[2 * places[pair] + side] += (step * draws).astype(np.uint32)

    @property
    def log_ratio(self) -> float:
        """Bound on |ln P(k)/N(k; v)|."""
        return log_ratio(self.variance)

    @property
    def distance(self) -> float:
        """Bound on the statistical distance that the finite integers make."""
        return self.residue.distance

    @cached_property
    def starred(self) -> np.ndarray:
        """Which of ``pairs`` have a star: bool."""
        starred = np.zeros((len(self.weights), len(self.weights)), bool)
        starred[-1] = starred[:, -1] = True
        return starred.ravel()


@lru_cache(maxsize=16)
def triangles(variance: Fraction) -> Triangles:
    """The sampler of N_ℤ(0, ``variance``), from 16 to ``WIDEST``."""
    deviation = math.sqrt(variance)
    bits = max(0, int(deviation / _NARROWEST).bit_length() - 1)
    side = math.ceil(_WIDTH * deviation / (1 << bits))  # J
    near = max(math.ceil(_LIST_WIDTH * deviation), (side + 1) << bits)
    density = chances(variance, near)
    weights = _weights(density, side, bits)
    residue = Residue(variance, near, _line(weights, near, bits), _WEIGHT + 2 * bits, density)
    weights = np.append(weights, np.uint64((1 << _WEIGHT) - int(weights.sum())))
    products = np.multiply.outer(weights, weights)
    counts = products >> np.uint64(_REST)
    counts[-1] = counts[:, -1] = 0
    rest = Intervals((products - (counts << np.uint64(_REST))).ravel().cumsum())
    pairs, codes = _pairs(side, bits), int(counts.sum())
    table = np.zeros(1 << _CODE, np.uint32)
    table[:codes] = np.repeat(pairs, counts.ravel().astype(np.intp))
    return Triangles(variance, bits, weights, pairs, codes, table, rest, residue)


def _weights(density: np.ndarray, side: int, bits: int) -> np.ndarray:
    """2³²·q_j for |j| ≤ ``side``: uint64.

    The line through P(c·j) runs above P where P is convex. Let ρ_j be the least P/line over the triangle of j, at most
    1. The line through ρ_j·P(c·j) is nowhere above P.
    """
    middle, width = len(density) // 2, 1 << bits
    knots = density[middle - (side << bits) : middle + (side << bits) + 1 : width]
    here = density[middle - (side + 1 << bits) : middle + (side + 1 << bits) + 1]
    line = np.interp(np.arange(len(here)) / width, np.arange(len(knots) + 2), np.pad(knots, 1))
    ratios = np.minimum(1, np.divide(here, line, out=np.ones_like(here), where=line > 0))
    own = np.minimum.reduceat(ratios, np.arange(len(knots) + 1) * width)  # of the intervals between knots
    return np.floor(knots * np.minimum(own[:-1], own[1:]) * width * (_MARGIN * 2.0**_WEIGHT)).astype(np.uint64)


def _line(weights: np.ndarray, near: int, bits: int) -> np.ndarray:
    """Σ_j 2³²·q_j·(c − |k − c·j|)₊ for |k| ≤ ``near``: int64."""
    width, ends = 1 << bits, np.pad(weights.astype(np.int64), 1)
    falling = np.arange(width, 0, -1)
    line = (np.multiply.outer(ends[:-1], falling) + np.multiply.outer(ends[1:], width - falling)).ravel()
    margin = near - (len(line) // 2)
    return np.pad(line, (margin, margin + 1))


def _pairs(side: int, bits: int) -> np.ndarray:
    """``Triangles.pairs``."""
    centres = np.zeros(2 * side + 2, np.uint16)
    centres[:-1] = ((np.arange(-side, side + 1) << bits) - ((1 << bits) - 1)).astype(np.uint16)
    first, second = np.meshgrid(centres, centres, indexing="ij")
    return np.stack((first, second), axis=-1).view(np.uint32).ravel()
