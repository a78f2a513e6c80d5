"""The packages that a bundle's code imports and the versions that it was packed with: the bundle's file ``task.lock``.

A version's local part (``2.13.0+cpu``) is left out: builds of one version for other hardware are the same to a task.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions, version
from typing import Annotated, ClassVar, Self

from msgspec import Meta

from fedgrove.common.wire import Malformed, Table
from fedgrove.node.tasks.imports import ImportedModule, foreign_imports
from fedgrove.node.tasks.names import InvalidBundle

LOCK_NAME = "task.lock"
_Package = Annotated[str, Meta(pattern=r"\A[a-z0-9](?:[a-z0-9-]{0,98}[a-z0-9])?\Z")]
_Version = Annotated[str, Meta(pattern=r"\A[0-9A-Za-z!._-]{1,64}\Z")]


class PackageLock(Table, frozen=True, tag_field="format", tag="fedgrove-task-lock-1"):
    """Versions by package (a distribution's normalised name)."""

    max_bytes: ClassVar[int] = 1 << 16
    packages: Annotated[dict[_Package, _Version], Meta(max_length=1000)]

    def to_bytes(self) -> bytes:
        return (json.dumps(self.to_table(), indent=2, sort_keys=True) + "\n").encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what ``to_bytes`` wrote; InvalidBundle for anything else."""
        try:
            return super().from_bytes(data)
        except Malformed as fault:
            raise InvalidBundle(
                f"{LOCK_NAME} is not as `fedgrove task pack` wrote it ({fault}): remove it and pack again"
            ) from None

    def differences(self) -> tuple[str, ...]:
        """A clause for each package that is not installed here in the version that it names."""
        found = ((name, locked, _installed(name)) for name, locked in sorted(self.packages.items()))
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
    return PackageLock(packages)


def check_lock(lock: PackageLock, files: Mapping[str, bytes]) -> None:
    """Refuse a lock that leaves out a package that the code imports; what is not installed here cannot be looked up.

    Raises
    ------
    InvalidBundle
    """
    for each in foreign_imports(files):
        for name in _distributions(each.name):
            if name not in lock.packages:
                raise InvalidBundle(
                    f"{each.path}, line {each.line} imports {each.name}, but {LOCK_NAME} does not name {name}: "
                    "pack with --relock"
                )


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
