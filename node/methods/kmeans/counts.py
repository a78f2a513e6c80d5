"""Sparse vectors of counts over bins: what a client sends, what the server learns (the seed's q)."""

from dataclasses import dataclass

import numpy as np

from fedgrove.node.methods.kmeans.grid import LEVEL


@dataclass(frozen=True, eq=False)
class BinCounts:
    """The occupied bins of a grid, each once, in lexicographic order of their levels.

    Attributes
    ----------
    levels : int32 array of shape (m, d)
    counts : int64 array of shape (m,)
        Never 0; negative only in a difference.
    """

    levels: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, levels: np.ndarray, counts: np.ndarray) -> "BinCounts":
        """Add up the counts of equal bins, leave out those that vanish."""
        bins, places = distinct(levels)
        sums = np.zeros(len(bins), np.int64)
        np.add.at(sums, places, counts)
        return cls.at(bins, sums)

    @classmethod
    def at(cls, bins: np.ndarray, counts: np.ndarray) -> "BinCounts":
        """Leave out the bins whose count is 0; the others are each there once, in order."""
        if counts.all():
            return cls(bins, counts)
        occupied = counts != 0
        return cls(bins[occupied], counts[occupied])

    @classmethod
    def empty(cls, dimensions: int) -> "BinCounts":
        return cls(np.empty((0, dimensions), LEVEL), np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.counts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BinCounts):
            return NotImplemented
        return np.array_equal(self.levels, other.levels) and np.array_equal(self.counts, other.counts)

    def __add__(self, other: "BinCounts") -> "BinCounts":
        return BinCounts.of(np.concatenate([self.levels, other.levels]), np.concatenate([self.counts, other.counts]))

    def __neg__(self) -> "BinCounts":
        return BinCounts(self.levels, -self.counts)

    def __sub__(self, other: "BinCounts") -> "BinCounts":
        if self.levels is other.levels:  # of one client after and before: nothing to be sorted
            return BinCounts.at(self.levels, self.counts - other.counts)
        return self + -other

    @property
    def total(self) -> int:
        """Number of points counted."""
        return int(self.counts.sum())


def distinct(levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Different bins, in lexicographic order, and the place among them of each row.

    Parameters
    ----------
    levels : int array of shape (m, d)

    Returns
    -------
    int32 array of shape (≤ m, d)
    int array of shape (m,)
    """
    levels = np.asarray(levels, LEVEL)
    order = np.lexsort(levels.T[::-1])
    ordered = levels[order]
    first = np.ones(len(levels), bool)
    first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    places = np.empty(len(levels), np.intp)
    places[order] = np.cumsum(first) - 1
    return ordered[first], places
