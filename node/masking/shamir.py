"""Shamir's secret sharing over a prime field larger than 2²⁵⁶, and its correction of wrong shares.

The share of holder h is the value at x = h + 1 of a random polynomial of degree t − 1 whose constant term is the
secret: any t shares determine it, t − 1 say nothing about it. Shares are a code word of a Reed–Solomon code, so among m
of them ⌊(m − t)/2⌋ wrong ones are corrected outright (Gao 2003); where a hash of the secret is known and the shares are
few, any number of wrong ones is as long as t are right.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from math import comb

from fedgrove.node.masking.keys import Random

PRIME = 2**256 + 297
"""The smallest prime above 2²⁵⁶: any 32 bytes are a secret."""

SHARE_BYTES = 33

_MAX_SUBSETS = 5_000  # subsets of t shares tried when correction fails; bounds the work hostile holders can cause


def split(secret: int, threshold: int, count: int, random: Random, prime: int = PRIME) -> tuple[int, ...]:
    """Shares for holders 0 … count − 1, any ``threshold`` of them determine the secret.

    Raises ValueError: unless 0 ≤ secret < prime and 1 ≤ threshold ≤ count < prime.
    """
    if not 0 <= secret < prime:
        raise ValueError("the secret is not a field element")
    if not 1 <= threshold <= count < prime:
        raise ValueError(f"{threshold} of {count} shares cannot recover a secret")
    polynomial = [secret, *(_random_element(random, prime) for _ in range(threshold - 1))]
    return tuple(_evaluate(polynomial, holder + 1, prime) for holder in range(count))


def combine(shares: Mapping[int, int], prime: int = PRIME) -> int:
    """The secret behind exactly ``threshold`` shares, by holder: Lagrange interpolation at zero."""
    points = {holder + 1: value for holder, value in shares.items()}
    secret = 0
    for x, value in points.items():
        numerator, denominator = 1, 1
        for other in points:
            if other != x:
                numerator = numerator * other % prime
                denominator = denominator * (other - x) % prime
        secret = (secret + value * numerator * pow(denominator, -1, prime)) % prime
    return secret


def recover_secret(
    shares: Mapping[int, int], threshold: int, accept: Callable[[int], bool], prime: int = PRIME
) -> int | None:
    """The secret that ``accept`` knows, from shares, some of them perhaps wrong; None if they do not give it.

    Parameters
    ----------
    shares : mapping
        Holder to share.
    accept : callable
        Tells the secret from any other number (a hash or a public key is known).
    """
    if len(shares) < threshold:
        return None
    return next((secret for secret in _candidates(dict(shares), threshold, prime) if accept(secret)), None)


def _candidates(shares: dict[int, int], threshold: int, prime: int) -> Iterator[int]:
    holders = sorted(shares)
    yield combine({holder: shares[holder] for holder in holders[:threshold]}, prime)
    corrected = _correct(shares, threshold, prime)
    if corrected is not None:
        yield corrected
    if comb(len(holders), threshold) <= _MAX_SUBSETS:
        for subset in combinations(holders, threshold):
            yield combine({holder: shares[holder] for holder in subset}, prime)


def _correct(shares: Mapping[int, int], threshold: int, prime: int) -> int | None:
    """Gao's decoder: the constant term of the polynomial that disagrees with at most ⌊(m − t)/2⌋ shares, if any.

    With G = Π (x − xᵢ) and I the interpolation of all shares, run Euclid's algorithm on (G, I) until the remainder's
    degree is below (m + t)/2; the remainder divided by its cofactor is the polynomial.
    """
    points = [(holder + 1, value) for holder, value in shares.items()]
    previous, remainder = _vanishing([x for x, _ in points], prime), _interpolate(points, prime)
    cofactors: tuple[list[int], list[int]] = ([], [1])
    while 2 * (len(remainder) - 1) >= len(points) + threshold:
        quotient, rest = _divide(previous, remainder, prime)
        previous, remainder = remainder, rest
        product = _multiply(quotient, cofactors[1], prime)
        cofactors = (cofactors[1], _subtract(cofactors[0], product, prime))
    polynomial, rest = _divide(remainder, cofactors[1], prime)
    if rest or len(polynomial) > threshold:
        return None
    return polynomial[0] if polynomial else 0


def _random_element(random: Random, prime: int) -> int:
    """A uniform element of the field, by rejection."""
    bits = prime.bit_length()
    size = (bits + 7) // 8
    while True:
        candidate = int.from_bytes(random(size)) >> (8 * size - bits)
        if candidate < prime:
            return candidate


# Polynomials: coefficients from the constant term up, without leading zeros; [] is zero.


def _evaluate(polynomial: list[int], x: int, prime: int) -> int:
    value = 0
    for coefficient in reversed(polynomial):
        value = (value * x + coefficient) % prime
    return value


def _trim(polynomial: list[int]) -> list[int]:
    while polynomial and not polynomial[-1]:
        polynomial.pop()
    return polynomial


def _multiply(left: list[int], right: list[int], prime: int) -> list[int]:
    product = [0] * max(len(left) + len(right) - 1, 0)
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            product[i + j] = (product[i + j] + a * b) % prime
    return _trim(product)


def _subtract(left: list[int], right: list[int], prime: int) -> list[int]:
    size = max(len(left), len(right))
    padded = zip(left + [0] * (size - len(left)), right + [0] * (size - len(right)), strict=True)
    return _trim([(a - b) % prime for a, b in padded])


def _divide(dividend: list[int], divisor: list[int], prime: int) -> tuple[list[int], list[int]]:
    """Quotient and remainder; the divisor is not zero."""
    rest = list(dividend)
    inverse = pow(divisor[-1], -1, prime)
    quotient = [0] * max(len(rest) - len(divisor) + 1, 0)
    for shift in reversed(range(len(quotient))):
        factor = rest[shift + len(divisor) - 1] * inverse % prime
        quotient[shift] = factor
        for i, coefficient in enumerate(divisor):
            rest[shift + i] = (rest[shift + i] - factor * coefficient) % prime
    return _trim(quotient), _trim(rest)


def _vanishing(xs: list[int], prime: int) -> list[int]:
    polynomial = [1]
    for x in xs:
        polynomial = _multiply(polynomial, [-x % prime, 1], prime)
    return polynomial


def _interpolate(points: list[tuple[int, int]], prime: int) -> list[int]:
    """The polynomial of degree below len(points) through all points (Newton's divided differences)."""
    xs = [x for x, _ in points]
    table = [value for _, value in points]
    for order in range(1, len(points)):
        for i in reversed(range(order, len(points))):
            table[i] = (table[i] - table[i - 1]) * pow(xs[i] - xs[i - order], -1, prime) % prime
    polynomial: list[int] = []
    for x, coefficient in zip(reversed(xs), reversed(table), strict=True):
        polynomial = _subtract(_multiply(polynomial, [-x % prime, 1], prime), [-coefficient % prime], prime)
    return polynomial
