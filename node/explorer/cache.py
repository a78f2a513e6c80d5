"""Where an index lies between two runs of the explorer: in the user's cache, one folder a history.

Whoever opens one tidies up: beyond a number, and a size of all together, those go that were not used for longest.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.files import AlreadyInUse, cache_folder, exclusive
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.sources import Source

MAX_INDEXES = 32
MAX_BYTES = 2 << 30
_FILE = "index.sqlite"
_KEY = re.compile(r"[0-9a-f]{32}")


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
    with ExitStack() as held:
        index = Index(_own(held, directory, source.key) / _FILE, source.deployment)
        held.callback(index.close)
        yield index


def _own(held: ExitStack, directory: Path | None, key: str) -> Path:
    """A folder that belongs to this process while ``held`` is."""
    try:
        root = directory or cache_folder() / "explorer"
        held.enter_context(exclusive(root / key))
        os.utime(root / key)
        _tidy(root)
        return root / key
    except (AlreadyInUse, InvalidInput, OSError):
        return Path(held.enter_context(tempfile.TemporaryDirectory(prefix="fedgrove-explorer-")))


def _tidy(root: Path) -> None:
    """Remove the indexes that were not used for longest, beyond the limits; never one that a process has."""
    found = [path for path in root.iterdir() if _KEY.fullmatch(path.name) and (path / _FILE).is_file()]
    total = 0
    for place, path in enumerate(sorted(found, key=lambda path: path.stat().st_mtime, reverse=True), 1):
        total += sum(file.stat().st_size for file in path.iterdir())
        if place > MAX_INDEXES or total > MAX_BYTES:
            with suppress(AlreadyInUse, OSError), exclusive(path):
                shutil.rmtree(path)
