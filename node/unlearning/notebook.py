"""What a client keeps between rounds of federated K-means: points, seeding, and what the federation has of it.

All of it is in one file of the journal, replaced as a whole before anybody sees what follows from it.
"""

import json
import os
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as safetensors_load
from safetensors.numpy import save as safetensors_save

from node.journal import Journal, JournalDamaged
from node.kmeans.client import Client, UnknownPoint
from node.kmeans.counts import BinCounts
from node.kmeans.settings import ClusteringSettings

_NAME = "points"


@dataclass(frozen=True)
class Notebook:
    """What a client keeps between rounds.

    Attributes
    ----------
    points : float64 array of shape (n, d)
        NaN where they were removed.
    centroids : int array
        Rows, in the order chosen.
    applied : tuple of str
        Digests of the requests that were applied, hexadecimal.
    vectors : mapping of int to BinCounts
        What it had when it made its upload of a round.
    """

    points: np.ndarray
    centroids: np.ndarray
    applied: tuple[str, ...] = ()
    vectors: dict[int, BinCounts] = field(default_factory=dict)

    def left_after(self, rows: Collection[int], asked: Collection[int]) -> int:
        """How many points are left when ``rows`` are forgotten, too, after what was asked for before.

        Raises
        ------
        UnknownPoint
            One of the rows is not there, or the client has asked for it before.
        """
        left = set(np.flatnonzero(~np.isnan(self.points).any(axis=1)).tolist()) - set(asked)
        unknown = sorted(set(rows) - left)
        if unknown and 0 <= unknown[0] < len(self.points):
            raise UnknownPoint(f"point {unknown[0]} has been taken back before")
        if unknown:
            raise UnknownPoint(f"there is no point {unknown[0]}: they are numbered from 0 to {len(self.points) - 1}")
        return len(left - set(rows))

    def clusterer(self, settings: ClusteringSettings) -> Client:
        """The points with their seeding, and fresh randomness for what is drawn from now on."""
        return _clusterer(self.points, settings, self.centroids)

    def to_bytes(self) -> bytes:
        """Safetensors, with the digests in its header."""
        arrays = {"points": self.points, "centroids": np.asarray(self.centroids, np.int64)}
        for number, vector in self.vectors.items():
            arrays[f"levels-{number}"], arrays[f"counts-{number}"] = vector.levels, vector.counts
        arrays["applied"] = np.frombuffer(json.dumps(self.applied).encode(), np.uint8)
        return safetensors_save({name: np.ascontiguousarray(value) for name, value in arrays.items()})

    @classmethod
    def from_bytes(cls, data: bytes) -> "Notebook":
        """Parse what ``to_bytes`` wrote; it comes from this client's own sealed journal."""
        arrays = safetensors_load(data)
        numbers = sorted(int(name.partition("-")[2]) for name in arrays if name.startswith("levels-"))
        vectors = {n: BinCounts(arrays[f"levels-{n}"], arrays[f"counts-{n}"]) for n in numbers}
        applied = tuple(json.loads(arrays["applied"].tobytes()))
        return cls(arrays["points"], arrays["centroids"], applied, vectors)


def begin(journal: Journal, points: np.ndarray, settings: ClusteringSettings) -> Notebook:
    """Seed a client's points and put both into its journal.

    Raises
    ------
    OutsideGrid
        A point is outside the federation's grid.
    """
    clusterer = _clusterer(points, settings)
    notebook = Notebook(clusterer.points, clusterer.seeding.centroids)
    write_notebook(journal, notebook)
    return notebook


def write_notebook(journal: Journal, notebook: Notebook) -> None:
    """Replace what the journal has; durable when it returns."""
    journal.keep(_NAME, notebook.to_bytes())


def read_notebook(journal: Journal) -> Notebook | None:
    """What a client keeps between rounds; None before its first."""
    data = journal.kept(_NAME)
    if data is None:
        return None
    try:
        return Notebook.from_bytes(data)
    except (SafetensorError, ValueError, KeyError) as fault:
        raise JournalDamaged(f"the points in the journal cannot be read: {fault}") from None


def _clusterer(points: np.ndarray, settings: ClusteringSettings, centroids: np.ndarray | None = None) -> Client:
    rng = np.random.default_rng(int.from_bytes(os.urandom(32)))
    return Client(points, settings.k, settings.grid, rng, iterations=settings.iterations, centroids=centroids)
