"""Which samples a member holds out: those with the smallest keyed hashes, whatever their order.

The key is the member's secret, so nobody else can tell, or choose, which they are. The same samples are held out in
every round, and none of them is ever trained on: not even when data come and go, as the largest hash that was held out
stays a boundary.
"""

import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fedgrove.common.errors import Refused
from fedgrove.node.learning.samples import Samples

MARK_BYTES = 32


@dataclass(frozen=True)
class HoldOutRule:
    """How a member splits its samples.

    Attributes
    ----------
    secret : bytes
        The member's own, 32 bytes.
    millionths : int
        Share of the samples that is held out, in parts per million.
    boundary : bytes
        The largest mark that was held out before; empty at first.
    """

    secret: bytes
    millionths: int
    boundary: bytes = b""

    def mark(self, content: bytes) -> bytes:
        """The keyed hash of one sample's content."""
        return hmac.digest(self.secret, content, "sha256")

    def to_header(self) -> dict[str, Any]:
        return {"secret": self.secret.hex(), "millionths": self.millionths, "boundary": self.boundary.hex()}

    @classmethod
    def from_header(cls, table: dict[str, Any]) -> "HoldOutRule":
        return cls(bytes.fromhex(table["secret"]), table["millionths"], bytes.fromhex(table["boundary"]))


@dataclass(frozen=True)
class HoldOutSplit:
    """Indices of the samples to train on, and of those to evaluate on, both ascending; and the boundary by now."""

    train: tuple[int, ...]
    held_out: tuple[int, ...]
    boundary: bytes


def split(marks: Sequence[bytes], rule: HoldOutRule) -> HoldOutSplit:
    """Split samples by their marks. A sample below the boundary that is not evaluated on is not trained on, either.

    Raises
    ------
    Refused
    """
    count = rule.millionths * len(marks) // 1_000_000
    chosen = sorted(range(len(marks)), key=lambda index: (marks[index], index))[:count]
    boundary = max([rule.boundary, *(marks[index] for index in chosen)])
    train = tuple(index for index, mark in enumerate(marks) if mark > boundary)
    if not train:
        raise Refused("no sample is left to train on: all are held out, or are equal to one that is")
    return HoldOutSplit(train, tuple(sorted(chosen)), boundary)


def marks_of(samples: Samples, rule: HoldOutRule) -> list[bytes]:
    """The marks of labelled images, as a task that reads the same arrays has them."""
    return [mark_of(pair, rule) for pair in zip(samples.x, samples.y, strict=True)]


def mark_of(item: Any, rule: HoldOutRule) -> bytes:
    """The mark of one item of a dataset; TypeError where it holds something that has no bytes of its own."""
    return rule.mark(b"".join(_parts(item)))


def _parts(item: Any) -> Iterable[bytes]:
    """The content of arrays, numbers and text, in tuples, lists and dictionaries, each with its kind and size."""
    if isinstance(item, dict):
        yield b"{%d" % len(item)
        for name in sorted(item, key=str):
            yield from _parts(name)
            yield from _parts(item[name])
    elif isinstance(item, tuple | list):
        yield b"[%d" % len(item)
        for each in item:
            yield from _parts(each)
    elif isinstance(item, str | bytes):
        data = item.encode() if isinstance(item, str) else item
        yield b"%s%d:" % (b"s" if isinstance(item, str) else b"b", len(data)) + data
    elif item is None or isinstance(item, bool | int | float):
        yield f"n{item!r};".encode()
    else:
        yield from _array(item)


def _array(item: Any) -> Iterable[bytes]:
    array = item.numpy() if hasattr(item, "numpy") else item
    if not (hasattr(array, "dtype") and hasattr(array, "tobytes")) or array.dtype == object:
        kind = type(item).__name__
        raise TypeError(f"{kind} has no content to choose held-out samples by: let the task hold them out")
    yield f"a{array.dtype}{array.shape}".encode() + array.tobytes()
