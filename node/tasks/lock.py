"""The packages that a bundle's code imports and the versions that it was packed with: the bundle's file ``task.lock``.

A version's local part (``2.13.0+cpu``) is left out: builds of one version for other hardware are the same to a task.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions, version
from typing import Any

from fedgrove.common.wire import parse_json
from fedgrove.node.tasks.imports import ImportedModule, foreign_imports
from fedgrove.node.tasks.names import InvalidBundle

LOCK_NAME = "task.lock"
FORMAT = "fedgrove-task-lock-1"
MAX_LOCK_BYTES = 1 << 16
_PACKAGE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,98}[a-z0-9])?")
_VERSION = re.compile(r"[0-9A-Za-z!._-]{1,64}")


@dataclass(frozen=True)
class PackageLock:
    """Versions by package (a distribution's normalised name), sorted by name.

    Raises
    ------
    InvalidBundle
        A name or version is odd, or they are not sorted.
    """

    packages: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        for name, found in self.packages:
            if not (_PACKAGE.fullmatch(name) and _VERSION.fullmatch(found)):
                raise InvalidBundle(
                    f"{LOCK_NAME} names a package {ascii(name)[:120]} {ascii(found)[:80]}, which is odd"
                )

    def to_bytes(self) -> bytes:
        """JSON that people read, too; the same for the same packages."""
        table = {"format": FORMAT, "packages": dict(self.packages)}
        return (json.dumps(table, indent=2, sort_keys=True) + "\n").encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "PackageLock":
        """Read what ``to_bytes`` wrote; InvalidBundle for anything else."""
        try:
            found = cls(_pairs(parse_json(data) if len(data) <= MAX_LOCK_BYTES else None))
        except (ValueError, RecursionError):
            raise InvalidBundle(
                f"{LOCK_NAME} is not what `fedgrove task pack` wrote: remove it and pack again"
            ) from None
        if found.to_bytes() != data:
            raise InvalidBundle(f"{LOCK_NAME} is not as `fedgrove task pack` wrote it: remove it and pack again")
        return found

    def differences(self) -> tuple[str, ...]:
        """A clause for each package that is not installed here in the version that it names."""
        found = ((name, locked, _installed(name)) for name, locked in self.packages)
        return tuple(
            f"{name} {here or 'is missing'} in place of {locked}" if here else f"{name} {locked} is missing"
            for name, locked, here in found
            if here != locked
        )

    def warning(self) -> str:
        """One sentence about all differences; empty where there are none."""
        found = self.differences()
        return (
            f"installed here: {', '.join(found)}; install the versions that the task was packed with" if found else ""
        )


def make_lock(files: Mapping[str, bytes]) -> PackageLock:
    """The lock of a bundle's code, out of what is installed here.

    Raises
    ------
    InvalidBundle
        A file is not Python, or imports what is not installed.
    """
    packages: dict[str, str] = {}
    for each in foreign_imports(files):
        names = _distributions(each.name)
        if not names and not each.optional:
            raise InvalidBundle(_absent(each))
        packages.update((name, _installed(name)) for name in names)
    return PackageLock(tuple(sorted(packages.items())))


def check_lock(lock: PackageLock, files: Mapping[str, bytes]) -> None:
    """Refuse a lock that leaves out a package that the code imports; what is not installed here cannot be looked up.

    Raises
    ------
    InvalidBundle
    """
    locked = dict(lock.packages)
    for each in foreign_imports(files):
        for name in _distributions(each.name):
            if name not in locked:
                raise InvalidBundle(
                    f"{each.path}, line {each.line} imports {each.name}, but {LOCK_NAME} does not name {name}: "
                    "pack with --relock"
                )


def _pairs(table: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(table, dict) or table.get("format") != FORMAT or not isinstance(table.get("packages"), dict):
        raise ValueError("another format")
    pairs = tuple(sorted(table["packages"].items()))
    if any(not isinstance(found, str) for _, found in pairs):
        raise ValueError("a version of another type")
    return pairs


def _absent(each: ImportedModule) -> str:
    top = each.name.split(".")[0]
    return (
        f"{each.path}, line {each.line} imports {top}, which no installed package provides: install it, so that its "
        "version is known, or put the module into the folder"
    )


@cache
def providers() -> Mapping[str, list[str]]:
    """The installed distributions by the modules that they bring."""
    return packages_distributions()


def _distributions(module: str) -> set[str]:
    """Normalised names of the packages that provide a module; several only where they share its namespace."""
    names = {_normal(name): name for name in providers().get(module.split(".")[0], ())}
    if len(names) > 1:
        names = {short: name for short, name in names.items() if _has(name, module)} or names
    return set(names)


def _has(package: str, module: str) -> bool:
    place = module.replace(".", "/")
    files = (str(file) for file in distribution(package).files or ())
    return any(file.startswith(f"{place}/") or file == f"{place}.py" for file in files)


def _installed(package: str) -> str:
    """The version that is installed here, without its local part; empty where it is missing."""
    try:
        return version(package).split("+")[0]
    except PackageNotFoundError:
        return ""


def _normal(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()
