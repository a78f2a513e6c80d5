"""Send a request and read a reply by two pipes, at the same time, until a deadline; nothing of the reply is trusted."""

import os
import selectors
import time
from collections.abc import Generator, Iterator, Sequence

from fedgrove.common.chunks import Buffer
from fedgrove.node.tasks.sandbox.faults import JobFailed
from fedgrove.node.tasks.sandbox.frames import SIZES

_PIECE = 2**20  # bytes a call


class DeadlinePassed(Exception):
    """The deadline came first."""


class Ended(Exception):
    """The other end closed its pipe before the reply was whole."""


def exchange(
    parts: Sequence[Buffer], request: int, reply: int, limits: tuple[int, int], deadline: float
) -> tuple[bytearray, bytearray]:
    """Write a frame and read one; what follows it is not read.

    Parameters
    ----------
    limits
        Most bytes of the reply's header and of its body.
    deadline
        By ``time.monotonic``.

    Raises
    ------
    DeadlinePassed, Ended
    JobFailed
        The reply says that it is larger than it may be.
    """
    writer, reader = _write(parts, request), _read(reply, limits)
    next(writer)
    next(reader)
    for descriptor in (request, reply):
        os.set_blocking(descriptor, False)
    with selectors.DefaultSelector() as selector:
        selector.register(request, selectors.EVENT_WRITE, writer)
        selector.register(reply, selectors.EVENT_READ, reader)
        while True:
            for key, _ in _ready(selector, deadline):
                try:
                    next(key.data)
                except StopIteration as end:
                    selector.unregister(key.fd)
                    if key.fd == reply:
                        return end.value


def _ready(selector: selectors.BaseSelector, deadline: float) -> list[tuple[selectors.SelectorKey, int]]:
    left = deadline - time.monotonic()
    if left <= 0:
        raise DeadlinePassed
    return selector.select(left)


def _write(parts: Sequence[Buffer], descriptor: int) -> Iterator[None]:
    for part in parts:
        view = memoryview(part)
        while view:
            yield
            try:
                view = view[os.write(descriptor, view[:_PIECE]) :]
            except BrokenPipeError:
                return  # the reader is told
    yield


def _read(descriptor: int, limits: tuple[int, int]) -> Generator[None, None, tuple[bytearray, bytearray]]:
    """Read a piece at each step; the value at the end is the header and the body."""
    first = yield from _exactly(descriptor, SIZES.size)
    sizes = SIZES.unpack(first)
    for what, size, most in zip(("header", "body"), sizes, limits, strict=True):
        if size > most:
            raise JobFailed(f"the task's reply is too large: a {what} of {size} bytes, at most {most} allowed")
    header = yield from _exactly(descriptor, sizes[0])
    body = yield from _exactly(descriptor, sizes[1])
    return header, body


def _exactly(descriptor: int, size: int) -> Generator[None, None, bytearray]:
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size:
        yield
        count = os.readv(descriptor, [view[done : done + _PIECE]])
        if not count:
            raise Ended
        done += count
    return data
