"""Discrete Gaussian noise from a key, the same on every machine.

The mixtures of ``discrete`` are faster, but their tables come from floating-point exponentials: two machines may cut
them otherwise and, from one key, draw other numbers of the same distribution. Here an outcome is looked up among the
integers of ``residue``, c_k = ⌊2²⁵⁶·P(X ≤ k)⌋, by nothing but integers: 64 bits decide, and where they equal those of a
boundary (once in 2⁴⁸ draws) 192 bits more. Wider Gaussians than 1600² are sums of these, split as in ``discrete``.
"""

from bisect import bisect_right
from fractions import Fraction
from functools import lru_cache

import numpy as np

from fedgrove.node.privacy.discrete import step_of
from fedgrove.node.privacy.residue import PLACES, ends, reach
from fedgrove.node.privacy.stream import MAX_BYTES, Stream
from fedgrove.node.privacy.triangles import WIDEST

_WORD = 64
_CHUNK = MAX_BYTES * 8 // _WORD


def add_repeatable_noise(words: np.ndarray, variance: Fraction, key: bytes) -> None:
    """Add independent noise N_ℤ(0, ``variance``) to each word, modulo 2³², in place.

    Parameters
    ----------
    words : uint32 array, one-dimensional
    variance : Fraction
        Above 0 and at most 2⁵².
    key : bytes
        32 bytes. Who knows it knows the noise.
    """
    stream, step = Stream(lambda _: key), 1
    while variance > WIDEST:
        own = step_of(variance)
        _add(words, Fraction(16 * own**2), step, stream)
        variance, step = (variance - 16 * own**2) / own**2, step * own
    _add(words, variance, step, stream)


def _add(words: np.ndarray, variance: Fraction, step: int, stream: Stream) -> None:
    tops, boundaries = tables_of(variance)
    middle = len(boundaries) // 2
    for start in range(0, len(words), _CHUNK):
        part = words[start : start + _CHUNK]
        points = stream.take(len(part), "<u8").copy()
        found = np.searchsorted(tops, points)
        for doubt in np.flatnonzero(tops.take(found, mode="clip") == points):
            point = int(points[doubt]) << (PLACES - _WORD) | stream.integer(PLACES - _WORD)
            found[doubt] = bisect_right(boundaries, point)
        part += ((found - middle) * step).astype(np.uint32)


@lru_cache(maxsize=4)
def tables_of(variance: Fraction) -> tuple[np.ndarray, list[int]]:
    """The upper 64 bits of each c_k for k = −R … R − 1, and all of them."""
    boundaries = ends(variance, reach(variance))
    return np.array([end >> (PLACES - _WORD) for end in boundaries], np.uint64), boundaries
