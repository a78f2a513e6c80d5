"""The bounds of a bundle, and which paths may be in one: the same on every machine and to every reader."""

import re
from collections.abc import Iterable

from fedgrove.common.errors import InvalidInput

MAX_FILES = 256
MAX_FILE_BYTES = 8 << 20
MAX_BUNDLE_BYTES = 32 << 20
MAX_DEPTH = 8
"""Of folders, one in the other, below the bundle's own."""

_MAX_NAME = 100
_MAX_SHOWN = 120
_NAME = re.compile(rf"[A-Za-z0-9_](?:[A-Za-z0-9_.+-]{{0,{_MAX_NAME - 2}}}[A-Za-z0-9_+-])?")
_CACHE = "__pycache__"
# Python would import these in place of the source next to them, which is what people read before they approve.
_COMPILED = (".pyc", ".pyo", ".so", ".pyd", ".dll", ".dylib")


class InvalidBundle(InvalidInput):
    """The files are no bundle, or cannot become one."""


def is_left_out(name: str) -> bool:
    """Whether packing skips a file or folder: hidden ones (a leading dot, as ``.git``), and Python's caches."""
    return name.startswith(".") or name == _CACHE


def check_paths(paths: Iterable[str]) -> None:
    """Refuse paths (``/`` between names) that are too many, odd, or the same on some machine.

    Raises
    ------
    InvalidBundle
    """
    known: dict[str, str] = {}
    files: set[str] = set()
    for path in paths:
        check_path(path)
        for place in _places(path):
            other = known.setdefault(place.lower(), place)
            if other != place:
                raise InvalidBundle(f"{other} and {place} differ only in case, so some machines hold one: rename it")
        files.add(path)
        if len(files) > MAX_FILES:
            raise InvalidBundle(f"there are more than {MAX_FILES} files: keep data and environments out of the folder")
    for path in files:
        for place in _places(path)[:-1]:
            if place in files:
                raise InvalidBundle(f"{place} is both a file and a folder")
        folder = path.removesuffix("/__init__.py")
        if folder != path and f"{folder}.py" in files:
            raise InvalidBundle(f"{folder}.py and {path} are one module, and Python would take the second: rename one")


def check_path(path: str) -> None:
    """Refuse a path with an odd name, or too deep.

    Raises
    ------
    InvalidBundle
    """
    names = path.split("/")
    if len(names) > MAX_DEPTH + 1:
        raise InvalidBundle(f"{shown(path)} lies in more than {MAX_DEPTH} folders: flatten them")
    for name in names:
        check_name(name, path)


def check_name(name: str, path: str) -> None:
    """Refuse a name that a bundle may not have; ``path`` is shown."""
    if not _NAME.fullmatch(name):
        raise InvalidBundle(
            f"{shown(path)} cannot name a bundle: use up to {_MAX_NAME} of the letters A-Z and a-z, digits and "
            "_ . - +, with no dot at either end"
        )
    if name.lower() == _CACHE or name.lower().endswith(_COMPILED):
        raise InvalidBundle(
            f"{shown(path)} is compiled, so nobody can read it: keep sources only, and install the rest"
        )


def shown(name: str) -> str:
    """A foreign name, fit for a message."""
    text = name if name.isascii() and name.isprintable() else ascii(name)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _places(path: str) -> list[str]:
    """The folders on the way to a path, and the path itself."""
    names = path.split("/")
    return ["/".join(names[:count]) for count in range(1, len(names) + 1)]
