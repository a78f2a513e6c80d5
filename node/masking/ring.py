"""Models as integers modulo 2³², and back.

Encoding   q = round(w · s) mod 2³², s = nᵢ·2ᶠ/N, ties to even
Decoding   θ = float32(S / D), D = 2ᶠ·Σ_{survivors} nᵢ / N, with S the sum modulo 2³² read as signed

``s`` and ``D`` are quotients of exact integers rounded once to float64; the product and the quotient are one float64
operation each. So every machine with IEEE 754 arithmetic computes the same bytes.
"""

import math
from collections.abc import Iterable

import numpy as np

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.tensors import Layout, is_finite

WORD = np.dtype("<u4")
"""Type of an encoded parameter: uint32, little-endian."""

MAX_BOUND = 2.0**20
MIN_BOUND = 2.0**-20

_SIGNED = np.dtype("<i4")
_CHUNK = 1 << 15  # parameters at a time, so that temporaries stay in the processor's cache


def fraction_bits(bound: float) -> int:
    """f: the number of fractional bits that keeps a weighted sum of values within ±``bound`` in 31 bits.

    f = 30 − ⌈log₂ bound⌉, so 27 for the default bound of 8. The weights of a round sum to at most 1, so the sum stays
    within ±2³⁰, and 2³⁰ units are left for the rounding of each summand.
    """
    if not MIN_BOUND <= bound <= MAX_BOUND:
        raise ValueError(f"the bound on parameters is {bound}; set it from {MIN_BOUND:g} to {MAX_BOUND:g}")
    mantissa, exponent = math.frexp(bound)  # exact, where a logarithm would round
    return 30 - (exponent - 1 if mantissa == 0.5 else exponent)


def encode(
    vector: np.ndarray, layout: Layout, samples: int, total: int, bound: float, *, in_place: bool = False
) -> np.ndarray:
    """Weight and quantise a model: q = round(nᵢ/N · w · 2ᶠ) mod 2³².

    Parameters
    ----------
    vector : float32 array of shape (layout.length,)
        The parameters w.
    layout : Layout
        Names the tensor in an error.
    samples, total : int
        nᵢ and N.
    bound : float
        Largest absolute value allowed; a larger one is an error, never a clip.
    in_place : bool
        Write the words over the vector, which is then lost: a large model leaves no room for a copy.

    Returns
    -------
    uint32 array of the same shape, little-endian.

    Raises
    ------
    InvalidContent
        Wrong type or shape, or a value that is not finite or over the bound.
    """
    if vector.dtype != np.float32 or vector.shape != (layout.length,):
        raise InvalidContent(
            f"the update is {vector.dtype} of shape {vector.shape}, but the model has "
            f"{layout.length} float32 parameters"
        )
    scale = (samples << fraction_bits(bound)) / total
    words = vector.view(WORD) if in_place else np.empty(layout.length, WORD)
    buffer = np.empty(min(_CHUNK, layout.length), np.float64)
    for start in range(0, layout.length, _CHUNK):
        part = vector[start : start + _CHUNK]
        if not (part.max() <= bound and part.min() >= -bound):  # a NaN fails both comparisons
            raise InvalidContent(_fault(vector, layout, bound, start))
        product = buffer[: len(part)]
        np.multiply(part, scale, out=product, dtype=np.float64)
        np.rint(product, out=product)
        words[start : start + len(part)].view(_SIGNED)[:] = product
    return words


def kept_within(vector: np.ndarray, bound: float) -> np.ndarray:
    """The vector, changed in place: what lies beyond ±``bound`` is at it; one with values not finite stays as it is."""
    if is_finite(vector):
        np.clip(vector, -np.float32(bound), np.float32(bound), out=vector)
    return vector


def values_beyond(vector: np.ndarray, bound: float) -> int:
    """How many values of a vector lie beyond ±``bound``."""
    parts = (vector[start : start + _CHUNK] for start in range(0, len(vector), _CHUNK))
    return sum(int(np.count_nonzero(np.abs(part) > np.float32(bound))) for part in parts)


def largest_sum(samples: Iterable[int], total: int, bound: float) -> int:
    """The largest absolute value of a word in a sum of encoded models: Σ round(nᵢ/N · bound · 2ᶠ).

    Parameters
    ----------
    samples : iterable of int
        nᵢ of the summed models.
    total : int
        N.
    """
    peak = float(np.float32(bound))  # what float32 values are compared with
    return sum(round(peak * ((own << fraction_bits(bound)) / total)) for own in samples)


def decode(words: np.ndarray, samples: int, total: int, bound: float, *, in_place: bool = False) -> np.ndarray:
    """The weighted mean behind a sum of encoded models.

    Parameters
    ----------
    words : uint32 array
        Σ q modulo 2³².
    samples, total : int
        Σ nᵢ over the summed models, and N.
    in_place : bool
        Write the mean over the words, which are then lost.

    Returns
    -------
    float32 array of the same shape.
    """
    divisor = (samples << fraction_bits(bound)) / total
    mean = words.view(np.float32) if in_place else np.empty(words.shape, np.float32)
    for start in range(0, len(words), _CHUNK):
        part = words[start : start + _CHUNK].view(_SIGNED)
        mean[start : start + _CHUNK] = part.astype(np.float64) / divisor
    return mean


def _fault(vector: np.ndarray, layout: Layout, bound: float, first: int) -> str:
    """Name the first tensor that cannot be encoded; all before ``first`` can, and may be encoded already."""
    start = 0
    for name, size in zip(layout.names, layout.sizes, strict=True):
        part = vector[max(start, first) : max(start + size, first)]
        if not np.isfinite(part).all():
            return f"tensor {name!r} holds a value that is not finite: the training diverged"
        peak = float(np.abs(part).max(initial=0.0))
        if peak > bound:
            return f"tensor {name!r} holds {peak:g}, over the bound {bound:g}: raise masking.bound or mask the delta"
        start += size
    raise AssertionError("no tensor is over the bound")
