"""A frozen base on this machine: measured by its content as a stream, compared with what the terms name.

A base is one regular file, or a folder of them within the bounds of names and depth that bundles have. Its CID is that
of the UnixFS file or directory, as the store has it. No link is followed but the path itself, which its owner names.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fedgrove.common.regular_file import NotRegular, open_regular
from fedgrove.ipfs.cid import CID
from fedgrove.ipfs.directory import DirectoryEntry, directory_nodes
from fedgrove.ipfs.store import ContentStore
from fedgrove.ipfs.unixfs import MAX_BLOCK_BYTES, root_of, total_size_of
from fedgrove.node.base.frozen_base import MAX_BASE_BYTES, FrozenBase
from fedgrove.node.tasks.folder import walk
from fedgrove.node.tasks.names import InvalidBundle, check_paths, is_left_out


@dataclass(frozen=True)
class BaseContent:
    """What a path holds: the CID, and the bytes of all files."""

    cid: CID
    size: int


@dataclass(frozen=True)
class BaseFile:
    """A file of a base: its path in it (``/`` between names; empty where the base is the file), and its bytes."""

    path: str
    chunks: Iterator[bytes]


def content_of(path: Path, most: int = MAX_BASE_BYTES, leave_out: Callable[[str], bool] = is_left_out) -> BaseContent:
    """Measure a file or a folder, a MiB at a time, without the names that are left out.

    Raises
    ------
    InvalidBundle
        It is missing or cannot be read, holds a link, a special file, an odd name or more than ``most`` bytes, or
        changes while it is read.
    """
    return _root(base_files(path, most, leave_out), root_of)


def base_files(path: Path, most: int, leave_out: Callable[[str], bool] = is_left_out) -> Iterator[BaseFile]:
    """Yield the files of a base, sorted by path; each must be read before the next. Raises as ``content_of``."""
    left = Allowance(path, most)
    try:
        root = path.resolve(strict=True)
        if not root.is_dir():
            yield BaseFile("", left.counted(_chunks(root)))
            return
        paths = sorted(walk(root, leave_out))
        check_paths(paths)
    except OSError as fault:
        raise InvalidBundle(f"cannot read the base {fault.filename or path}: {fault.strerror}") from None
    except InvalidBundle as fault:
        raise InvalidBundle(f"{path} cannot be a base: {fault}") from None
    if not paths:
        raise InvalidBundle(f"{path} cannot be a base: there is no file in it")
    for each in paths:
        yield BaseFile(each, left.counted(_chunks(root / each)))


def publish_base(path: Path, base: FrozenBase, store: ContentStore) -> None:
    """Put a base into a store, each file and directory pinned. Raises as ``content_of``, and if it has changed."""
    compare(base, _root(base_files(path, base.size), store.add, store.put), path)


def compare(base: FrozenBase, found: BaseContent, where: object) -> None:
    """Raise InvalidBundle, which names the difference, unless what was found is the base."""
    if found.size != base.size:
        raise InvalidBundle(
            f"{where} is not the base {base.name} of the terms: it has {found.size} bytes, not {base.size}"
        )
    if str(found.cid) != base.cid:
        raise InvalidBundle(
            f"{where} is not the base {base.name} of the terms: its content has the CID {found.cid}, not {base.cid}"
        )


class Allowance:
    """How many bytes may still be taken from where a base is."""

    def __init__(self, where: object, most: int) -> None:
        self._where, self._most, self._taken = where, most, 0

    def counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The chunks; InvalidBundle as soon as they are too many."""
        for chunk in chunks:
            self._taken += len(chunk)
            if self._taken > self._most:
                raise InvalidBundle(f"{self._where} has more than {self._most} bytes, all that the base may have")
            yield chunk


class _Counted:
    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks, self.size = chunks, 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.size += len(chunk)
            yield chunk


def _root(
    files: Iterable[BaseFile], of_file: Callable[[Iterable[bytes]], CID], keep: Callable[[bytes], object] = len
) -> BaseContent:
    """The CID and the size of these files; ``of_file`` gives each one's CID, ``keep`` gets each directory's block."""
    entries: dict[str, DirectoryEntry] = {}
    size = 0
    for file in files:
        counted = _Counted(file.chunks)
        cid = of_file(counted)
        size += counted.size
        if not file.path:
            return BaseContent(cid, size)
        entries[file.path] = DirectoryEntry(file.path.rpartition("/")[2], cid, total_size_of(counted.size))
    for node in directory_nodes(entries):
        keep(node.data)
    return BaseContent(node.entry.cid, size)


def _chunks(path: Path) -> Iterator[bytes]:
    """The chunks of a file; an empty file is one empty chunk."""
    try:
        with open_regular(path, follow=False) as file:
            stated, count = os.fstat(file.fileno()).st_size, 0
            while chunk := file.read(MAX_BLOCK_BYTES):
                count += len(chunk)
                yield chunk
            if count != stated:
                raise InvalidBundle(f"{path} had {stated} bytes and {count} were read: leave it alone while it is read")
            if not count:
                yield b""
    except NotRegular:
        raise InvalidBundle(f"{path} is a link or no regular file: put a copy of the file in its place") from None
    except OSError as fault:
        raise InvalidBundle(f"cannot read the base {path}: {fault.strerror}") from None
