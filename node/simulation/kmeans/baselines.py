"""Federated clustering to compare with: K-FED (Dennis, Li and Smith 2021), DC-K-means (Ginart et al. 2019), and the
seed's own without privacy (algorithm 5).

All send exact local centroids to the server, the first two without counts, and none hides a client's. K has the same
value at clients and server, as in the seed's experiments (appendix M.2).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedgrove.node.methods.kmeans.clustering import kmeans, nearest, refine, squared_distances
from fedgrove.node.methods.kmeans.seeding import seed
from fedgrove.node.simulation.kmeans.losses import induced_loss


@dataclass(frozen=True)
class BaselineResult:
    """Global centres, and each client's points assigned to them through their local clusters.

    Attributes
    ----------
    centres : float64 array of shape (≤ K, d)
    labels : one int array of shape (n,) a client
    """

    centres: np.ndarray
    labels: tuple[np.ndarray, ...]

    def induced_loss(self, parts: Sequence[np.ndarray]) -> float:
        """The seed's objective (eq. 2) over all clients."""
        return sum(induced_loss(part, self.centres, label) for part, label in zip(parts, self.labels, strict=True))


def k_fed(parts: Sequence[np.ndarray], k: int, rng: np.random.Generator) -> BaselineResult:
    """K-FED: local clustering after Awasthi and Sheffet, one round of assignment at the server.

    Parameters
    ----------
    parts : sequence of float arrays of shape (n, d)
        The clients' points.
    """
    local = [_awasthi_sheffet(part, k, rng) for part in parts]
    union = np.concatenate(local)
    leaders = local[rng.integers(len(local))]
    while len(leaders) < min(k, len(union)):
        farthest = squared_distances(union, leaders).min(axis=1).argmax()
        leaders = np.concatenate([leaders, union[farthest : farthest + 1]])
    followed = nearest(union, leaders)
    centres = np.array([union[followed == leader].mean(axis=0) for leader in range(len(leaders))])
    return _induced(parts, local, centres, followed)


def simplified(parts: Sequence[np.ndarray], k: int, rng: np.random.Generator) -> BaselineResult:
    """Algorithm 5: the server clusters the centroids of all clients' seedings, by the sizes of their clusters.

    What MUFC computes, except for the grid and the sums under masks.
    """
    seedings = [seed(part, k, rng) for part in parts]
    local = [part[each.centroids] for part, each in zip(parts, seedings, strict=True)]
    union = np.concatenate(local)
    centres = kmeans(union, np.concatenate([each.sizes for each in seedings]), k, rng).centres
    return _induced(parts, local, centres, nearest(union, centres))


class DCKMeans:
    """DC-K-means with a tree of height two: the clients are its leaves.

    Parameters
    ----------
    parts : sequence of float arrays of shape (n, d)
    """

    def __init__(self, parts: Sequence[np.ndarray], k: int, rng: np.random.Generator) -> None:
        self._parts, self._k, self._rng = list(parts), k, rng
        self._local = [self._leaf(part) for part in self._parts]

    def forget(self, client: int, rows: np.ndarray) -> None:
        """Remove points, named by their place among those left: the leaf is computed again, the root by ``centres``."""
        self._parts[client] = np.delete(self._parts[client], rows, axis=0)
        self._local[client] = self._leaf(self._parts[client])

    def centres(self) -> np.ndarray:
        """K-means on the union of the leaves' centroids: float64 array of shape (≤ k, d)."""
        union = np.concatenate(self._local)
        return kmeans(union, np.ones(len(union), np.int64), self._k, self._rng).centres

    def result(self) -> BaselineResult:
        """The root's centres, and where they put the points that are left."""
        centres = self.centres()
        return _induced(self._parts, self._local, centres, nearest(np.concatenate(self._local), centres))

    def _leaf(self, part: np.ndarray) -> np.ndarray:
        return kmeans(part, np.ones(len(part), np.int64), self._k, self._rng, restarts=1).centres


def _awasthi_sheffet(points: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Cluster in the space of the k first singular vectors, refine on the points that are clearly of one cluster."""
    k = min(k, len(points))
    _, _, directions = np.linalg.svd(points, full_matrices=False)
    projected = points @ directions[:k].T @ directions[:k]
    rough = kmeans(projected, np.ones(len(points), np.int64), k, rng, restarts=1).centres
    distances = np.sqrt(squared_distances(projected, rough))
    centres = rough.copy()
    for cluster in range(k):
        others = np.delete(distances, cluster, axis=1)
        clear = (3 * distances[:, cluster, None] <= others).all(axis=1)
        if clear.any():
            centres[cluster] = points[clear].mean(axis=0)
    return refine(points, centres)


def _induced(
    parts: Sequence[np.ndarray], local: Sequence[np.ndarray], centres: np.ndarray, assigned: np.ndarray
) -> BaselineResult:
    """Follow each point to its local centroid and on to the centre which that was assigned to."""
    ends = np.cumsum([len(centroids) for centroids in local])[:-1]
    labels = (
        of_local[nearest(part, centroids)]
        for part, centroids, of_local in zip(parts, local, np.split(assigned, ends), strict=True)
    )
    return BaselineResult(centres, tuple(labels))
