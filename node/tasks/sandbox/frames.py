"""Frames between a node and the process of a job: sizes, a JSON header, tensors as safetensors. Never pickle.

A frame is ``!IQ`` (bytes of the header, bytes of the body), the header in UTF-8, and the body: safetensors, or nothing
where there is no tensor. Whoever reads a frame refuses its sizes before it reads on.
"""

import json
import math
import struct
from collections.abc import Mapping
from typing import Any, cast

from fedgrove.common.chunks import Buffer
from fedgrove.common.errors import InvalidContent
from fedgrove.common.text import one_line
from fedgrove.node.base.tensor_views import parts
from fedgrove.node.base.tensors import Layout, Tensors, load
from fedgrove.node.tasks.sandbox.faults import JobFailed

SIZES = struct.Struct("!IQ")
# A reply's JSON may nest this deep: far beyond metrics, far below what a parser's stack holds.
_DEPTH = 16


def pack(header: Mapping[str, Any], tensors: Tensors) -> list[Buffer]:
    """Return a frame in parts: sizes with the header, and the body, its tensors where they lie."""
    text = json.dumps(header, allow_nan=False).encode()
    body = list(parts(tensors)) if tensors else []
    return [SIZES.pack(len(text), sum(map(len, body))) + text, *body]


def body_limit(expected: Layout | None) -> int:
    """Upper bound of the bytes of safetensors with this layout, however their header is written."""
    if expected is None or not expected.names:
        return 0
    escaped = sum(6 * len(name.encode()) for name in expected.names)  # \\uXXXX for each character
    shapes = sum(24 * len(shape) for shape in expected.shapes)
    return 4 * expected.length + escaped + shapes + 160 * len(expected.names) + 1024


def parse_header(text: bytes | bytearray) -> dict[str, Any]:
    """Read a header that may be hostile: an object of finite numbers, texts, lists and objects, not deep.

    Raises
    ------
    JobFailed
        It is anything else.
    """
    try:
        header = json.loads(text, parse_constant=_not_finite, parse_float=_finite, parse_int=_whole)
        if b"\\u" in text:  # halves of characters, which nobody could write anywhere
            json.dumps(header, ensure_ascii=False).encode()
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        raise JobFailed("the task's reply has a header that is not JSON of finite numbers") from None
    if not isinstance(header, dict) or _deeper_than(cast(object, header), _DEPTH):
        raise JobFailed("the task's reply has a header that is not a flat JSON object")
    return cast(dict[str, Any], header)


def parse_tensors(body: Buffer, expected: Layout | None) -> Tensors:
    """Read tensors that may be hostile: float32, finite, of the expected names and shapes.

    Raises
    ------
    JobFailed
        They are anything else.
    """
    if expected is None or not expected.names:
        if body:
            raise JobFailed("the task returned tensors where none were expected")
        return {}
    try:
        return load(body, expected)
    except InvalidContent as fault:
        raise JobFailed(f"the task returned wrong tensors: {one_line(str(fault), 300)}") from None


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("not finite")
    return value


def _whole(text: str) -> int:
    """A whole number, unless it is larger than any float: whoever computes with it would overflow."""
    _finite(text)
    return int(text)


def _not_finite(text: str) -> float:
    raise ValueError(f"{text} is not finite")


def _deeper_than(value: object, depth: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = cast(dict[str, object], value).values() if isinstance(value, dict) else cast(list[object], value)
    return depth == 0 or any(_deeper_than(one, depth - 1) for one in inner)
