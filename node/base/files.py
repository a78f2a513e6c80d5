"""Files that are whole and durable, or not there; directories that belong to one process."""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from fedgrove.common.errors import InvalidInput, RunFailed


class AlreadyInUse(RunFailed):
    """Another process works in the directory."""


MARK = "budgets.json"
"""How the names of files end that a client leaves next to its data (``node.roles.data_marks``)."""


def cache_folder() -> Path:
    """The user's folder for what can be fetched or computed again: ``$XDG_CACHE_HOME/fedgrove``, ``~/.cache/fedgrove``.

    Raises
    ------
    InvalidInput
        There is no home, as for a container's user without an entry in the password database.
    """
    given = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(given) if given else Path.home() / ".cache") / "fedgrove"
    except RuntimeError:
        raise InvalidInput("this user has no home folder: set XDG_CACHE_HOME to a folder to keep data in") from None


def write_atomically(path: Path, data: bytes | Iterable[bytes], mode: int = 0o644) -> None:
    """Write a file that readers see old or new, never in part, and that survives a power failure when this returns.

    ``data`` may come in chunks, so that a large file need not be in memory as a whole.
    """
    temporary = path.with_name(path.name + ".tmp")
    _discard(temporary)  # what a killed process left may have another mode, or be a link
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines((data,) if isinstance(data, bytes) else data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        _discard(temporary)  # on a full disk it would take the room that is left
        raise
    sync_directory(path.parent)


def open_log(path: Path) -> BinaryIO:
    """Open a log to append to; made readable by its owner only: it says who takes part in what, and when."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")


def _discard(path: Path) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def sync_directory(directory: Path) -> None:
    """Make renames and removals in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Own a directory while the block runs; made when missing (mode 0700). The lock ends with the process.

    Raises
    ------
    AlreadyInUse
        Another process owns it.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (directory / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyInUse(f"another process is using {directory}: stop it, or give another directory") from None
        yield
