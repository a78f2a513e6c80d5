"""Where an index lies between two runs of the explorer: in the user's cache, one file a history."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from node.explorer.index import Index
from node.explorer.sources import Source
from node.files import AlreadyInUse, exclusive


@contextmanager
def open_index(source: Source, directory: Path | None = None) -> Iterator[Index | None]:
    """The index of a source, this process's own while the block runs; None where the source names no federation.

    Parameters
    ----------
    directory : Path, optional
        Of all indexes; by default in the user's cache. While another process uses this source's index, or where
        nothing can be written, one is made that goes with this process.
    """
    if source.deployment is None:
        yield None
        return
    try:
        with exclusive((directory or _cache()) / source.key) as _:
            yield from _opened(source, (directory or _cache()) / source.key)
            return
    except (AlreadyInUse, PermissionError):
        pass
    with tempfile.TemporaryDirectory(prefix="fedgrove-explorer-") as scratch:
        yield from _opened(source, Path(scratch))


def _opened(source: Source, directory: Path) -> Iterator[Index]:
    index = Index(directory / "index.sqlite", source.deployment)
    try:
        yield index
    finally:
        index.close()


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedgrove" / "explorer"
