"""Files of a run's directory: every entry is checked before any is read.

The directory may come from a stranger. A pipe in it would keep a reader waiting, a link to a device feed it without
end, and what no run writes could be taken for a part of the run, as a manifest is signed by nobody. So only names that
a run writes may be there, as regular files of a fitting size, in folders of the store.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fedgrove.ipfs.disk import BLOCKS, DIGEST_NAME, LOCK, PINS, TEMP
from fedgrove.ipfs.unixfs import MAX_BLOCK_BYTES
from fedgrove.node.protocol.bad_record import bad

REPORT, LEDGER, STORE, MANIFEST = "report.json", "ledger.jsonl", "store", "manifest.json"
MAX_REPORT_BYTES = 1 << 26
MAX_MANIFEST_BYTES = 1 << 28
MAX_LEDGER_BYTES = 1 << 36
MAX_FILES = 1 << 21
MAX_RUN_BYTES = 1 << 42

_FOLDERS = frozenset({STORE, *(f"{STORE}/{name}" for name in (BLOCKS, PINS, TEMP))})
_FILES = {
    REPORT: MAX_REPORT_BYTES,
    LEDGER: MAX_LEDGER_BYTES,
    MANIFEST: MAX_MANIFEST_BYTES,
    f"{STORE}/{LOCK}": 0,
}
# What lies in a folder of the store is named by a digest: blocks, and pins, which are empty. Nothing is being written.
_OF_STORE = {f"{STORE}/{BLOCKS}": MAX_BLOCK_BYTES, f"{STORE}/{PINS}": 0}
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


@dataclass(frozen=True)
class _Entry:
    """One entry of the directory: its name in it, its size, and what is wrong with it (empty: nothing)."""

    name: str
    size: int
    fault: str


def run_files(directory: Path) -> dict[str, int]:
    """Sizes of a run's files, by their names in the directory.

    Raises
    ------
    RuleBroken
        Something is there that no run writes, or that is larger than any run writes it; the first one is named.
    OSError
        The directory cannot be read.
    """
    files: dict[str, int] = {}
    total = 0
    for entry in _entries(directory):
        if entry.fault:
            raise bad(f"file {shown(entry.name)}", entry.fault)
        files[entry.name] = entry.size
        total += entry.size
        if len(files) > MAX_FILES:
            raise bad("file count", f"the directory holds more than {MAX_FILES} files")
        if total > MAX_RUN_BYTES:
            raise bad("file sizes", f"the files have more than {MAX_RUN_BYTES} bytes")
    return files


def files_to_seal(directory: Path) -> list[str]:
    """Names of the files that a manifest lists: what a run wrote, whatever else is there."""
    return [entry.name for entry in _entries(directory) if not entry.fault and entry.name != MANIFEST]


def shown(name: str) -> str:
    """A file's name, fit for a terminal and for JSON."""
    return name if name.isprintable() and len(name) <= 200 else ascii(name[:200])


def _entries(directory: Path) -> Iterator[_Entry]:
    """All that is there, folder by folder; strange folders are not looked into."""
    pending = [""]
    while pending:
        folder = pending.pop()
        found = []
        with os.scandir(directory / folder) as entries:
            for entry in entries:
                found.append(entry)
                if len(found) > MAX_FILES:
                    break  # this many cannot even be sorted; ``run_files`` refuses them
        for entry in sorted(found, key=lambda entry: entry.name):
            name = f"{folder}/{entry.name}" if folder else entry.name
            state = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(state.st_mode) and name in _FOLDERS:
                pending.append(name)
            else:
                yield _Entry(name, state.st_size, _fault(name, folder, state))


def _fault(name: str, folder: str, state: os.stat_result) -> str:
    limit = _FILES.get(name)
    if limit is None and DIGEST_NAME.match(os.path.basename(name)):
        limit = _OF_STORE.get(folder)
    kind = stat.S_IFMT(state.st_mode)
    if kind != stat.S_IFREG:
        return f"it is {_KINDS.get(kind, 'something else')}, not a regular file"
    if limit is None:
        return "a run does not write this file"
    return f"it has {state.st_size} bytes, but at most {limit} are allowed" if state.st_size > limit else ""
