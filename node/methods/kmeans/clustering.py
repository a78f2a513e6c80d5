"""Weighted K-means: K-means++ and Lloyd's iterations, all restarts at once.

On points with integer coordinates the result is the same to the bit on every machine: centres are rounded to multiples
of 2⁻ᶠ, with f so small that every number on the way is an integer below 2⁵³, which float64 adds and multiplies without
rounding, in whatever order a BLAS does it.
"""

import math
from dataclasses import dataclass

import numpy as np

MAX_ITERATIONS = 300
MAX_FRACTION_BITS = 20

_EXACT_BITS = 53
_TRIAL = 3  # iterations before the worse half of the restarts is given up


@dataclass(frozen=True)
class Clustering:
    """The best of all restarts.

    Attributes
    ----------
    centres : float64 array of shape (≤ k, d)
        In lexicographic order.
    loss : float
        Σ wᵢ·‖xᵢ − c‖² over the points and their nearest centres, which are taken for the exact means.
    """

    centres: np.ndarray
    loss: float


def kmeans(
    points: np.ndarray, weights: np.ndarray, k: int, rng: np.random.Generator, *, restarts: int = 20
) -> Clustering:
    """Cluster weighted points.

    Parameters
    ----------
    points : float64 or integer array of shape (m, d)
        With integers the result does not depend on the machine.
    weights : integer array of shape (m,)
        At least 1.
    k : int
        At most m centres are returned.
    restarts : int
        Seedings tried. Every three iterations the half with the larger losses is given up: twenty so find a loss at
        least as good as ten that run to their end (Celltype, Covtype), in half the time.

    Raises
    ------
    ValueError
        No points; or integers too large to be clustered exactly.
    """
    if not len(points):
        raise ValueError("there are no points to cluster")
    k = min(k, len(points))
    bits = _fraction_bits(points, weights) if np.issubdtype(points.dtype, np.integer) else None
    points, mass = points.astype(np.float64), weights.astype(np.float64)
    centres = points[_seeds(points, mass, k, rng, restarts)] * _scale(bits)
    while len(centres) > 1:
        centres, gains = _lloyd(points, mass, centres, bits, _TRIAL)
        centres = centres[np.sort(np.argsort(-gains, kind="stable")[: (len(centres) + 1) // 2])]
    centres, gains = _lloyd(points, mass, centres, bits, MAX_ITERATIONS)
    chosen = centres[0] / _scale(bits)
    loss = math.fsum((mass * np.einsum("ij,ij->i", points, points)).tolist()) - float(gains[0])
    return Clustering(chosen[np.lexsort(chosen.T[::-1])], max(loss, 0.0))


def refine(points: np.ndarray, centres: np.ndarray, iterations: int = MAX_ITERATIONS) -> np.ndarray:
    """Lloyd's iterations on unweighted points from given centres, a float64 array of shape (k, d); returns the like."""
    start = np.array(centres, np.float64)[None]
    refined, _ = _lloyd(points.astype(np.float64), np.ones(len(points)), start, None, iterations)
    return refined[0]


def nearest(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Position of the nearest centre of each point, the first of equals."""
    return np.argmin(squared_distances(points, centres), axis=1)


def squared_distances(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """‖x − c‖² for each point and centre: float64 array of shape (n, k)."""
    distances = np.empty((len(points), len(centres)))
    for column, centre in enumerate(centres):
        difference = points - centre
        distances[:, column] = np.einsum("ij,ij->i", difference, difference)
    return distances


def most_points(dimensions: int, reach: int) -> int:
    """How many points can be clustered exactly whose integer coordinates lie within ±``reach``; 0: not even one.

    Nothing may exceed 2⁵³. With A the largest ‖x‖², scores are at most about 3·A·2²ᶠ, sums of w·x ``reach``·Σw·2ᶠ, and
    sums of weighted distances 4·A·Σw, with f from 0.
    """
    largest = max(1, dimensions * reach**2)
    if (3 * largest).bit_length() > _EXACT_BITS - 1:
        return 0
    return min(((1 << _EXACT_BITS) - 1) // (4 * largest), ((1 << (_EXACT_BITS - 1)) - 1) // max(1, reach))


def _fraction_bits(points: np.ndarray, weights: np.ndarray) -> int:
    """The largest f for which nothing exceeds 2⁵³ (see ``most_points``)."""
    largest = max(1, int((points.astype(np.int64) ** 2).sum(axis=1).max()))
    total = int(weights.sum())
    sums = max(1, int(np.abs(points).max()) * total)
    free = _EXACT_BITS - 1
    bits = min(MAX_FRACTION_BITS, (free - (3 * largest).bit_length()) // 2, free - sums.bit_length())
    if bits < 0 or (4 * largest * total).bit_length() > _EXACT_BITS:
        raise ValueError("coordinates are too large for exact clustering: use a coarser grid")
    return bits


def _scale(bits: int | None) -> float:
    return 1.0 if bits is None else float(1 << bits)


def _seeds(points: np.ndarray, mass: np.ndarray, k: int, rng: np.random.Generator, restarts: int) -> np.ndarray:
    """K-means++ of weighted points: rows chosen, int array of shape (restarts, k)."""
    norms = np.einsum("ij,ij->i", points, points)
    rows = np.empty((restarts, k), np.intp)
    nearest_distance = np.ones((restarts, len(points)))
    for step in range(k):
        cumulative = np.cumsum(mass * nearest_distance, axis=1)
        aim = rng.random(restarts) * cumulative[:, -1]
        rows[:, step] = np.minimum((cumulative <= aim[:, None]).sum(axis=1), len(points) - 1)
        chosen = rows[:, step]
        distance = np.maximum(norms[chosen, None] - 2 * (points[chosen] @ points.T) + norms, 0.0)
        nearest_distance = distance if step == 0 else np.minimum(nearest_distance, distance)
    return rows


def _lloyd(
    points: np.ndarray, mass: np.ndarray, centres: np.ndarray, bits: int | None, iterations: int
) -> tuple[np.ndarray, np.ndarray]:
    """Move the centres of every restart until no point changes its cluster, up to a maximum of iterations.

    Returns
    -------
    float64 array of shape (restarts, k, d)
        The centres: means of the clusters found last.
    float64 array of shape (restarts,)
        Σ ‖Σ w·x‖²/Σ w over those clusters, which is Σ w·‖x‖² less the loss.
    """
    restarts, k, _ = centres.shape
    weighted = np.column_stack([points, np.ones(len(points))]) * mass[:, None]
    labels, sums = np.full((restarts, len(points)), -1), np.zeros((restarts, k, weighted.shape[1]))
    for _ in range(iterations):
        found = _assign(points, centres, _scale(bits))
        if np.array_equal(found, labels):
            break
        labels = found
        belongs = labels[:, None, :] == np.arange(k)[:, None]
        sums = (belongs.reshape(-1, len(points)).astype(np.float64) @ weighted).reshape(sums.shape)
        centres = _means(sums, centres, bits)
    return centres, _gains(sums)


def _assign(points: np.ndarray, centres: np.ndarray, scale: float) -> np.ndarray:
    """Nearest centre of each point in each restart, the first of equals: int array of shape (restarts, m).

    ‖c‖² − 2·c·x orders centres as their distances do.
    """
    restarts, k, dimensions = centres.shape
    products = (centres.reshape(-1, dimensions) * (-2 * scale)) @ points.T
    scores = products.reshape(restarts, k, -1) + np.einsum("rkd,rkd->rk", centres, centres)[:, :, None]
    best, labels = scores[:, 0].copy(), np.zeros((restarts, len(points)), np.int64)
    for centre in range(1, k):
        np.copyto(labels, centre, where=scores[:, centre] < best)
        np.minimum(best, scores[:, centre], out=best)
    return labels


def _means(sums: np.ndarray, centres: np.ndarray, bits: int | None) -> np.ndarray:
    """Means of the clusters; the centre of an empty one stays."""
    sizes = sums[:, :, -1:]
    means = sums[:, :, :-1] * _scale(bits) / np.maximum(sizes, 1)
    if bits is not None:
        means = np.rint(means)
    return np.where(sizes > 0, means, centres)


def _gains(sums: np.ndarray) -> np.ndarray:
    """Coordinate by coordinate, so that the order of additions is the same everywhere."""
    squares = np.zeros(sums.shape[:2])
    for column in range(sums.shape[2] - 1):
        squares += sums[:, :, column] ** 2
    gains = np.zeros(len(sums))
    for cluster in range(sums.shape[1]):
        gains += squares[:, cluster] / np.maximum(sums[:, cluster, -1], 1)
    return gains
