"""The seed's deterministic decoder (appendix K): sums of powers of integers, roots by bisection. For comparisons only.

Bins are numbered from 1 to M, Sᵢ = Σ q_j·jⁱ for i < 2N is computed modulo P > n·M^(2N−1), so that it never wraps and
the server knows the integers themselves. An element has 2N·log₂ M bits, the whole upload O(N²·log M).

Roots are bisected by Descartes' rule of signs, which for a polynomial with real roots only gives the exact number of
roots above a: the sign changes of h(x + a). That replaces the case distinctions on the parity of the degree.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np


def modulus(capacity: int, bins: int, points: int) -> int:
    """P, larger than any sum of at most ``points`` counts over bins 1 … M."""
    return points * bins ** (2 * capacity - 1) + 1


def encode(counts: Mapping[int, int], capacity: int, p: int) -> list[int]:
    """S₀ … S_{2N−1} modulo P of a client's counts by bin number."""
    return [sum(count * number**power for number, count in counts.items()) % p for power in range(2 * capacity)]


def decode(sums: Sequence[int], bins: int) -> dict[int, int]:
    """Counts by bin number, ascending, from the exact sums S₀ … S_{2N−1}.

    Raises
    ------
    ValueError
        They are not the sums of N bins or fewer.
    """
    locator = _shortest_recurrence(sums)
    roots = list(_roots(locator, 0, bins, _roots_above(locator, 0) - _roots_above(locator, bins)))
    if len(roots) != len(locator) - 1 or 2 * len(roots) > len(sums):
        raise ValueError("the sums are not those of so few bins")
    counts = {root: _weight(locator, root, sums) for root in roots}
    if any(count.denominator != 1 or count < 1 for count in counts.values()):
        raise ValueError("a count is not a positive integer")
    return {root: int(count) for root, count in counts.items()}


def _shortest_recurrence(sums: Sequence[int]) -> list[Fraction]:
    """Berlekamp–Massey over ℚ: the monic polynomial of the shortest recurrence, highest coefficient first."""
    current, previous = [Fraction(1)], [Fraction(1)]
    length, gap, last = 0, 1, Fraction(1)
    for index in range(len(sums)):
        error = sum((c * sums[index - i] for i, c in enumerate(current)), Fraction(0))
        if error:
            shifted = [Fraction(0)] * gap + [error / last * c for c in previous]
            width = max(len(current), len(shifted))
            padded = current + [Fraction(0)] * (width - len(current))
            changed = [c - (shifted[i] if i < len(shifted) else 0) for i, c in enumerate(padded)]
            if 2 * length <= index:
                length, previous, last, gap = index + 1 - length, current, error, 0
            current = changed
        gap += 1
    return (current + [Fraction(0)] * (length + 1 - len(current)))[: length + 1]


def _shifted(h: Sequence[Fraction], a: int) -> list[Fraction]:
    """Coefficients of h(x + a), by repeated synthetic division."""
    coefficients = list(h)
    for end in range(len(h), 1, -1):
        for place in range(1, end):
            coefficients[place] += a * coefficients[place - 1]
    return coefficients


def _roots_above(h: Sequence[Fraction], a: int) -> int:
    signs = np.sign([float(c > 0) - float(c < 0) for c in _shifted(h, a) if c])
    return int((signs[1:] != signs[:-1]).sum())


def _roots(h: Sequence[Fraction], low: int, high: int, count: int) -> Iterator[int]:
    """The ``count`` roots in (low, high], which are integers."""
    if count <= 0:
        return
    if high - low == 1:
        if count == 1 and _shifted(h, high)[-1] == 0:
            yield high
        return
    middle = (low + high) // 2
    upper = _roots_above(h, middle) - _roots_above(h, high)
    yield from _roots(h, low, middle, count - upper)
    yield from _roots(h, middle, high, upper)


def _weight(h: Sequence[Fraction], root: int, sums: Sequence[int]) -> Fraction:
    """The count at a root: with g = h/(x − root), Σ gᵢ·Sᵢ = q·g(root)."""
    quotient = [h[0]]
    for coefficient in h[1:-1]:
        quotient.append(coefficient + root * quotient[-1])
    lowest_first = quotient[::-1]
    value = sum(c * root**power for power, c in enumerate(lowest_first))
    return sum((c * sums[power] for power, c in enumerate(lowest_first)), Fraction(0)) / value
