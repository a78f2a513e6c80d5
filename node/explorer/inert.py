"""Foreign text and blobs made safe to look at.

What comes from chain and store may be made to deceive: markup, terminal escapes, characters that turn the reading
direction or show nothing, megabytes where a word is due. Templates escape markup; this module does the rest.
"""

import json
import math
from dataclasses import dataclass
from typing import Any

from fedgrove.common.errors import InvalidContent
from fedgrove.common.wire import convert, decode, parse_json
from fedgrove.ipfs.store import ContentReader, StoreError
from fedgrove.node.base.tensor_views import METADATA, Entry
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
    except InvalidContent:
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
        table = decode(dict[str, Any], head[8 : 8 + length], MAX_HEADER_BYTES)
        table.pop(METADATA, None)
        named = sorted(convert(dict[str, Entry], table).items())
        tensors = tuple(_tensor(name, entry) for name, entry in named[:MAX_TENSORS])
    except StoreError as fault:
        return Contents(fault=inert(fault))
    except InvalidContent:
        return Contents(fault="its header is not that of a safetensors file")
    return Contents(tensors, max(0, len(named) - MAX_TENSORS))


def _tensor(name: str, entry: Entry) -> Tensor:
    shape = " × ".join(map(str, entry.shape)) or "1"
    return Tensor(inert(name, 80), inert(entry.dtype, 12), shape, math.prod(entry.shape))
