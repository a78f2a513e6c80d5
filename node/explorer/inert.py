"""Foreign text and blobs made safe to look at.

What comes from chain and store may be made to deceive: markup, terminal escapes, characters that turn the reading
direction or show nothing, megabytes where a word is due. Templates escape markup; this module does the rest.
"""

import json
import math
from dataclasses import dataclass
from typing import Any

from fedgrove.common.errors import InvalidContent
from fedgrove.common.wire import parse_json
from fedgrove.ipfs.store import ContentReader, StoreError
from fedgrove.node.base.visible import is_visible

MAX_TEXT, MAX_NAME = 400, 40
MAX_HEADER_BYTES = 1 << 20
MAX_TENSORS = 1000
MAX_DOCUMENT = 20_000


def inert(text: object, limit: int = MAX_TEXT) -> str:
    """One line of characters that are seen: others as ``\\u{…}``, and cut after ``limit`` characters."""
    whole = str(text)
    shown = "".join(letter if is_visible(letter) else f"\\u{{{ord(letter):x}}}" for letter in whole[:limit])
    return shown if len(whole) <= limit else f"{shown}… ({len(whole):,} characters)"


def inert_values(value: Any) -> Any:
    """Plain values without text or numbers that a page or a reader of JSON could take for something else."""
    if isinstance(value, str):
        return inert(value)
    if isinstance(value, dict):
        return {inert(name, MAX_NAME): inert_values(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [inert_values(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def document(data: bytes) -> str:
    """A JSON document as indented lines, or what it is instead; bounded in length."""
    try:
        lines = json.dumps(parse_json(data), indent=2, ensure_ascii=True).splitlines()
    except (ValueError, RecursionError, InvalidContent):
        return f"not a JSON document: {inert(data[:MAX_TEXT].decode(errors='replace'))}"
    shown = "\n".join(lines)
    return shown if len(shown) <= MAX_DOCUMENT else f"{shown[:MAX_DOCUMENT]}\n… ({len(shown):,} characters)"


@dataclass(frozen=True)
class Tensor:
    """One line of a model's table of contents; nothing of it is checked."""

    name: str
    kind: str
    shape: str
    parameters: int


@dataclass(frozen=True)
class Contents:
    """What a model's file says that it holds; ``fault`` is the reason why it cannot be read, else empty."""

    tensors: tuple[Tensor, ...] = ()
    more: int = 0
    fault: str = ""

    @property
    def parameters(self) -> int:
        return sum(tensor.parameters for tensor in self.tensors)


def contents_of_model(store: ContentReader, digest: bytes, max_bytes: int, start: int = 0) -> Contents:
    """Read the table of contents of a safetensors file (8 bytes of length, a JSON header), and not the tensors."""
    try:
        head, skipped = b"", 0
        for chunk in store.stream(digest, max_bytes):
            begin = min(len(chunk), start - skipped)
            head, skipped = head + chunk[begin:], skipped + begin
            if len(head) >= 8 + MAX_HEADER_BYTES or len(head) >= 8 + int.from_bytes(head[:8], "little"):
                break
        length = int.from_bytes(head[:8], "little")
        if len(head) < 8 or not 2 <= length <= min(MAX_HEADER_BYTES, len(head) - 8):
            return Contents(fault="it does not begin as a safetensors file does")
        table = parse_json(head[8 : 8 + length])
        named = sorted((str(name), fields) for name, fields in table.items() if name != "__metadata__")
        tensors = tuple(_tensor(name, fields) for name, fields in named[:MAX_TENSORS])
    except StoreError as fault:
        return Contents(fault=inert(fault))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, InvalidContent):
        return Contents(fault="its header is not that of a safetensors file")
    return Contents(tensors, max(0, len(named) - MAX_TENSORS))


def _tensor(name: str, fields: dict) -> Tensor:
    shape = [int(side) for side in fields["shape"]]
    if len(shape) > 16 or any(not 0 <= side < 1 << 40 for side in shape):
        raise ValueError("no shape")
    return Tensor(inert(name, 80), inert(fields["dtype"], 12), " × ".join(map(str, shape)) or "1", math.prod(shape))
