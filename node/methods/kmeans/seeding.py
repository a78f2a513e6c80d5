"""K-means++ seeding that can forget exactly (algorithm 3; Arthur and Vassilvitskii 2007).

Centroids are points of the data, in the order in which they were chosen: the first uniformly, each further one with
probability proportional to its squared distance from those before it. Points are told apart by their row, even if
their values agree.

To forget rows R, the centroids before the first one in R stay, and those from it on are drawn again among the rest.
That has the distribution of seeding without R, for every R chosen without knowledge of the draws: a step's weights
depend on the centroids before it alone, so a draw that falls outside R is a draw from the rest, and one that falls
into R is replaced by one (lemma 5.1). By induction it holds for one request after another.

Where the remaining points all coincide with centroids, seeding ends with fewer than k of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

REMOVED = -1


@dataclass(frozen=True)
class Seeding:
    """The clusters around the chosen points.

    Attributes
    ----------
    centroids : int array of shape (≤ k,)
        Rows of the points, in the order chosen.
    labels : int array of shape (n,)
        Position in ``centroids`` of each row's nearest one, the earliest of equals; REMOVED for a forgotten row.
    """

    centroids: np.ndarray
    labels: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """Points in each cluster, its centroid included: int array of the shape of ``centroids``."""
        return np.bincount(self.labels[self.labels != REMOVED], minlength=len(self.centroids))


def seed(points: np.ndarray, k: int, rng: np.random.Generator) -> Seeding:
    """Choose up to ``k`` centroids among the rows of ``points``, a float array of shape (n, d)."""
    return _extend(points, np.ones(len(points), bool), (), k, rng)


def resume(points: np.ndarray, centroids: np.ndarray, present: np.ndarray) -> Seeding:
    """The seeding that chose these centroids, without drawing anything.

    Parameters
    ----------
    centroids : int array
        Rows, in the order chosen.
    present : bool array of shape (n,)
        False for rows that were forgotten; they are never looked at.
    """
    return _extend(points, present, centroids, len(centroids), None)


def forget(
    points: np.ndarray, seeding: Seeding, rows: np.ndarray, k: int, rng: np.random.Generator
) -> tuple[Seeding, int]:
    """Forget rows and return the seeding of the rest.

    Parameters
    ----------
    points : float array of shape (n, d)
        Those of rows forgotten earlier are never looked at.
    rows : int array
        None of them forgotten before.
    k : int
        As when seeding.

    Returns
    -------
    Seeding
    int
        How many centroids stayed. If all did, labels of the remaining rows are as before.
    """
    labels = seeding.labels.copy()
    labels[rows] = REMOVED
    states = labels[seeding.centroids].tolist()
    if REMOVED not in states:
        return Seeding(seeding.centroids, labels), len(states)
    kept = seeding.centroids[: states.index(REMOVED)]
    return _extend(points, labels != REMOVED, kept, k, rng), len(kept)


def _extend(
    points: np.ndarray, present: np.ndarray, kept: Iterable[int], k: int, rng: np.random.Generator | None
) -> Seeding:
    """Continue a seeding from its first centroids."""
    centroids: list[int] = []
    labels = np.where(present, 0, REMOVED)
    nearest = np.where(present, np.inf, 0.0)
    stay = iter(kept)
    while len(centroids) < k and nearest.any():
        row = next(stay, None)
        if row is None:
            row = _draw(nearest if centroids else present.astype(float), rng)
        difference = points - points[row]
        distance = np.einsum("ij,ij->i", difference, difference)
        closer = present & (distance < nearest)
        labels[closer], nearest[closer] = len(centroids), distance[closer]
        centroids.append(int(row))
    return Seeding(np.array(centroids, np.intp), labels)


def _draw(weights: np.ndarray, rng: np.random.Generator | None) -> int:
    """A position, with probability proportional to its weight."""
    if rng is None:
        raise ValueError("the centroids to resume from are fewer than k")
    cumulative = np.cumsum(weights)
    while True:
        position = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
        if position < len(weights):  # the product rounds up to the sum itself once in 2⁵³ draws
            return position
