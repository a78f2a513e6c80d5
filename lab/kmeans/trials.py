"""One federated clustering for the figures of losses: how its data are prepared, and its losses."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.methods.kmeans.clustering import kmeans, nearest, refine
from fedgrove.node.methods.kmeans.datasets import (
    Points,
    celltype,
    covtype_points,
    gaussian_mixture,
    reference_loss,
    split_by_cluster,
)
from fedgrove.node.methods.kmeans.grid import BinGrid
from fedgrove.node.simulation.kmeans.baselines import DCKMeans, k_fed
from fedgrove.node.simulation.kmeans.federation import Federation, SimulationSettings
from fedgrove.node.simulation.kmeans.losses import nearest_loss

CLIENTS = 100
CLUSTERS = {"celltype": 4, "covtype": 7, "gaussian": 10}
PAPER_DEVIATION = math.sqrt(0.5)

MUFC, UNIFORM, FULL = "MUFC", "MUFC, points uniform in bins", "MUFC, full clustering at clients"
K_FED, DC_KM, CENTRAL = "K-FED", "DC-KM", "central K-means, 10 restarts"
DIFFERENCES, ON_LEDGER = "MUFC, differences", "MUFC, on a ledger"

_ATTEMPTS = 1_000  # to fill the clients
_PAPER_RESTARTS = 10
_FULL_ITERATIONS = 300
_REFERENCE_RESTARTS = 50


@dataclass(frozen=True)
class Trial:
    """What is clustered, and how.

    Attributes
    ----------
    dataset : str
        celltype, covtype or gaussian.
    split : str
        ``filled``: as the paper's program does; ``drawn``: ``split_by_cluster``; both by central K-means' clusters.
        ``components``: ``drawn``, but by the components that Gaussian points were drawn from. ``authors``: Celltype's.
    clusters_each : int
        K′; 0 for the authors' split. With K′ = K every client gets an equal part of each cluster.
    columns : bool
        Whether each column is scaled to [0, 1]; otherwise all are divided by the largest value. Covtype only.
    deviation : float
        σ of Gaussian clusters; 0 for others.
    coarseness : float
        γ·√n.
    restarts : int
        Seedings that the server tries.
    removals : int
        Requests, each for one point of a random client.
    seed : int
        Of split, algorithms and requests. The Gaussian points themselves are always the same.
    """

    dataset: str
    split: str
    clusters_each: int
    columns: bool = False
    deviation: float = 0.0
    coarseness: float = 1.0
    restarts: int = 20
    removals: int = 0
    seed: int = 0

    @property
    def data(self) -> "Trial":
        """The trial without anything that the central clustering does not depend on."""
        return Trial(self.dataset, "", 0, self.columns, self.deviation)


@dataclass(frozen=True)
class Central:
    """Points before anybody deals them, and central K-means on them.

    Attributes
    ----------
    points : float64 array of shape (n, d)
    components : int array of shape (n,)
        Those that Gaussian points were drawn from; 0 for others.
    centres : float64 array of shape (K, d)
    loss : float
        φ_c*, the best of 50 restarts.
    """

    points: np.ndarray
    components: np.ndarray
    centres: np.ndarray
    loss: float


@lru_cache(maxsize=4)
def central(data: Trial, directory: Path) -> Central:
    """Load and cluster a trial's ``data``.

    Raises
    ------
    DatasetError
        There is no such dataset, or its file cannot be used.
    """
    components = None
    match data.dataset:
        case "gaussian":
            points, components = gaussian_mixture(data.deviation, np.random.default_rng(0))
        case "celltype":
            points = celltype(directory).points
        case "covtype":
            points = covtype_points(directory)
        case _:
            raise DatasetError(f"unknown dataset {data.dataset!r}: choose {', '.join(CLUSTERS)}")
    points = by_column(points) if data.columns else points
    ones, k = np.ones(len(points), np.int64), CLUSTERS[data.dataset]
    found = kmeans(points, ones, k, np.random.default_rng(0), restarts=_REFERENCE_RESTARTS)
    return Central(points, ones * 0 if components is None else components, found.centres, found.loss)


def dealt(trial: Trial, directory: Path) -> Points:
    """The clients' points."""
    k, rng = CLUSTERS[trial.dataset], np.random.default_rng(trial.seed)
    if trial.split == "authors":
        return celltype(directory)
    data = central(trial.data, directory)
    clusters = data.components if trial.split == "components" else nearest(data.points, data.centres)
    fill = trial.split == "filled" and trial.clusters_each < k
    split = fill_clients if fill else split_by_cluster
    return Points(trial.dataset, split(data.points, clusters, CLIENTS, trial.clusters_each, rng), k, trial.split)


def loss_ratios(trial: Trial, methods: Sequence[str], directory: Path) -> dict[str, list[float]]:
    """Induced loss of each method, divided by the loss of central K-means; one number in each list."""
    points, best = dealt(trial, directory), central(trial.data, directory).loss

    def rng() -> np.random.Generator:
        return np.random.default_rng(trial.seed)

    runs: dict[str, Callable[[], float]] = {
        MUFC: lambda: _federation(points, trial).induced_loss(),
        UNIFORM: lambda: _federation(points, trial, uniform=True).induced_loss(),
        FULL: lambda: _federation(points, trial, iterations=_FULL_ITERATIONS).induced_loss(),
        K_FED: lambda: k_fed(points.parts, points.k, rng()).induced_loss(points.parts),
        DC_KM: lambda: DCKMeans(points.parts, points.k, rng()).result().induced_loss(points.parts),
        CENTRAL: lambda: reference_loss(points.points, points.k, trial.seed, _PAPER_RESTARTS),
    }
    return {method: [runs[method]() / best] for method in methods}


def removal_courses(trial: Trial, directory: Path) -> dict[str, list[float]]:
    """Loss ratios of DIFFERENCES, ON_LEDGER and DC_KM before the first request and after each.

    Central K-means goes on from its centres by Lloyd's iterations after each request; ``anew`` has its loss on the
    points left at the end from 50 fresh restarts, divided by the one that was used.
    """
    points = dealt(trial, directory)
    running, ledger = _federation(points, trial), _federation(points, trial)
    rival = DCKMeans(points.parts, points.k, np.random.default_rng(trial.seed))
    parts, centres = list(points.parts), central(trial.data, directory).centres
    courses: dict[str, list[float]] = {DIFFERENCES: [], ON_LEDGER: [], DC_KM: []}
    requests, best = np.random.default_rng([trial.seed, 1]), 0.0
    for number in range(trial.removals + 1):
        if number:
            client, row = _request(running, requests)
            place = np.searchsorted(running.clients[client].rows, row)
            running.forget({client: row})
            ledger.renew({client: row})
            rival.forget(client, place)
            parts[client] = np.delete(parts[client], place, axis=0)
        left = np.concatenate(parts)
        centres = refine(left, centres)
        best = nearest_loss(left, centres)
        courses[DIFFERENCES].append(running.induced_loss() / best)
        courses[ON_LEDGER].append(ledger.induced_loss() / best)
        courses[DC_KM].append(rival.result().induced_loss(parts) / best)
    anew = reference_loss(np.concatenate(parts), points.k)
    return {**courses, "anew": [anew / best]}


def _request(running: Federation, rng: np.random.Generator) -> tuple[int, np.ndarray]:
    """A random client that can spare a point, and the row of a random point of it."""
    client = int(rng.choice([index for index, each in running.clients.items() if len(each) > 1]))
    return client, rng.choice(running.clients[client].rows, 1)


def _federation(points: Points, trial: Trial, *, iterations: int = 0, uniform: bool = False) -> Federation:
    """Trained, with the trial's grid."""
    grid = BinGrid.covering(points.parts[0].shape[1], trial.coarseness * points.step)
    settings = SimulationSettings(points.k, grid, trial.restarts, uniform, iterations)
    federation = Federation(points.parts, settings, np.random.default_rng(trial.seed))
    federation.train()
    return federation


def by_column(points: np.ndarray) -> np.ndarray:
    """Scale each column to [0, 1]; a column of one value becomes 0."""
    spans = np.ptp(points, axis=0)
    return (points - points.min(axis=0)) / np.where(spans > 0, spans, 1.0)


def fill_clients(
    points: np.ndarray, clusters: np.ndarray, clients: int, clusters_each: int, rng: np.random.Generator
) -> tuple[np.ndarray, ...]:
    """Fill clients of n/L points one by one, each from K′ clusters, and leave the rest to the last one.

    So the paper prepares its data (section 6 and appendix M.1; the authors' published program).

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
