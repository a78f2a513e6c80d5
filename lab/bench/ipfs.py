"""Naming and storing 100 MB, compared with SHA-256 and plain files on the same machine."""

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.unixfs import cid_of
from fedgrove_lab.bench.rows import BenchResult, BenchRow, least

_BYTES = 100_000_000
_REPEATS = 3


def run(size: int = _BYTES, folder: Path | None = None) -> BenchResult:
    """Measure with a blob of ``size`` bytes, in a store that is made in ``folder`` and removed again.

    Each value is the best of three runs, in MB/s (10**6 bytes). ``limit`` is what the machine does for the same bytes
    without the store: one sha2-256, or one write or read of a plain file, synced like the store's.
    """
    data = Random(0).randbytes(size)
    hashing = _rate(size, lambda: hashlib.sha256(data).digest())
    rows = [_row("CID (unixfs-v1-2025)", _rate(size, lambda: cid_of(data)), hashing, "sha2-256 of the same bytes")]
    with tempfile.TemporaryDirectory(dir=folder) as place:
        plain = Path(place) / "plain"
        writing = _rate(size, lambda: _write_file(plain, data))
        # A blob is hashed before it is written, and after it is read: the limit is the two one after the other.
        put_limit = _in_sequence(hashing, writing)
        get_limit = _in_sequence(hashing, _rate(size, plain.read_bytes))
        stores = (DiskStore(Path(place) / str(number)) for number in range(_REPEATS))
        rows.append(_row("disk put", _rate(size, lambda: next(stores).put(data)), put_limit, "sha2-256 + synced write"))
        store = DiskStore(Path(place) / "0")
        cid = cid_of(data)
        rows.append(_row("disk put, held already", _rate(size, lambda: store.put(data)), get_limit, "sha2-256 + read"))
        rows.append(_row("disk get", _rate(size, lambda: store.get(cid, size)), get_limit, "sha2-256 + read"))
    return BenchResult(tuple(rows), {"bytes": size})


def _row(name: str, value: float, limit: float, limit_name: str) -> BenchRow:
    return BenchRow.compared(name, round(value, 1), "MB/s", limit, limit_name)


def _rate(size: int, task: Callable[[], object]) -> float:
    """The best rate of a task over ``size`` bytes, in MB/s."""
    return size / 1e6 / least(task, repeats=_REPEATS)[0]


def _in_sequence(first: float, second: float) -> float:
    return 1 / (1 / first + 1 / second)


def _write_file(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
