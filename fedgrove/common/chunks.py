"""Bytes that come in chunks, so that large content is never in memory twice."""

import io
from collections.abc import Iterable, Iterator

Buffer = bytes | bytearray | memoryview


def cut(chunks: Iterable[Buffer], size: int) -> Iterator[memoryview]:
    """Yield the same bytes in chunks of exactly ``size``, the last of what is left; nothing where there are none."""
    rest = bytearray()
    for chunk in chunks:
        view = memoryview(chunk)
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


def joined(chunks: Iterable[Buffer]) -> bytes:
    """All chunks in one; ``b"".join`` would hold them all next to it."""
    whole = io.BytesIO()
    for chunk in chunks:
        whole.write(chunk)
    return whole.getvalue()
