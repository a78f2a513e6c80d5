"""How the paper prepares its data (section 6 and appendix M.1; the authors' published program)."""

import numpy as np

_ATTEMPTS = 1_000


def by_column(points: np.ndarray) -> np.ndarray:
    """Scale each column to [0, 1]; a column of one value becomes 0."""
    spans = np.ptp(points, axis=0)
    return (points - points.min(axis=0)) / np.where(spans > 0, spans, 1.0)


def fill_clients(
    points: np.ndarray, clusters: np.ndarray, clients: int, clusters_each: int, rng: np.random.Generator
) -> tuple[np.ndarray, ...]:
    """Fill clients of n/L points one by one, each from K′ clusters, and leave the rest to the last one.

    A client draws K′ of the clusters that have points left. It takes from each a random number of points, n/(L·K′) − 1
    or more, until it has n/L. So large clusters reach more clients than small ones, and a client's shares of its
    clusters are unequal. With K′ = 1 it takes n/L at once. A split whose last client has more than K′ clusters is drawn
    again.

    Parameters
    ----------
    clusters : int array of shape (n,)
        Cluster of each point, from 0. Points of a cluster are given out in this order.

    Raises
    ------
    ValueError
        No split was found.
    """
    for _ in range(_ATTEMPTS):
        rows = _filled(clusters, clients, clusters_each, rng)
        if rows is not None:
            return tuple(points[each] for each in rows)
    raise ValueError(f"{clients} clients cannot be filled from {clusters_each} clusters each: allow more clusters")


def _filled(clusters: np.ndarray, clients: int, clusters_each: int, rng: np.random.Generator) -> list | None:
    """Rows of each client; None where the draws leave too little, or too much, for the last ones."""
    left = [np.flatnonzero(clusters == cluster) for cluster in range(int(clusters.max()) + 1)]
    size = len(clusters) // clients
    found = []
    for _ in range(clients - 1):
        taken: list[np.ndarray] = []
        missing = size
        for cluster in rng.permutation([cluster for cluster, rows in enumerate(left) if len(rows)])[:clusters_each]:
            few = int(rng.integers(max(1, size // clusters_each - 1), max(2, size)))
            count = min(size if clusters_each == 1 else few, missing, len(left[cluster]))
            taken.append(left[cluster][:count])
            left[cluster], missing = left[cluster][count:], missing - count
            if not missing:
                break
        if not taken:
            return None
        found.append(np.concatenate(taken))
    rest = [rows for rows in left if len(rows)]
    return [*found, np.concatenate(rest)] if 0 < len(rest) <= clusters_each else None
