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


@dataclass(frozen=True)
class Clusters:
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
    points: np.ndarray, weights: np.ndarray, k: int, rng: np.random.Generator, *, restarts: int = 10
) -> Clusters:
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
        Seedings tried.

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
    sums, sizes = _lloyd(points, mass, centres, bits)
    gains = [_gain(sums[restart], sizes[restart]) for restart in range(restarts)]
    best = int(np.argmax(gains))
    chosen = centres[best] / _scale(bits)
    loss = math.fsum((mass * np.einsum("ij,ij->i", points, points)).tolist()) - gains[best]
    return Clusters(chosen[np.lexsort(chosen.T[::-1])], max(loss, 0.0))


def refine(points: np.ndarray, centres: np.ndarray, iterations: int = MAX_ITERATIONS) -> np.ndarray:
    """Lloyd's iterations on unweighted points from given centres, a float64 array of shape (k, d); returns the like."""
    refined = np.array(centres, np.float64)[None]
    _lloyd(points.astype(np.float64), np.ones(len(points)), refined, None, iterations)
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


def _fraction_bits(points: np.ndarray, weights: np.ndarray) -> int:
    """The largest f for which nothing exceeds 2⁵³.

    With A the largest ‖x‖² and S the largest possible |Σ w·x| in a coordinate, scores are at most about 3·A·2²ᶠ and
    scaled sums S·2ᶠ.
    """
    largest = max(1, int((points.astype(np.int64) ** 2).sum(axis=1).max()))
    reach = max(1, int(np.abs(points).max()) * int(weights.sum()))
    bits = min(MAX_FRACTION_BITS, (52 - (3 * largest).bit_length()) // 2, 52 - reach.bit_length())
    if bits < 0 or (4 * largest * int(weights.sum())).bit_length() > 53:
        raise ValueError("coordinates are too large to be clustered exactly: take a coarser grid")
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
    points: np.ndarray, mass: np.ndarray, centres: np.ndarray, bits: int | None, iterations: int = MAX_ITERATIONS
) -> tuple[np.ndarray, np.ndarray]:
    """Move the centres of every restart, in place, until no point changes its cluster; return the last ``_sums``."""
    restarts, k, _ = centres.shape
    sums, sizes = np.zeros(centres.shape), np.zeros((restarts, k))
    moving, labels = np.arange(restarts), np.full((len(points), restarts), -1)
    for _ in range(iterations):
        found = _assign(points, centres[moving], _scale(bits))
        changed = (found != labels[:, moving]).any(axis=0)
        labels[:, moving] = found
        moving = moving[changed]
        if not len(moving):
            break
        sums[moving], sizes[moving] = _sums(points, mass, labels[:, moving], k)
        centres[moving] = _means(sums[moving], sizes[moving], centres[moving], bits)
    return sums, sizes


def _assign(points: np.ndarray, centres: np.ndarray, scale: float) -> np.ndarray:
    """Nearest centre of each point in each restart: int array of shape (m, restarts).

    ‖c‖² − 2·x·c orders centres as their distances do.
    """
    restarts, k, dimensions = centres.shape
    products = points @ centres.reshape(-1, dimensions).T
    scores = np.einsum("rkd,rkd->rk", centres, centres).ravel() - (2 * scale) * products
    return scores.reshape(len(points), restarts, k).argmin(axis=2)


def _sums(points: np.ndarray, mass: np.ndarray, labels: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Σ w·x and Σ w of each cluster in each restart: shapes (restarts, k, d) and (restarts, k)."""
    belongs = (labels[:, :, None] == np.arange(k)) * mass[:, None, None]
    flat = belongs.reshape(len(points), -1)
    sums = (flat.T @ points).reshape(labels.shape[1], k, -1)
    return sums, belongs.sum(axis=0)


def _means(sums: np.ndarray, sizes: np.ndarray, centres: np.ndarray, bits: int | None) -> np.ndarray:
    """Means of the clusters; the centre of an empty one stays."""
    means = sums * _scale(bits) / np.maximum(sizes, 1)[:, :, None]
    if bits is not None:
        means = np.rint(means)
    return np.where(sizes[:, :, None] > 0, means, centres)


def _gain(sums: np.ndarray, sizes: np.ndarray) -> float:
    """Σ ‖Σ w·x‖²/Σ w over clusters, which is Σ w·‖x‖² less the loss."""
    return math.fsum(
        math.fsum(value * value for value in row) / size
        for row, size in zip(sums.tolist(), sizes.tolist(), strict=True)
        if size
    )
