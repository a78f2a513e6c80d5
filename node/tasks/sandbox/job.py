"""What the process of a job does once it is contained: read the request, call the entry point, answer."""

import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedgrove.common.chunks import Buffer
from fedgrove.common.text import one_line
from fedgrove.node.base.fault_places import place_of_fault
from fedgrove.node.base.frozen_base import BASES
from fedgrove.node.base.tensors import Tensors, load
from fedgrove.node.tasks.sandbox.frames import SIZES, pack, parse_header
from fedgrove.node.tasks.sandbox.settings import Visible

Entry = Callable[[dict[str, Any], Tensors, Path, Path | None], tuple[dict[str, Any], Tensors]]
"""A function of the product that runs a task's code: of a header, tensors, the task and its data; the same back."""


def perform(entry: str, visible: Visible, request: int, reply: int) -> None:
    """Answer one request with a result, or with what went wrong."""
    header, tensors = _receive(request)
    header[BASES] = {name: str(path) for name, path in visible.bases.items()}
    try:
        answer, result = _function(entry)(header, tensors, visible.task, visible.data)
        parts = pack({"outcome": "done", "header": answer}, result)
    except BaseException as fault:  # SystemExit of a task's code as well
        parts = pack(_describe(fault, visible.task), {})
    for part in parts:
        _send(reply, part)


def _function(entry: str) -> Entry:
    module, _, name = entry.partition(":")
    return getattr(importlib.import_module(module), name)


def _receive(request: int) -> tuple[dict[str, Any], Tensors]:
    """Read a frame of the node; its sizes and tensors are its own word."""
    header, body = SIZES.unpack(_read(request, SIZES.size))
    text = _read(request, header)
    return parse_header(text), load(_read(request, body)) if body else {}


def _read(descriptor: int, size: int) -> bytearray:
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size:
        count = os.readv(descriptor, [view[done:]])
        if not count:
            raise EOFError("the node went away")
        done += count
    return data


def _send(descriptor: int, data: Buffer) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _describe(fault: BaseException, task: Path) -> Mapping[str, Any]:
    """The fault in a few words: its kind, its message, and the line of the task's own code that it came from."""
    if isinstance(fault, MemoryError) or (isinstance(fault, RuntimeError) and "allocate memory" in str(fault)):
        return {"outcome": "memory"}
    return {
        "outcome": "raised",
        "kind": type(fault).__name__,
        "message": one_line(str(fault), 200),
        "place": place_of_fault(fault, task),
    }
