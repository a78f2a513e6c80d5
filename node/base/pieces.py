"""Bytes that come in pieces, so that large content is never in memory twice."""

import io
from collections.abc import Iterable, Iterator

Buffer = bytes | bytearray | memoryview


def cut(pieces: Iterable[Buffer], size: int) -> Iterator[memoryview]:
    """Yield the same bytes in pieces of exactly ``size``, the last of what is left; nothing where there are none."""
    rest = bytearray()
    for piece in pieces:
        view = memoryview(piece)
        if rest:
            missing = size - len(rest)
            rest += view[:missing]
            view = view[missing:]
            if len(rest) == size:
                yield memoryview(rest)
                rest = bytearray()
        whole = len(view) - len(view) % size
        for start in range(0, whole, size):
            yield view[start : start + size]
        rest += view[whole:]
    if rest:
        yield memoryview(rest)


def joined(pieces: Iterable[Buffer]) -> bytes:
    """All pieces in one; ``b"".join`` would hold them all next to it."""
    whole = io.BytesIO()
    for piece in pieces:
        whole.write(piece)
    return whole.getvalue()
