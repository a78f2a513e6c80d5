"""Arithmetic in 𝔽_p, p = 2⁶¹ − 1, on arrays of uint64.

Elements are kept canonical, from 0 to p − 1. As 2⁶¹ ≡ 1, a number is reduced by adding its upper bits to its lower 61,
and a product of two elements never needs more than 64 bits when it is put together from halves of 31 bits.
"""

import numpy as np

BITS = 61
PRIME = (1 << BITS) - 1
ELEMENT = np.dtype("<u8")
"""Type of an element, also on the wire: 8 bytes, little-endian."""

_BY_HAND = 32
_P = np.uint64(PRIME)
_HALF = np.uint64(31)
_LOW = np.uint64((1 << 31) - 1)
_MIDDLE = np.uint64(30)
_MIDDLE_LOW = np.uint64((1 << 30) - 1)


def reduce(x: np.ndarray) -> np.ndarray:
    """The canonical representatives of any uint64."""
    folded = (x & _P) + (x >> np.uint64(BITS))
    return folded - _P * (folded >= _P)


def element(x: np.ndarray) -> np.ndarray:
    """The element of each int64, negative ones included."""
    return np.where(x < 0, _P - reduce(np.abs(x).astype(ELEMENT)), reduce(x.astype(ELEMENT))) % _P


def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return reduce(a + b)


def subtract(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return reduce(a + (_P - b))


def multiply(a: np.ndarray, b: np.ndarray | np.uint64) -> np.ndarray:
    """Products of elements.

    a = a₁·2³¹ + a₀, b likewise: ab = a₁b₁·2⁶² + m·2³¹ + a₀b₀ with m = a₁b₀ + a₀b₁ < 2⁶², where 2⁶² ≡ 2 and
    m·2³¹ ≡ ⌊m/2³⁰⌋ + (m mod 2³⁰)·2³¹. The four summands are below 2⁶¹, 2³², 2⁶¹ and 2⁶².
    """
    a1, a0 = a >> _HALF, a & _LOW
    b1, b0 = b >> _HALF, b & _LOW
    middle = a1 * b0 + a0 * b1
    return reduce(2 * (a1 * b1) + (middle >> _MIDDLE) + ((middle & _MIDDLE_LOW) << _HALF) + a0 * b0)


def powers(x: np.ndarray, count: int) -> np.ndarray:
    """x⁰ … x^(count−1) of each element: shape (len(x), count).

    The first ones with Python's integers, which are faster than passes over tiny arrays; the rest by doubling.
    """
    table = np.empty((len(x), count), ELEMENT)
    known = min(count, _BY_HAND)
    for row, base in zip(table, x.tolist(), strict=True):
        row[:known] = _powers(base, known)
    step = np.array([pow(base, known, PRIME) for base in x.tolist()], ELEMENT)
    while known < count:
        more = min(known, count - known)
        table[:, known : known + more] = multiply(table[:, :more], step[:, None])
        known, step = known + more, multiply(step, step)
    return table


def _powers(base: int, count: int) -> list[int]:
    found = [1]
    while len(found) < count:
        found.append(found[-1] * base % PRIME)
    return found


def total(a: np.ndarray) -> np.ndarray:
    """Sum over the first axis, of at most 2³² elements."""
    high = (a >> np.uint64(32)).sum(axis=0, dtype=ELEMENT)
    low = (a & np.uint64(0xFFFFFFFF)).sum(axis=0, dtype=ELEMENT)
    return add(multiply(reduce(high), np.uint64(1 << 32)), reduce(low))
