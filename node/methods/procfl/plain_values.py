"""Values out of JSON that somebody else wrote: each of one type and in its range, or ValueError.

Whoever reads a state takes for granted that client numbers fit into four bytes, that groups ascend, and that sizes are
sizes of sets. So that is checked where they are read.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

MAX_CLIENT = (1 << 32) - 2
"""The largest number of a client: the one above it stands for everybody (``node.methods.procfl.messages``)."""

MAX_DEPTH = 8
MAX_LISTS = 1 << 15
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"?|[][{}]', re.DOTALL)
_DIGEST = re.compile("[0-9a-f]{64}")


def bounded_json(data: bytes) -> Any:
    """Parse UTF-8 JSON with few lists and tables, nested at most eight deep.

    The parser recurses, and an empty list takes twenty times as many bytes in memory as in a file.
    """
    depth = lists = 0
    for token in _TOKEN.finditer(data):
        first = data[token.start()]
        if first in b"[{":
            depth, lists = depth + 1, lists + 1
            if depth > MAX_DEPTH or lists > MAX_LISTS:
                raise ValueError("the JSON has too many lists, or is nested too deeply")
        elif first in b"]}":
            depth -= 1
    return json.loads(data.decode())


def whole(value: Any) -> int:
    """A whole number from 0 to below 2⁵³."""
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueError
    return value


def row(values: Any) -> tuple[int, ...]:
    """Whole numbers."""
    if not isinstance(values, list):
        raise ValueError
    return tuple(map(whole, values))


def group(values: Any) -> tuple[int, ...]:
    """Clients, ascending, each once."""
    found = row(values)
    if not is_group(found):
        raise ValueError
    return found


def is_group(clients: Iterable[int]) -> bool:
    """Whether these are numbers of clients, ascending, each once."""
    last = 0
    for client in clients:
        if not last < client <= MAX_CLIENT:
            return False
        last = client
    return True


def client(key: str) -> int:
    """A client's number, as the key of a table."""
    if not key.isdecimal() or not 0 < int(key) <= MAX_CLIENT or str(int(key)) != key:
        raise ValueError
    return int(key)


def digest(value: Any) -> str:
    """32 bytes in hexadecimal, or nothing."""
    if not isinstance(value, str) or (value and not _DIGEST.fullmatch(value)):
        raise ValueError
    return value
