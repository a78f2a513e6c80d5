"""What a round of a clustering federation leaves: counts over bins, whose points they are, and the centres.

It is all that the next round, an auditor and a certificate need to know of the rounds before. It travels as
safetensors; equal states have equal bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as safetensors_load
from safetensors.numpy import save as safetensors_save

from node.kmeans.code import MAX_LIMIT
from node.kmeans.counts import BinCounts
from node.kmeans.grid import LEVEL
from node.kmeans.settings import ClusteringSettings
from node.tensors import InvalidModel

_TYPES = {
    "centres": np.dtype(np.float64),
    "clients": np.dtype(np.int64),
    "counts": np.dtype(np.int64),
    "levels": LEVEL,
    "rounds": np.dtype(np.int64),
    "samples": np.dtype(np.int64),
}
_MAX_INDEX = (1 << 32) - 1


@dataclass(frozen=True)
class Contribution:
    """A client's part of the counts: the round in which it was summed last, and how many points it has."""

    round: int
    samples: int


@dataclass(frozen=True)
class State:
    """The counts, and what follows from them.

    Attributes
    ----------
    counts : BinCounts
        q, the sum over all clients that contributed.
    contributions : mapping of int to Contribution
        By client, ascending. Their samples add up to the counts.
    centres : float64 array of shape (≤ K, d)
        Global centres, in lexicographic order; none while there are no counts.
    """

    counts: BinCounts
    contributions: Mapping[int, Contribution] = field(default_factory=dict)
    centres: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    @classmethod
    def empty(cls, dimensions: int) -> "State":
        """Before the first round: no points, no centres."""
        return cls(BinCounts.empty(dimensions), {}, np.empty((0, dimensions)))

    @property
    def samples(self) -> int:
        """Points that the contributions state."""
        return sum(each.samples for each in self.contributions.values())

    def to_bytes(self) -> bytes:
        """Safetensors."""
        parts = self.contributions.values()
        arrays = {
            "centres": self.centres,
            "clients": list(self.contributions),
            "counts": self.counts.counts,
            "levels": self.counts.levels,
            "rounds": [part.round for part in parts],
            "samples": [part.samples for part in parts],
        }
        return safetensors_save({name: np.ascontiguousarray(value, _TYPES[name]) for name, value in arrays.items()})

    @classmethod
    def from_bytes(cls, data: bytes, settings: ClusteringSettings) -> "State":
        """Parse what ``to_bytes`` wrote.

        Raises
        ------
        InvalidModel
            Anything else, other terms' states, and counts that do not add up to the stated samples.
        """
        try:
            arrays = safetensors_load(data)
        except (SafetensorError, KeyError, ValueError, TypeError) as fault:
            raise InvalidModel(f"the state is not a safetensors file: {type(fault).__name__}") from None
        if {name: array.dtype for name, array in arrays.items()} != _TYPES:
            raise InvalidModel("the state has other arrays than a state has")
        _check_shapes(arrays, settings)
        _check_values(arrays, settings)
        clients = arrays["clients"].tolist()
        parts = map(Contribution, arrays["rounds"].tolist(), arrays["samples"].tolist())
        state = cls(
            BinCounts(arrays["levels"], arrays["counts"]), dict(zip(clients, parts, strict=True)), arrays["centres"]
        )
        if state.counts.total != state.samples:
            raise InvalidModel(f"the state counts {state.counts.total} points, its clients state {state.samples}")
        if state.to_bytes() != data:
            raise InvalidModel("the state is not in canonical form")
        return state


def _check_shapes(arrays: Mapping[str, np.ndarray], settings: ClusteringSettings) -> None:
    bins, clients = len(arrays["counts"]), len(arrays["clients"])
    centres = min(settings.k, bins)
    expected = {
        "centres": (centres, settings.dimensions),
        "clients": (clients,),
        "counts": (bins,),
        "levels": (bins, settings.dimensions),
        "rounds": (clients,),
        "samples": (clients,),
    }
    for name, shape in expected.items():
        if arrays[name].shape != shape:
            raise InvalidModel(f"the state's {name} have shape {arrays[name].shape}, expected {shape}")


def _check_values(arrays: Mapping[str, np.ndarray], settings: ClusteringSettings) -> None:
    clients, levels, counts = arrays["clients"], arrays["levels"], arrays["counts"]
    if not np.isfinite(arrays["centres"]).all():
        raise InvalidModel("a centre of the state is not finite")
    if len(clients) and not ((np.diff(clients) > 0).all() and clients[0] > 0 and clients[-1] <= _MAX_INDEX):
        raise InvalidModel("the state's clients are not in order, each once")
    if (arrays["rounds"] < 1).any() or (arrays["samples"] < 1).any() or (arrays["samples"] > _MAX_INDEX).any():
        raise InvalidModel("a contribution of the state is out of range")
    if (counts < 1).any() or sum(counts.tolist()) > MAX_LIMIT or (np.abs(levels) > settings.grid.half).any():
        raise InvalidModel("a bin of the state is out of range")
    again = BinCounts.of(levels, counts)
    if not np.array_equal(again.levels, levels):
        raise InvalidModel("the state's bins are not in order, each once")
