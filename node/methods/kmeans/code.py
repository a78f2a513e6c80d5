"""SCMA, a client's half: a sparse vector of counts as a few elements of 𝔽_p (algorithm 2).

Each bin has an evaluation point x. A vector q that occupies bins j becomes

    syndromes   Sᵢ = Σ_j q_j·x_jⁱ          i < 2N + 2
    payload     T_ci = Σ_j q_j·y_jc·x_jⁱ   i < N, for each piece c of a bin

Both are linear in q, so that the sum of what clients send is what their sum would give, and masks over 𝔽_p hide
everything else. N is the number of bins that the sum may occupy. Syndromes 0 … 2N − 1 determine the sum (appendix J);
two more make a sum that is none (a mask that did not cancel, a wrong upload) an error except for a chance of about p⁻².

**Points, direct.** Where the grid has at most 2⁶⁰ bins, x is the bin's number, from 1 (0 would vanish), as in the seed.
There is no payload. Points of different bins differ.

**Points, hashed.** The seed asks for p ≥ B^d, 400 bits for Covtype and 6,000 for pictures: roots of polynomials over
fields of that size are out of reach. Here x is a keyed 60-bit hash of the bin, and the payload carries the bin itself:
T_c has the same points as S, so the system of equations that gives q_j gives q_j·y_jc. It needs (2 + C)·N elements of
61 bits, C the number of pieces, where the seed's field needs 2N elements of 60·C bits: less from C = 3 on.

**Why that is exact.** Let the occupied bins have different points. Then S and T are those of one vector with at most N
occupied bins, and decoding gives that vector. Let two occupied bins have the same point, a chance below N²/2⁶¹ for a
key drawn after the data (10⁻¹⁰ for N = 10,000). Decoding then sees one bin with the sum of both counts and the pieces
(q₁y₁ + q₂y₂)/(q₁ + q₂), and hashes them: it refuses unless this third bin exists and has that point too, a chance of
2⁻⁶⁰ more, and the federation repeats the round with another key. Even that last chance can be closed where counts are
positive: who finds that all its own bins are among those decoded (``BinCounts.contains``) knows that none of them
collided, because decoded bins have different points; if all clients find it, the result is the sum, by the argument for
different points. So the hash never decides what is decoded, only how seldom a round is repeated.
"""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fedgrove.common.errors import InvalidInput
from fedgrove.node.methods.kmeans import field as gf
from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.grid import PIECE_BITS, BinGrid

REDUNDANT = 2
"""Syndromes beyond those that a sum within the capacity needs."""

MAX_LIMIT = 1 << 40

_ELEMENTS_AT_ONCE = 1 << 17  # of a table of products, so that it stays in the processor's cache


@dataclass(frozen=True)
class Code:
    """Parameters of one sum, agreed by clients and server.

    Attributes
    ----------
    grid : Grid
    capacity : int
        N, bins that the sum may occupy: K·L for a sum over L clients with K centroids each.
    limit : int
        Points that the sum may count: the counts' absolute values add up to at most this many.
    key : bytes
        Of the hash, 16 to 64 bytes, agreed for one sum; empty for direct points.
    signed : bool
        Whether counts may be negative: the sum is a difference of two vectors.
    """

    grid: BinGrid
    capacity: int
    limit: int
    key: bytes = field(default=b"", repr=False)
    signed: bool = False

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise ValueError(f"the capacity is {self.capacity} bins; set it to at least 1")
        if not 1 <= self.limit <= MAX_LIMIT:
            raise ValueError(f"the limit is {self.limit} points; set it from 1 to {MAX_LIMIT}")
        if not self.key and self.grid.piece_count > 1:
            raise ValueError("the grid has more than 2^60 bins: their points must be hashed, set a key")
        if self.key and not 16 <= len(self.key) <= 64:
            raise ValueError(f"the key of the hash has {len(self.key)} bytes; give 16 to 64")

    @property
    def syndromes(self) -> int:
        return 2 * self.capacity + REDUNDANT

    @property
    def rows(self) -> int:
        """Rows of the payload, each of ``capacity`` elements."""
        return self.grid.piece_count if self.key else 0

    @property
    def length(self) -> int:
        """Elements of an upload."""
        return self.syndromes + self.rows * self.capacity

    @property
    def upload_bytes(self) -> int:
        return self.length * gf.ELEMENT.itemsize

    @cached_property
    def largest_point(self) -> int:
        return 1 << PIECE_BITS if self.key else self.grid.radix**self.grid.dimensions

    def points(self, pieces: np.ndarray) -> np.ndarray:
        """Evaluation points of bins given by their pieces: uint64, from 1 to ``largest_point``."""
        if not self.key:
            return pieces[:, 0] + np.uint64(1)
        digests = b"".join(
            hashlib.blake2b(row.tobytes(), key=self.key, digest_size=8).digest() for row in pieces.astype(gf.ELEMENT)
        )
        return (np.frombuffer(digests, gf.ELEMENT) & np.uint64((1 << PIECE_BITS) - 1)) + np.uint64(1)

    def encode(self, vector: BinCounts) -> np.ndarray:
        """Syndromes and payload of a vector.

        Returns
        -------
        uint64 array of shape (length,)
            Elements of 𝔽_p: the syndromes, then the payload row by row.

        Raises
        ------
        InvalidInput
            The vector alone is beyond what the sum may hold.
        """
        self.check(vector)
        encoded = np.zeros(self.length, gf.ELEMENT)
        bins = max(1, _ELEMENTS_AT_ONCE // self.syndromes)
        for start in range(0, len(vector), bins):
            part = slice(start, start + bins)
            encoded = gf.add(encoded, self._encode_part(vector.levels[part], vector.counts[part]))
        return encoded

    def check(self, vector: BinCounts) -> None:
        """Raise InvalidInput if a vector is beyond capacity or limit, or has a negative count where none may be."""
        if len(vector) > self.capacity:
            raise InvalidInput(f"{len(vector)} bins are occupied, but the terms allow {self.capacity} in a sum")
        if not self.signed and (vector.counts < 0).any():
            raise InvalidInput("a count is negative, but the terms allow counts from 1")
        if int(np.abs(vector.counts).sum()) > self.limit:
            raise InvalidInput(
                f"{np.abs(vector.counts).sum()} points are counted, but the terms allow {self.limit} in a sum"
            )

    def _encode_part(self, levels: np.ndarray, counts: np.ndarray) -> np.ndarray:
        pieces = self.grid.pieces(levels)
        terms = gf.multiply(gf.element(counts)[:, None], gf.powers(self.points(pieces), self.syndromes))
        sums = [gf.total(terms)]
        terms = terms[:, None, : self.capacity]
        for start in range(0, self.rows, step := max(1, _ELEMENTS_AT_ONCE // terms.size)):
            sums.append(gf.total(gf.multiply(terms, pieces[:, start : start + step, None])).ravel())
        return np.concatenate(sums)
