"""Safetensors without copies: the parts of a file around tensors in memory, and tensors as views of a file's bytes.

The package ``safetensors`` copies every tensor in both directions: a model of 440 MB costs as much again each time.
Tests hold its bytes and verdicts against these.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from fedgrove.common.chunks import Buffer
from fedgrove.common.errors import InvalidContent
from fedgrove.common.wire import convert

LENGTH = 8
"""Bytes of the header's length, with which a safetensors file begins; tensors begin at a multiple of it."""

_FLOAT = np.dtype("<f4")
_CODE = "F32"
_MOST_SIDES = 32  # of an array that NumPy can hold
MAX_HEADER = 4 << 20
"""Bytes of a header: 30,000 tensors with names. Parsed, it may take thirty times as much."""
METADATA = "__metadata__"
_TYPES = {"F64": "float64", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32", "U8": "uint8"}


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    """A tensor as a header has it."""

    dtype: str
    shape: Annotated[tuple[Annotated[int, Meta(ge=0, lt=1 << 40)], ...], Meta(max_length=_MOST_SIDES)]
    data_offsets: tuple[int, int]


def parts(tensors: Mapping[str, np.ndarray]) -> Iterator[Buffer]:
    """Yield a safetensors file chunk by chunk: its header, then each tensor as float32, where it lies if it can be."""
    names = sorted(tensors)
    entries, end = {}, 0
    for name in names:
        start, end = end, end + _FLOAT.itemsize * tensors[name].size
        entries[name] = {"dtype": _CODE, "shape": list(tensors[name].shape), "data_offsets": [start, end]}
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % LENGTH)
    yield len(text).to_bytes(LENGTH, "little") + text
    for name in names:
        if tensors[name].size:
            yield np.ascontiguousarray(tensors[name], _FLOAT).reshape(-1).data.cast("B")


def views(data: Buffer) -> dict[str, np.ndarray]:
    """The tensors of a file that may be hostile, as arrays that share its bytes: read-only where those are.

    Raises
    ------
    InvalidContent
        It is no safetensors file, or has tensors of another type than float32.
    """
    header, first = _header(data)
    header.pop(METADATA, None)
    found, end = {}, 0
    for name, entry in sorted(convert(dict[str, Entry], header).items(), key=lambda item: item[1].data_offsets):
        if entry.dtype != _CODE:
            kind = _TYPES.get(entry.dtype, entry.dtype[:8])
            raise InvalidContent(f"tensor {name!r} has type {kind}, expected float32")
        size = _FLOAT.itemsize * math.prod(entry.shape)
        if entry.data_offsets != (end, end + size):
            raise InvalidContent(f"tensor {name!r} does not lie where it should")
        end += size
        if first + end > len(data):
            raise InvalidContent("it ends too early")
        array = np.frombuffer(data, _FLOAT, size // _FLOAT.itemsize, first + end - size)
        try:
            found[name] = array.reshape(entry.shape)
        except ValueError:
            raise InvalidContent(f"tensor {name!r} has too many dimensions") from None
    if first + end != len(data):
        raise InvalidContent("it has bytes that belong to no tensor")
    return found


def metadata(data: Buffer) -> dict[str, str]:
    """Texts by name that a file states in its header; InvalidContent as ``views``, and where they are no texts."""
    return convert(dict[str, str], _header(data)[0].get(METADATA, {}))


def _header(data: Buffer) -> tuple[dict[str, Any], int]:
    """The entries by name, with the metadata, and where the tensors begin."""
    size = int.from_bytes(data[:LENGTH], "little")
    if len(data) < LENGTH or not 2 <= size <= min(len(data) - LENGTH, MAX_HEADER) or size % LENGTH:
        raise InvalidContent("the length of its header is wrong")
    try:
        header = json.loads(bytes(data[LENGTH : LENGTH + size]).decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise InvalidContent("its header is not JSON") from None
    if not isinstance(header, dict) or data[LENGTH] != ord("{"):
        raise InvalidContent("its header is not an object")
    return header, LENGTH + size


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key occurs twice")
    return table
