"""Safetensors without copies: the parts of a file around tensors in memory, and tensors as views of a file's bytes.

The package ``safetensors`` copies every tensor in both directions: a model of 440 MB costs as much again each time.
Tests hold its bytes and verdicts against these.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fedgrove.common.chunks import Buffer
from fedgrove.common.errors import InvalidContent

LENGTH = 8
"""Bytes of the header's length, with which a safetensors file begins; tensors begin at a multiple of it."""

_FLOAT = np.dtype("<f4")
_CODE = "F32"
MAX_HEADER = 4 << 20
"""Bytes of a header: 30,000 tensors with names. Parsed, it may take thirty times as much."""
_METADATA = "__metadata__"
_TYPES = {"F64": "float64", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32", "U8": "uint8"}


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
    found, end = {}, 0
    for name, entry in sorted(header.items(), key=_start):
        shape, size = _shape(name, entry, end)
        end += size
        if first + end > len(data):
            raise InvalidContent("it ends too early")
        array = np.frombuffer(data, _FLOAT, size // _FLOAT.itemsize, first + end - size)
        try:
            found[name] = array.reshape(shape)
        except ValueError:
            raise InvalidContent(f"tensor {name!r} has too many dimensions") from None
    if first + end != len(data):
        raise InvalidContent("it has bytes that belong to no tensor")
    return found


def metadata(data: Buffer) -> dict[str, str]:
    """Texts by name that a file states in its header; InvalidContent as ``views``, and where they are no texts."""
    found = _entries(data)[0].get(_METADATA, {})
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise InvalidContent("its metadata are not texts by name")
    return found


def _header(data: Buffer) -> tuple[dict[str, Any], int]:
    """The entries by name, and where the tensors begin."""
    header, first = _entries(data)
    header.pop(_METADATA, None)
    return header, first


def _entries(data: Buffer) -> tuple[dict[str, Any], int]:
    """As ``_header``, with the metadata."""
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


def _start(item: tuple[str, Any]) -> int:
    """Where a tensor begins."""
    entry = item[1]
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not (isinstance(offsets, list) and len(offsets) == 2 and all(type(each) is int for each in offsets)):
        raise InvalidContent("a tensor has no place in it")
    return offsets[0]


def _shape(name: str, entry: dict[str, Any], start: int) -> tuple[tuple[int, ...], int]:
    """The shape and the bytes of a tensor that must begin at ``start``."""
    code, shape = entry.get("dtype"), entry.get("shape")
    if code != _CODE:
        raise InvalidContent(f"tensor {name!r} has type {_TYPES.get(str(code), str(code)[:8])}, expected float32")
    if not (isinstance(shape, list) and all(type(side) is int and side >= 0 for side in shape)):
        raise InvalidContent(f"tensor {name!r} has no shape")
    size = _FLOAT.itemsize * math.prod(shape)
    if entry["data_offsets"] != [start, start + size] or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise InvalidContent(f"tensor {name!r} does not lie where it should")
    return tuple(shape), size
