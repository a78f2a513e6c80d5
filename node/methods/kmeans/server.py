"""The server: from counts over bins to global centres (algorithm 1, lines 6 and 7).

Each occupied bin stands for as many points as it counts. They lie at its centre, with their number as weight, or
uniformly in the bin (appendix H). The centre is the default: the losses are equal (measured on Celltype and Covtype),
it is many times faster, and the centres are a function of the counts and the generator alone. Both are exact to the
bit on every machine, so an auditor can compute them again.
"""

from dataclasses import dataclass

import numpy as np

from fedgrove.node.methods.kmeans.clustering import kmeans, nearest
from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.grid import BinGrid

_SUBDIVISION = 256  # places within a bin, in each dimension, where a uniform point can lie


@dataclass(frozen=True)
class GlobalCentres:
    """Global centres.

    Attributes
    ----------
    centres : float64 array of shape (≤ K, d)
        In the coordinates of the data, in lexicographic order.
    """

    centres: np.ndarray

    def predict(self, points: np.ndarray) -> np.ndarray:
        """The nearest centre of each point."""
        return nearest(points, self.centres)


def cluster(
    counts: BinCounts,
    grid: BinGrid,
    k: int,
    rng: np.random.Generator,
    *,
    restarts: int = 20,
    uniform: bool = False,
) -> GlobalCentres:
    """Full K-means++ on the points that the counts represent.

    Parameters
    ----------
    k : int
        K, global clusters.
    uniform : bool
        Place points uniformly in their bins instead of at the centres.
    """
    if not len(counts):
        return GlobalCentres(np.empty((0, grid.dimensions)))
    if not uniform:
        clusters = kmeans(counts.levels, counts.counts, k, rng, restarts=restarts)
        return GlobalCentres(clusters.centres * grid.step)
    places = np.repeat(counts.levels.astype(np.int64) * _SUBDIVISION, counts.counts, axis=0)
    places += rng.integers(-_SUBDIVISION // 2, _SUBDIVISION // 2, places.shape)
    clusters = kmeans(places, np.ones(len(places), np.int64), k, rng, restarts=restarts)
    return GlobalCentres(clusters.centres / _SUBDIVISION * grid.step)
