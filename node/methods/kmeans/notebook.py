"""A client's state between rounds of federated K-means: its points, and the requests applied to them.

Both are in one file of the journal, replaced as a whole before anybody sees what follows from it.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from safetensors.numpy import save as safetensors_save

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.common.wire import Digest, canonical_json, decode
from fedgrove.node.base.arrays import arrays_of
from fedgrove.node.methods.kmeans.settings import KMeansSettings
from fedgrove.node.protocol.journal import Journal, JournalDamaged

_NAME = "points"
_TYPES = {"points": np.dtype(np.float64), "applied": np.dtype(np.uint8)}
_MAX_BYTES = 1 << 26  # of the digests


@dataclass(frozen=True)
class Notebook:
    """A client's state between rounds.

    Attributes
    ----------
    points : float64 array of shape (n, d)
        NaN where they were removed.
    applied : tuple of str
        Digests of the requests that were applied, hexadecimal.
    """

    points: np.ndarray
    applied: tuple[str, ...] = ()

    @property
    def left(self) -> np.ndarray:
        """The points that were not removed: float64 array of shape (m, d)."""
        return self.points[self._present]

    @property
    def _present(self) -> np.ndarray:
        return np.logical_not(np.isnan(self.points).any(axis=1))

    def without(self, rows: Collection[int]) -> "Notebook":
        """The notebook with some points overwritten.

        Raises InvalidInput: one of the rows is not there, or was removed before.
        """
        self.left_after(rows, ())
        points = self.points.copy()
        points[sorted(rows)] = np.nan
        return replace(self, points=points)

    def left_after(self, rows: Collection[int], asked: Collection[int]) -> int:
        """How many points are left when ``rows`` are forgotten, too, after what was asked for before.

        Raises InvalidInput: one of the rows is not there, or the client has asked for it before.
        """
        left = set(np.flatnonzero(self._present).tolist()) - set(asked)
        unknown = sorted(set(rows) - left)
        if unknown and 0 <= unknown[0] < len(self.points):
            raise InvalidInput(f"point {unknown[0]} has already been withdrawn")
        if unknown:
            raise InvalidInput(f"there is no point {unknown[0]}: points are numbered from 0 to {len(self.points) - 1}")
        return len(left - set(rows))

    def to_bytes(self) -> bytes:
        """Safetensors."""
        applied = np.frombuffer(canonical_json(self.applied), np.uint8)
        return safetensors_save({"points": np.ascontiguousarray(self.points, np.float64), "applied": applied})

    @classmethod
    def from_bytes(cls, data: bytes) -> "Notebook":
        """Parse what ``to_bytes`` wrote; it comes from this client's own sealed journal."""
        arrays = arrays_of(data)
        if {name: array.dtype for name, array in arrays.items()} != _TYPES or arrays["points"].ndim != 2:
            raise InvalidContent("it has other arrays")
        return cls(arrays["points"], decode(tuple[Digest, ...], arrays["applied"].tobytes(), _MAX_BYTES))


def begin(journal: Journal, points: np.ndarray, settings: KMeansSettings) -> Notebook:
    """Put a client's points into its journal; raises InvalidInput: a point is outside the federation's grid."""
    if points.ndim != 2 or points.shape[1] != settings.dimensions:
        raise ValueError(f"points of shape {points.shape} do not fit a grid with {settings.dimensions} dimensions")
    settings.grid.quantise(points)
    notebook = Notebook(np.array(points, np.float64))
    write_notebook(journal, notebook)
    return notebook


def write_notebook(journal: Journal, notebook: Notebook) -> None:
    """Replace what the journal has; durable when it returns."""
    journal.keep(_NAME, notebook.to_bytes())


def read_notebook(journal: Journal) -> Notebook | None:
    """The client's state between rounds; None before its first."""
    data = journal.kept(_NAME)
    if data is None:
        return None
    try:
        return Notebook.from_bytes(data)
    except InvalidContent as fault:
        raise JournalDamaged(f"the points in the journal cannot be read: {fault}") from None
