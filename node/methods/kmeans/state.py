"""Resulting state of a clustering round: counts over bins, the clients that they count, and the centres.

It is all that the next round, an auditor and a certificate need to know of the rounds before. It travels as
safetensors; equal states have equal bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from safetensors.numpy import save as safetensors_save

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.arrays import arrays_of
from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.grid import LEVEL
from fedgrove.node.methods.kmeans.settings import KMeansSettings

_TYPES = {
    "centres": np.dtype(np.float64),
    "clients": np.dtype(np.int64),
    "counts": np.dtype(np.int64),
    "course": np.dtype(np.int64),
    "levels": LEVEL,
}
_MAX_INDEX = (1 << 32) - 1


@dataclass(frozen=True)
class KMeansState:
    """The counts, and what follows from them.

    Attributes
    ----------
    counts : BinCounts
        q, the sum over all clients that are in it.
    clients : tuple of int
        Those clients, ascending.
    centres : float64 array of shape (≤ K, d)
        Global centres, in lexicographic order; none while there are no counts.
    round : int
        In which the counts were summed; 0 before the first.
    whole : int
        The last round whose sum could be decoded in all its groups; ``round`` if that was one.
    groups : int
        How many groups the next sum is divided into, if there are members enough.
    """

    counts: BinCounts
    clients: tuple[int, ...] = ()
    centres: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    round: int = 0
    whole: int = 0
    groups: int = 1

    @classmethod
    def empty(cls, dimensions: int) -> "KMeansState":
        """Before the first round: no points, no centres."""
        return cls(BinCounts.empty(dimensions), (), np.empty((0, dimensions)))

    def to_bytes(self) -> bytes:
        """Safetensors."""
        arrays = {
            "centres": self.centres,
            "clients": list(self.clients),
            "counts": self.counts.counts,
            "course": [self.round, self.whole, self.groups],
            "levels": self.counts.levels,
        }
        return safetensors_save({name: np.ascontiguousarray(value, _TYPES[name]) for name, value in arrays.items()})

    @classmethod
    def from_bytes(cls, data: bytes, settings: KMeansSettings) -> "KMeansState":
        """Parse what ``to_bytes`` wrote; raises InvalidContent: anything else, and other terms' states."""
        try:
            arrays = arrays_of(data)
        except InvalidContent as fault:
            raise InvalidContent(f"the state {fault}") from None
        if {name: array.dtype for name, array in arrays.items()} != _TYPES:
            raise InvalidContent("the state has missing or unexpected arrays")
        _check_shapes(arrays, settings)
        _check_values(arrays, settings)
        counts = BinCounts(arrays["levels"], arrays["counts"])
        state = cls(counts, tuple(arrays["clients"].tolist()), arrays["centres"], *arrays["course"].tolist())
        if state.to_bytes() != data:
            raise InvalidContent("the state is not in canonical form")
        return state


def _check_shapes(arrays: Mapping[str, np.ndarray], settings: KMeansSettings) -> None:
    bins, clients = arrays["counts"].size, arrays["clients"].size
    centres = min(settings.k, bins)
    expected = {
        "centres": (centres, settings.dimensions),
        "clients": (clients,),
        "counts": (bins,),
        "course": (3,),
        "levels": (bins, settings.dimensions),
    }
    for name, shape in expected.items():
        if arrays[name].shape != shape:
            raise InvalidContent(f"the state's {name} have shape {arrays[name].shape}, expected {shape}")


def _check_values(arrays: Mapping[str, np.ndarray], settings: KMeansSettings) -> None:
    clients, levels, counts = arrays["clients"], arrays["levels"], arrays["counts"]
    number, whole, groups = arrays["course"].tolist()
    if not np.isfinite(arrays["centres"]).all():
        raise InvalidContent("a centre of the state is not finite")
    if not ((clients > 0) & (clients <= _MAX_INDEX)).all() or not (np.diff(clients) > 0).all():
        raise InvalidContent("the state's clients are not in order, each once")
    if not (0 <= whole <= number <= _MAX_INDEX and 1 <= groups <= _MAX_INDEX) or bool(len(clients)) != bool(number):
        raise InvalidContent("the state's round is out of range")
    half = settings.grid.half
    if (counts < 1).any() or sum(counts.tolist()) > settings.most_points:
        raise InvalidContent("a count of the state is out of range")
    if ((levels < -half) | (levels > half)).any():
        raise InvalidContent("a bin of the state is out of range")
    again = BinCounts.of(levels, counts)
    if not np.array_equal(again.levels, levels):
        raise InvalidContent("the state's bins are not in order, each once")
