"""JSON between members: written with one form for one value, read from files and peers that may be hostile.

What is read is bounded in depth before the parser sees it: Python's parser recurses, and libraries below web3 raise the
interpreter's recursion limit far above what the stack holds, so a few kilobytes of brackets would otherwise end the
process instead of raising an error.
"""

import json
import re
from typing import Any

MAX_DEPTH = 32
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"?|[][{}]', re.DOTALL)


def parse_json(data: bytes) -> Any:
    """Parse UTF-8 JSON whose arrays and objects are nested at most 32 deep.

    Raises
    ------
    ValueError
        Not UTF-8, not JSON, or nested deeper. Callers bound the size themselves.
    """
    depth = 0
    for token in _TOKEN.finditer(data):
        first = data[token.start()]
        if first in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise ValueError(f"the JSON is nested deeper than {MAX_DEPTH} levels")
        elif first in b"]}":
            depth -= 1
    return json.loads(data.decode())


def canonical_json(value: Any) -> bytes:
    """The one form of a value in JSON that digests are taken from: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
