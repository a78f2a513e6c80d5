"""A client: its points, their seeding, and the counts that it shows to nobody (algorithms 1 and 4).

With ``iterations`` the client goes on to cluster its points fully, from the seeding, and sends means instead of data
points (appendix M.3). As the iterations draw nothing, they are a function of points and seeding, and what holds for the
seeding holds for them: forgetting stays exact, at the price of a few of them at each request. The seed retrains the
whole client there.
"""

import numpy as np

from fedgrove.common.errors import InvalidInput
from fedgrove.node.methods.kmeans.clustering import nearest, refine
from fedgrove.node.methods.kmeans.counts import BinCounts, distinct
from fedgrove.node.methods.kmeans.grid import BinGrid
from fedgrove.node.methods.kmeans.seeding import REMOVED, Seeding, forget, resume, seed


class KMeansClient:
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
    iterations : int
        Lloyd's, at most, after the seeding; 0 as in algorithm 1.
    centroids : int array, optional
        Of a client that goes on: its ``seeding.centroids``. ``points`` are its ``points`` then, NaN where it forgot.

    Attributes
    ----------
    seeding : Seeding
        The centroids drawn, in order.

    Raises
    ------
    InvalidInput
        A coordinate is outside the grid.
    """

    def __init__(
        self,
        points: np.ndarray,
        k: int,
        grid: BinGrid,
        rng: np.random.Generator,
        *,
        iterations: int = 0,
        centroids: np.ndarray | None = None,
    ) -> None:
        if points.ndim != 2 or points.shape[1] != grid.dimensions:
            raise ValueError(f"points of shape {points.shape} do not fit a grid with {grid.dimensions} dimensions")
        self._points = np.array(points, np.float64)
        self._k = k
        self._grid = grid
        self._rng = rng
        self._iterations = iterations
        if centroids is None:
            grid.quantise(self._points)
            self.seeding: Seeding = seed(self._points, k, rng)
        else:
            self.seeding = resume(self._points, centroids, np.logical_not(np.isnan(self._points).any(axis=1)))
        self._cluster()

    def __len__(self) -> int:
        """Number of points that are left."""
        return len(self.rows)

    @property
    def points(self) -> np.ndarray:
        """As they were given, rows that were removed overwritten with NaN: float64 array of shape (n, d)."""
        return self._points.copy()

    @property
    def rows(self) -> np.ndarray:
        """Rows of the points that are left, ascending."""
        return np.flatnonzero(self.seeding.labels != REMOVED)

    @property
    def labels(self) -> np.ndarray:
        """Local cluster of each of ``rows``."""
        return self._labels[self.rows]

    @property
    def centroids(self) -> np.ndarray:
        """Representatives of the local clusters: float64 array of shape (≤ k, d)."""
        return self._centroids.copy()

    def check(self, rows: np.ndarray) -> np.ndarray:
        """The rows of a request, ascending, each once.

        Raises InvalidInput: a row does not exist or was removed before.
        """
        rows = np.array(sorted(set(np.asarray(rows, np.intp).tolist())), np.intp)
        if len(rows) and (rows[0] < 0 or rows[-1] >= len(self._points)):
            raise InvalidInput(f"points are numbered from 0 to {len(self._points) - 1}")
        if REMOVED in self.seeding.labels[rows].tolist():
            raise InvalidInput("a point was already removed")
        return rows

    def forget(self, rows: np.ndarray) -> int:
        """Remove points in one request and overwrite them; after an InvalidInput nothing is removed.

        Returns
        -------
        int
            Number of centroids given up, and drawn again where points are left; 0 if no removed point was one, so
            that only counts changed.
        """
        rows, before = self.check(rows), len(self.seeding.centroids)
        bins = self._bin_of[self._labels[rows]]
        self.seeding, kept = forget(self._points, self.seeding, rows, self._k, self._rng)
        self._points[rows] = np.nan
        if kept < before or self._iterations:
            self._cluster()
        else:
            self._labels = self.seeding.labels
            self._counts = self._counts - np.bincount(bins, minlength=len(self._bins))
        return before - kept

    def vector(self) -> BinCounts:
        """q: in each centroid's bin, the size of its cluster."""
        return BinCounts.at(self._bins, self._counts)

    def _cluster(self) -> None:
        """Clusters, their representatives and the bins of these, from the seeding."""
        self._centroids, self._labels = self._points[self.seeding.centroids], self.seeding.labels
        if self._iterations and len(self._centroids):
            rows = self.rows
            self._centroids = refine(self._points[rows], self._centroids, self._iterations)
            self._labels = np.full(len(self._points), REMOVED)
            self._labels[rows] = nearest(self._points[rows], self._centroids)
        self._bins, self._bin_of = distinct(self._grid.quantise(self._centroids))
        self._counts = np.bincount(self._bin_of[self.labels], minlength=len(self._bins))
