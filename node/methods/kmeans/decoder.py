"""SCMA, the server's half: from the summed elements to the exact counts, or an error (algorithm 2).

The syndromes of a vector with n occupied bins are a linear recurrence of order n. Its shortest one (Berlekamp–Massey)
is Π(z − x_j), whose roots are the points. With Λ(z) = Π(1 − x_j·z), a row of sums R(z) = Σ Rᵢzⁱ is Ω(z)/Λ(z), and

    Ω(z) = R(z)·Λ(z) mod zⁿ       the weight at x_j is  zⁿ⁻¹Ω(1/z) / (Π(z − x_j))′  at z = x_j,

which solves the Vandermonde system for the counts (R = S) and for count times piece (R = T). Expanding Ω/Λ again and
comparing with what came checks every element. Roots are found by splitting xᵖ − x (Cantor and Zassenhaus 1981); FLINT
does the polynomial arithmetic, in time almost linear in N.
"""

import flint
import numpy as np

from fedgrove.common.errors import InvalidContent
from fedgrove.node.methods.kmeans import field as gf
from fedgrove.node.methods.kmeans.code import Code
from fedgrove.node.methods.kmeans.counts import BinCounts

_RING = flint.fmpz_mod_poly_ctx(gf.PRIME)


def decode(code: Code, sums: np.ndarray) -> BinCounts:
    """The vector behind the sum of all uploads, their masks gone.

    Parameters
    ----------
    code : Code
        As the clients used.
    sums : uint64 array of shape (code.length,)

    Raises
    ------
    InvalidContent
        See there. A sum of vectors beyond the capacity is an error, except for a chance of about p⁻² over the points.
    """
    if sums.shape != (code.length,) or sums.dtype != gf.ELEMENT or (sums >= gf.PRIME).any():
        raise InvalidContent(f"the sum is not {code.length} elements of the field")
    syndromes, payload = sums[: code.syndromes], sums[code.syndromes :].reshape(code.rows, code.capacity)
    if not syndromes.any():
        if payload.any():
            raise InvalidContent("all counts are 0, but there are occupied bins: the masks do not cancel")
        return BinCounts.empty(code.grid.dimensions)
    locator = _locator(code, syndromes)
    points = _points(code, locator)
    system = _Vandermonde(locator, points)
    counted = system.solve(syndromes)
    counts = np.array([value - gf.PRIME if 2 * value > gf.PRIME else value for value in map(int, counted)])
    if code.key:
        products = [system.solve(row) for row in payload]
        pieces = np.array([[int(a / q) for a, q in zip(row, counted, strict=True)] for row in products], gf.ELEMENT).T
    else:
        pieces = (points - np.uint64(1))[:, None]
    vector = BinCounts.of(_levels(code, pieces, points), counts)
    _check_counts(code, vector)
    return vector


def _locator(code: Code, syndromes: np.ndarray) -> flint.fmpz_mod_poly:
    """Π(z − x_j), the shortest recurrence of the syndromes."""
    locator = _RING.minpoly(syndromes.tolist())
    if locator.degree() <= code.capacity:
        return locator
    points_counted = int(syndromes[0])
    if min(points_counted, gf.PRIME - points_counted) > code.limit:
        raise InvalidContent("the sum is noise: the masks do not cancel, or an upload is wrong")
    raise InvalidContent(
        f"more than {code.capacity} bins are occupied (or an upload is wrong): agree on a larger capacity "
        "and repeat the round"
    )


def _points(code: Code, locator: flint.fmpz_mod_poly) -> np.ndarray:
    points = np.array([int(root) for root in locator.roots(multiplicities=False)], gf.ELEMENT)
    if len(points) != locator.degree() or not ((points > 0) & (points <= code.largest_point)).all():
        raise InvalidContent("the sum does not decode to bins: the masks do not cancel, or an upload is wrong")
    return np.sort(points)


class _Vandermonde:
    """The system Σ_j w_j·x_jⁱ = Rᵢ for the roots x_j of a locator, for one row R after another."""

    def __init__(self, locator: flint.fmpz_mod_poly, points: np.ndarray) -> None:
        self._points = points.tolist()
        self._reciprocal = locator.reverse(len(points))
        self._slopes = locator.derivative().multipoint_evaluate(self._points)

    def solve(self, row: np.ndarray) -> list[flint.fmpz_mod]:
        """The weights of all points; raises InvalidContent: none fit the whole row."""
        n, length = len(self._points), len(row)
        numerator = _RING(row[:n].tolist()).mul_low(self._reciprocal, n)
        if numerator.mul_low(self._reciprocal.inverse_series_trunc(length), length) != _RING(row.tolist()):
            raise InvalidContent("the sums contradict each other: the masks do not cancel, or an upload is wrong")
        values = numerator.reverse(n - 1).multipoint_evaluate(self._points)
        return [value / slope for value, slope in zip(values, self._slopes, strict=True)]


def _levels(code: Code, pieces: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The bins behind decoded pieces, which must be those of the points."""
    levels = code.grid.levels(pieces)
    if levels is None or not np.array_equal(code.points(pieces), points):
        raise InvalidContent(
            "a decoded bin does not exist: an upload is wrong, or two bins share a hash; repeat the round"
        )
    return levels


def _check_counts(code: Code, vector: BinCounts) -> None:
    if not code.signed and (vector.counts < 0).any():
        raise InvalidContent("a count is negative: an upload is wrong")
    if sum(map(abs, vector.counts.tolist())) > code.limit:
        raise InvalidContent(f"the sum counts more than the {code.limit} points that the terms allow")
