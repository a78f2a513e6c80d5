"""Models as named float32 arrays: deterministic bytes, checked parsing, one flat vector.

A model travels as safetensors (never pickle). Names are sorted, so equal tensors give equal bytes and hence one CID.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedgrove.common.chunks import Buffer, joined
from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.tensor_views import LENGTH, parts, views

Tensors = dict[str, np.ndarray]


@dataclass(frozen=True)
class Layout:
    """Names and shapes of a model's tensors, sorted by name; the vector form concatenates them in this order."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, tensors: Mapping[str, np.ndarray]) -> "Layout":
        names = tuple(sorted(tensors))
        return cls(names, tuple(tuple(tensors[name].shape) for name in names))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of elements of each tensor."""
        return tuple(math.prod(shape) for shape in self.shapes)

    @cached_property
    def length(self) -> int:
        """Number of parameters of the whole model."""
        return sum(self.sizes)


def dump(tensors: Mapping[str, np.ndarray]) -> bytes:
    """Serialise float32 tensors as safetensors; the same tensors give the same bytes."""
    return joined(parts(tensors))


def with_metadata(data: bytes, metadata: Mapping[str, str]) -> bytes:
    """Safetensors bytes of ``dump`` with metadata in their header: the tensors stay, the same gives the same bytes."""
    size = int.from_bytes(data[:LENGTH], "little")
    header = json.loads(data[LENGTH : LENGTH + size])
    text = json.dumps({"__metadata__": dict(sorted(metadata.items())), **header}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % LENGTH)  # tensors begin at a multiple of eight bytes
    return len(text).to_bytes(LENGTH, "little") + text + memoryview(data)[LENGTH + size :]


def load(data: Buffer, layout: Layout | None = None) -> Tensors:
    """Parse safetensors bytes that came from a peer; the arrays share these bytes.

    Raises
    ------
    InvalidContent
        Not safetensors, empty, not float32, not finite, or (with ``layout``) other names or shapes than agreed.
    """
    try:
        tensors = views(data)
    except InvalidContent as fault:
        raise InvalidContent(f"the model is not a safetensors file of float32 tensors: {fault}") from None
    if not tensors:
        raise InvalidContent("the model has no tensors")
    for name, tensor in tensors.items():
        if not tensor.size:
            raise InvalidContent(f"tensor {name!r} is empty")
        if not is_finite(tensor):
            raise InvalidContent(f"tensor {name!r} holds a value that is not finite")
    found = Layout.of(tensors)
    if layout is not None and found != layout:
        raise InvalidContent(_difference(found, layout))
    return {name: tensors[name] for name in found.names}


def is_finite(values: np.ndarray) -> bool:
    """Whether no value of an array is infinite or NaN; no array of the same size is made for it."""
    return not values.size or bool(np.isfinite(values.max()) and np.isfinite(values.min()))


def flatten(tensors: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return all parameters as one float32 vector, in the order of ``Layout.of(tensors)``."""
    return np.concatenate([np.asarray(tensors[name], dtype=np.float32).ravel() for name in sorted(tensors)])


def add(vector: np.ndarray, tensors: Mapping[str, np.ndarray], sign: int = 1) -> None:
    """Add tensors, or with ``sign`` −1 subtract them, to a vector of their layout, in place."""
    start = 0
    for name in sorted(tensors):
        part = vector[start : start + tensors[name].size]
        (np.add if sign > 0 else np.subtract)(part, tensors[name].ravel(), out=part)
        start += part.size


def largest(tensors: Mapping[str, np.ndarray]) -> float:
    """The largest absolute value in any tensor; NaN where there is one."""
    return float(np.max([np.max([tensor.max(), -tensor.min()]) for tensor in tensors.values()]))


def unflatten(vector: np.ndarray, layout: Layout) -> Tensors:
    """Cut a vector of ``layout.length`` float32 values back into named tensors, which share its memory."""
    if vector.shape != (layout.length,):
        raise InvalidContent(f"the vector has shape {vector.shape}, but the model has {layout.length} parameters")
    pieces: Sequence[np.ndarray] = np.split(vector, np.cumsum(layout.sizes)[:-1])
    parts = zip(layout.names, layout.shapes, pieces, strict=True)
    return {name: piece.reshape(shape).astype(np.float32, copy=False) for name, shape, piece in parts}


def prefixed(prefix: str, tensors: Mapping[str, np.ndarray]) -> Tensors:
    """The same tensors with ``prefix`` before each name, so that several sets travel together."""
    return {prefix + name: value for name, value in tensors.items()}


def without_prefix(prefix: str, tensors: Mapping[str, np.ndarray]) -> Tensors:
    """The tensors whose names begin with ``prefix``, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _difference(found: Layout, expected: Layout) -> str:
    missing = sorted(set(expected.names) - set(found.names))
    extra = sorted(set(found.names) - set(expected.names))
    if missing or extra:
        return f"the model's tensors differ from the federation's: missing {missing}, unexpected {extra}"
    for name, shape, agreed in zip(found.names, found.shapes, expected.shapes, strict=True):
        if shape != agreed:
            return f"tensor {name!r} has shape {shape}, expected {agreed}"
    return "the model's layout differs from the federation's"
