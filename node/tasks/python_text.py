"""Python files of a bundle are plain UTF-8, so that the interpreter runs the lines that people read, and no others.

The interpreter takes a comment that names another encoding at its word, ends lines where readers do not, and begins
them anew at a form feed. It is also why a file is short: it takes 700 times a file's bytes to parse it.
"""

import re

from fedgrove.node.tasks.names import InvalidBundle

MAX_PYTHON_BYTES = 256 << 10
"""Of one file: more than a person reads before an approval, and what is parsed in 200 MiB."""

# Of the ASCII control characters, a tab, a newline and a carriage return before one mean the same to everybody.
_CONTROL = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)")
_COMMENT = re.compile(r"[ \t\f\ufeff]*#")
_ENCODING = re.compile(r"coding[:=][ \t]*([-\w.]+)", re.ASCII)  # as PEP 263 has it
_LINES_OF_ENCODING = 2
_UTF_8 = ("utf-8", "utf8")


def check_python(path: str, data: bytes) -> None:
    """Refuse a Python file that runs otherwise than it is read, or that is too long.

    Raises
    ------
    InvalidBundle
    """
    if len(data) > MAX_PYTHON_BYTES:
        raise InvalidBundle(
            f"{path} has {len(data)} bytes, and a Python file at most {MAX_PYTHON_BYTES >> 10} KiB: divide it, and "
            "read data from files of their own"
        )
    try:
        text = data.decode()
    except UnicodeDecodeError as fault:
        line = data.count(b"\n", 0, fault.start) + 1
        raise InvalidBundle(f"{path}, line {line} is not UTF-8: save the file as UTF-8") from None
    control = _CONTROL.search(text)
    if control is not None:
        line = text.count("\n", 0, control.start()) + 1
        raise InvalidBundle(
            f"{path}, line {line} has the control character {ascii(control[0])[1:-1]}, which Python and people read "
            "differently: remove it"
        )
    named = foreign_encoding(text)
    if named:
        raise InvalidBundle(f"{path} says that its encoding is {named}: save it as UTF-8, without that comment")


def foreign_encoding(text: str) -> str:
    """The encoding other than UTF-8 that a comment at the beginning names; empty where there is none."""
    for line in re.split("\r\n|\r|\n", text, maxsplit=_LINES_OF_ENCODING)[:_LINES_OF_ENCODING]:
        if _COMMENT.match(line):
            for found in _ENCODING.finditer(line):
                if found[1].lower().replace("_", "-") not in _UTF_8:
                    return found[1][:40]
    return ""
