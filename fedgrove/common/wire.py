"""JSON between members: written with one form for one value, read into types from files and peers that may be hostile.

What is read is bounded in depth before the parser sees it: Python's parser recurses, and libraries below web3 raise the
interpreter's recursion limit far above what the stack holds, so a few kilobytes of brackets would otherwise end the
process instead of raising an error.
"""

import json
import math
import re
from typing import Annotated, Any, ClassVar, Self, TypeVar

import msgspec

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.common.text import one_line

MAX_DEPTH = 32
_MOST_SHOWN = 200
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"?|[][{}]', re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def _hexadecimal(size: int, optional: bool = False) -> msgspec.Meta:
    digits = f"[0-9a-f]{{{2 * size}}}"
    pattern = f"(?:{digits})?" if optional else digits
    return msgspec.Meta(pattern=rf"\A{pattern}\Z", description=f"{2 * size} lower-case hexadecimal characters")


Digest = Annotated[str, _hexadecimal(32)]
OptionalDigest = Annotated[str, _hexadecimal(32, optional=True)]
"""A digest, or empty."""

Signature = Annotated[str, _hexadecimal(65)]
"""r, s and the parity of the curve's point."""

OptionalSignature = Annotated[str, _hexadecimal(65, optional=True)]
"""A signature, or empty."""

Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
"""A number of things, below what every reader of JSON keeps exact."""

_T = TypeVar("_T")


class Malformed(InvalidContent):
    """Bytes are not what they should be; the message is a clause that says where and why."""


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A JSON object with known keys of known types; a key that has its default is not written."""

    max_bytes: ClassVar[int] = 1 << 20
    """Of what ``from_bytes`` reads."""

    def replace(self, **changes: Any) -> Self:
        """A copy with other values."""
        return msgspec.structs.replace(self, **changes)

    def to_table(self) -> dict[str, Any]:
        """The object, JSON-ready."""
        return msgspec.to_builtins(self)

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return canonical_json(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what ``to_bytes`` wrote; Malformed for anything else."""
        found = decode(cls, data, cls.max_bytes)
        if found.to_bytes() != data:
            raise Malformed("it is not in canonical form")
        return found


def parse_json(data: bytes, max_lists: int | None = None) -> Any:
    """Parse UTF-8 JSON whose arrays and objects are nested at most 32 deep.

    Parameters
    ----------
    max_lists : int or None
        Arrays and objects in all: an empty one takes twenty times as many bytes in memory as in a file.

    Raises
    ------
    Malformed
        Not UTF-8, not JSON, nested deeper, a key twice, half of a surrogate pair, or a number that is not finite.
        Callers bound the size themselves.
    """
    depth = lists = 0
    for token in _TOKEN.finditer(data):
        first = data[token.start()]
        if first in b"[{":
            depth, lists = depth + 1, lists + 1
            if depth > MAX_DEPTH:
                raise Malformed(f"the JSON is nested deeper than {MAX_DEPTH} levels")
            if max_lists is not None and lists > max_lists:
                raise Malformed(f"the JSON has more than {max_lists} lists and tables")
        elif first in b"]}":
            depth -= 1
    try:
        found = json.loads(
            data.decode(), parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_without_repeats
        )
        if _SURROGATE.search(data):
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except UnicodeEncodeError:
        raise Malformed("it has half of a surrogate pair, not a character") from None
    except ValueError as fault:
        raise Malformed(str(fault)) from None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Readers differ on which of two values counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one table")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("it has a number that is too large")
    return value


def canonical_json(value: Any) -> bytes:
    """The one form of a value in JSON that digests are taken from: sorted keys, no spaces, ASCII."""
    return json.dumps(msgspec.to_builtins(value), sort_keys=True, separators=(",", ":")).encode()


def decode(kind: type[_T], data: bytes, max_bytes: int) -> _T:
    """Read JSON as a value of a type.

    Raises
    ------
    Malformed
        More bytes, no JSON, or an unknown or missing key, a value of another type or out of range.
    """
    if len(data) > max_bytes:
        raise Malformed(f"it is larger than {max_bytes} bytes")
    return convert(kind, parse_json(data))


def convert(kind: type[_T], value: Any) -> _T:
    """Read parsed JSON as a value of a type, as ``decode`` does; keys that are numbers are text in JSON.

    The message of Malformed is cut to one short line: it quotes keys, and those are the writer's.
    """
    try:
        return msgspec.convert(value, kind, str_keys=True)
    except (msgspec.ValidationError, RecursionError, InvalidContent, InvalidInput) as fault:
        raise Malformed(one_line(str(fault), _MOST_SHOWN)) from None
