"""TOML from files that others wrote: bounded in depth and in the length of keys before the parser sees it.

Python's parser recurses into nested arrays, and takes time with the square of a dotted key's length: forty thousand
letters with dots between them take it ten seconds, a megabyte of them hours.
"""

import codecs
import re
import tomllib
from typing import Any

from fedgrove.common.errors import InvalidContent

MAX_DEPTH = 32
"""Of nested arrays and tables, and of the parts of a dotted key."""

# A string that does not end is taken up to where TOML ends it with an error, so that no text is looked at twice.
_TOKEN = re.compile(
    r"""\#[^\n]*"""
    r"""|\"{3}(?:[^\\]|\\.)*?(?:\"{3,5}|\Z)|'{3}.*?(?:'{3,5}|\Z)"""
    r"""|"(?:[^"\\\n]|\\[^\n])*+"?|'[^'\n]*+'?"""
    r"""|[][{}.,=\n]""",
    re.DOTALL,
)


def parse_toml(data: bytes) -> dict[str, Any]:
    """Parse UTF-8 TOML, with or without a byte order mark, whose arrays, tables and keys nest at most 32 deep.

    Raises
    ------
    InvalidContent
        Not UTF-8, not TOML, nested deeper, or with a number of thousands of digits. Callers bound the size themselves.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        # TOML is UTF-8; a file of terms that only some programs can show is no text that people agree on.
        raise InvalidContent("it is in UTF-16: save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise InvalidContent(f"it is not UTF-8 at byte {fault.start}: save it as UTF-8") from None
    depth = parts = 0
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "[" | "{":
                depth, parts = depth + 1, 0
            case "]" | "}":
                depth, parts = depth - 1, 0
            case ".":
                parts += 1
            case "," | "=" | "\n":
                parts = 0
        if max(depth, parts) > MAX_DEPTH:
            raise InvalidContent(f"it is nested deeper than {MAX_DEPTH} levels")
    try:
        return tomllib.loads(text)
    except ValueError as fault:
        raise InvalidContent(str(fault)) from None
    except RecursionError:
        raise InvalidContent(f"it is nested deeper than {MAX_DEPTH} levels") from None
