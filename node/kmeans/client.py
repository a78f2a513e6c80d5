"""A client: its points, their seeding, and the counts that it shows to nobody (seed 000, algorithms 1 and 4)."""

import numpy as np

from node.kmeans.counts import BinCounts
from node.kmeans.grid import Grid
from node.kmeans.seeding import REMOVED, Seeding, forget, seed


class UnknownPoint(ValueError):
    """A point to be removed is not there."""


class Client:
    """Points of one client and what was computed from them.

    Parameters
    ----------
    points : float array of shape (n, d)
        Copied. Points are named by their rows, which do not change.
    k : int
        K, centroids of a client; fewer if it has fewer distinct points.
    grid : Grid
    rng : numpy Generator
        Never shared between clients, and not drawn from for anything that the choice of removals could depend on.

    Raises
    ------
    OutsideGrid
        A coordinate is outside the grid.
    """

    def __init__(self, points: np.ndarray, k: int, grid: Grid, rng: np.random.Generator) -> None:
        if points.ndim != 2 or points.shape[1] != grid.dimensions:
            raise ValueError(f"points of shape {points.shape} do not fit a grid of {grid.dimensions} dimensions")
        self._points = np.array(points, np.float64)
        self._k = k
        self._grid = grid
        self._rng = rng
        grid.quantise(self._points)
        self.seeding: Seeding = seed(self._points, k, rng)

    def __len__(self) -> int:
        """Number of points that are left."""
        return int(np.count_nonzero(self.seeding.labels != REMOVED))

    @property
    def rows(self) -> np.ndarray:
        """Rows of the points that are left, ascending."""
        return np.flatnonzero(self.seeding.labels != REMOVED)

    def check(self, rows: np.ndarray) -> np.ndarray:
        """The rows of a request, ascending, each once.

        Raises
        ------
        UnknownPoint
            A row does not exist or was removed before.
        """
        rows = np.unique(np.asarray(rows, np.intp))
        if len(rows) and (rows[0] < 0 or rows[-1] >= len(self._points)):
            raise UnknownPoint(f"points are numbered from 0 to {len(self._points) - 1}")
        if (self.seeding.labels[rows] == REMOVED).any():
            raise UnknownPoint("a point was removed before")
        return rows

    def forget(self, rows: np.ndarray) -> int:
        """Remove points in one request and overwrite them; after an UnknownPoint nothing is removed.

        Returns
        -------
        int
            Number of centroids drawn again; 0 if no removed point was one, so that only counts changed.
        """
        rows = self.check(rows)
        self.seeding, kept = forget(self._points, self.seeding, rows, self._k, self._rng)
        self._points[rows] = np.nan
        return len(self.seeding.centroids) - kept

    def vector(self) -> BinCounts:
        """q: in each centroid's bin, the size of its cluster."""
        return BinCounts.of(self.centroid_levels(), self.seeding.sizes)

    def centroid_levels(self) -> np.ndarray:
        """Bins of the centroids in the order chosen, int32 array of shape (≤ k, d)."""
        return self._grid.quantise(self._points[self.seeding.centroids])
