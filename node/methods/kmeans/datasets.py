"""Points to cluster: Celltype, Covtype, and Gaussian clusters as in the seed (appendix M.1)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.base.arrays import read_arrays
from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.methods.kmeans.clustering import kmeans, nearest
from fedgrove.node.methods.kmeans.grid import BinGrid

GAUSSIAN_POINTS = 30_000
GAUSSIAN_CLUSTERS = 10
_REFERENCE_RESTARTS = 50


@dataclass(frozen=True)
class Points:
    """A dataset split over clients.

    Attributes
    ----------
    name : str
    parts : tuple of float64 arrays of shape (n, d)
        Each client's points, every coordinate within ±1.
    k : int
        K, true clusters.
    split : str
        Where the parts come from.
    """

    name: str
    parts: tuple[np.ndarray, ...]
    k: int
    split: str

    @property
    def points(self) -> np.ndarray:
        """All of them, client by client."""
        return np.concatenate(self.parts)

    @property
    def step(self) -> float:
        """γ = 1/√n, the seed's choice."""
        return 1 / math.sqrt(sum(map(len, self.parts)))


def normalised(points: np.ndarray) -> np.ndarray:
    """Divide by the largest absolute value if that is above 1, as the seed does."""
    points = np.asarray(points, np.float64)
    return points / max(1.0, float(np.abs(points).max(initial=0.0)))


def split_by_cluster(
    points: np.ndarray, clusters: np.ndarray, clients: int, clusters_each: int, rng: np.random.Generator
) -> tuple[np.ndarray, ...]:
    """Deal points so that each client sees at most K′ clusters (section 6).

    Each client draws K′ clusters; a cluster's points go to the clients that drew it, in equal parts. A cluster that
    nobody drew goes to all.

    Parameters
    ----------
    clusters : int array of shape (n,)
        Cluster of each point, from 0.
    """
    count = int(clusters.max()) + 1
    drawn = np.zeros((clients, count), bool)
    for client in range(clients):
        drawn[client, rng.permutation(count)[:clusters_each]] = True
    drawn[:, ~drawn.any(axis=0)] = True
    dealt: list[list[np.ndarray]] = [[] for _ in range(clients)]
    for cluster in range(count):
        takers = np.flatnonzero(drawn[:, cluster])
        rows = rng.permutation(np.flatnonzero(clusters == cluster))
        for client, share in zip(takers, np.array_split(rows, len(takers)), strict=True):
            dealt[client].append(share)
    return tuple(points[np.concatenate(shares)] for shares in dealt)


def celltype(directory: Path) -> Points:
    """12,009 cells, 10 principal components, 4 clusters, the authors' split over 100 clients."""
    arrays = _load(directory / "celltype" / "celltype.npz", ("X", "client"))
    points, client = normalised(arrays["X"]), arrays["client"]
    parts = tuple(points[client == index] for index in range(int(client.max()) + 1))
    return Points("celltype", parts, 4, "the authors' split over 100 clients")


def covtype_points(directory: Path) -> np.ndarray:
    """15,120 patches of forest, 52 measurements: float64 array of shape (15120, 52), rows as in the file."""
    return normalised(_load(directory / "covtype" / "covtype_15120x52.npz", ("X",))["X"])


def covtype(directory: Path, clients: int = 100, clusters_each: int = 3, seed: int = 0) -> Points:
    """The points of Covtype, 7 clusters; clients draw up to K′ of the central clusters."""
    return dealt("covtype", covtype_points(directory), 7, clients, clusters_each, seed=seed)


def gaussian_mixture(deviation: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw 30,000 points in 10 dimensions from ten spherical components of 3,000 around points of the unit cube.

    Returns
    -------
    float64 array of shape (30000, 10)
    int array of shape (30000,)
        Component of each.
    """
    k = dimensions = GAUSSIAN_CLUSTERS
    centres = rng.uniform(-0.5, 0.5, (k, dimensions))
    clusters = np.repeat(np.arange(k), GAUSSIAN_POINTS // k)
    return normalised(centres[clusters] + rng.normal(0, deviation, (GAUSSIAN_POINTS, dimensions))), clusters


def gaussian(deviation: float = 0.5, clients: int = 100, clusters_each: int = 5, seed: int = 0) -> Points:
    """Points of ``gaussian_mixture``; clients draw up to K′ of its components.

    The seed says "variance 0.5" and its file is not public; the deviation is a parameter, σ.
    """
    rng = np.random.default_rng(seed)
    points, clusters = gaussian_mixture(deviation, rng)
    parts = split_by_cluster(points, clusters, clients, clusters_each, rng)
    return Points("gaussian", parts, GAUSSIAN_CLUSTERS, _split_text(clients, clusters_each, seed))


def points_from_file(path: Path, grid: BinGrid) -> np.ndarray:
    """A member's own points: the array ``points`` of a .npz or .safetensors file, never a pickle.

    Returns
    -------
    float64 array of shape (n, d)

    Raises
    ------
    DatasetError
        The file cannot be read, or its points do not fit the federation's grid.
    """
    points = points_of_file(path)
    try:
        if points.shape[1] != grid.dimensions:
            raise InvalidInput(f"points of shape {points.shape} instead of {grid.dimensions} coordinates each")
        grid.quantise(points)
    except InvalidInput as fault:
        raise DatasetError(f"{path} cannot be used: {fault}") from None
    return points


def points_of_file(path: Path) -> np.ndarray:
    """The array ``points`` of a .npz or .safetensors file: float64 array of shape (n, d), finite.

    Raises DatasetError.
    """
    found = _load(path, ("points",))["points"]
    try:
        points = np.asarray(found, np.float64)
        if points.ndim != 2 or not points.size or not np.isfinite(points).all():
            raise ValueError(f"its points have the shape {points.shape}, or some are not finite")
    except (TypeError, ValueError) as fault:
        raise DatasetError(f"{path} cannot be used: {fault}") from None
    return points


def dealt(
    name: str, points: np.ndarray, k: int, clients: int, clusters_each: int = 0, count: int = 0, seed: int = 0
) -> Points:
    """Deal points to clients, scaled into the unit cube.

    Parameters
    ----------
    clusters_each : int
        K′, how many of the central clusters a client sees at most; 0: points are split at random.
    count : int
        This many of the points, drawn by the seed; 0: all.

    Raises
    ------
    DatasetError
        There are fewer points than clients, or some client gets none.
    """
    rng = np.random.default_rng(seed)
    points = normalised(points)
    if count:
        points = points[np.sort(rng.permutation(len(points))[:count])]
    if len(points) < clients:
        raise DatasetError(f"{len(points)} points are too few for {clients} clients")
    if clusters_each:
        weights = np.ones(len(points), np.int64)
        centres = kmeans(points, weights, k, rng, restarts=_REFERENCE_RESTARTS).centres
        parts = split_by_cluster(points, nearest(points, centres), clients, clusters_each, rng)
        split = _split_text(clients, clusters_each, seed)
    else:
        parts = tuple(points[np.sort(part)] for part in np.array_split(rng.permutation(len(points)), clients))
        split = f"{clients} clients, points split at random, seed {seed}"
    if not all(map(len, parts)):
        raise DatasetError(f"some of the {clients} clients get no points: use fewer clients, or raise --clusters-each")
    return Points(name, parts, k, split)


def reference_loss(points: np.ndarray, k: int, seed: int = 0, restarts: int = _REFERENCE_RESTARTS) -> float:
    """φ_c*, the best loss of central K-means over many restarts."""
    weights = np.ones(len(points), np.int64)
    return kmeans(points, weights, k, np.random.default_rng(seed), restarts=restarts).loss


def _split_text(clients: int, clusters_each: int, seed: int) -> str:
    return f"{clients} clients draw {clusters_each} clusters each, seed {seed}"


def _load(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Arrays of a .npz or .safetensors file; nothing in it is ever unpickled."""
    try:
        arrays = read_arrays(path, names)
        return {name: arrays[name] for name in names}
    except FileNotFoundError:
        raise DatasetError(f"{path} does not exist: give the directory of the datasets") from None
    except InvalidContent as fault:
        raise DatasetError(f"{path} {fault}") from None
    except KeyError as fault:
        raise DatasetError(f"{path} lacks the array {fault}") from None
    except OSError as fault:
        raise DatasetError(f"{path} cannot be read: {fault}") from None
