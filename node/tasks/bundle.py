"""Bundles: a task's files under one CID, the same for the same files on any machine; times and owners do not count."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fedgrove.ipfs.cid import CID
from fedgrove.ipfs.directory import FolderNode, folder_nodes
from fedgrove.ipfs.store import ContentStore
from fedgrove.node.base.files import write_atomically
from fedgrove.node.tasks.folder import read_file, read_folder
from fedgrove.node.tasks.lock import LOCK_NAME, PackageLock, check_lock, make_lock
from fedgrove.node.tasks.names import MAX_BUNDLE_BYTES, MAX_FILE_BYTES, InvalidBundle, check_paths
from fedgrove.node.tasks.python_text import check_python


@dataclass(frozen=True)
class Bundle:
    """The files of a task, their bytes by path, within the bounds of ``names``, with a lock of what they import.

    Raises
    ------
    InvalidBundle
    """

    contents: Mapping[str, bytes]

    def __post_init__(self) -> None:
        check_paths(self.contents)
        sizes = list(map(len, self.contents.values()))
        if max(sizes, default=0) > MAX_FILE_BYTES or sum(sizes) > MAX_BUNDLE_BYTES:
            raise InvalidBundle(f"a bundle has at most {MAX_BUNDLE_BYTES >> 20} MiB, {MAX_FILE_BYTES >> 20} MiB a file")
        if not any(path.endswith(".py") and "/" not in path for path in self.contents):
            raise InvalidBundle("it has files but no Python file: a task is a class in a .py file")
        for path, data in self.contents.items():
            if path.endswith(".py"):
                check_python(path, data)
        if LOCK_NAME not in self.contents:
            raise InvalidBundle(f"it has no {LOCK_NAME}: make it with `fedgrove task pack`")
        PackageLock.from_bytes(self.contents[LOCK_NAME])

    @classmethod
    def of(cls, files: Mapping[str, bytes]) -> "Bundle":
        return cls(dict(sorted(files.items())))

    @cached_property
    def cid(self) -> CID:
        """The bundle's name: of the UnixFS directory with these files."""
        return self.nodes[-1].entry.cid

    @cached_property
    def nodes(self) -> tuple[FolderNode, ...]:
        """What a store holds of the bundle: files and directories, the root last."""
        return tuple(folder_nodes(self.contents))

    @cached_property
    def lock(self) -> PackageLock:
        return PackageLock.from_bytes(self.contents[LOCK_NAME])

    @property
    def size(self) -> int:
        return sum(map(len, self.contents.values()))


def pack(source: Path, relock: bool = False) -> Bundle:
    """Make the bundle of a folder, or of one Python file.

    Where there is no lock yet (``task.lock`` in the folder; ``NAME.lock`` next to ``NAME.py``), it is written there.
    From then on it belongs to the sources, so that they give the same bundle on machines with other versions.

    Parameters
    ----------
    source : Path
    relock : bool
        Write the lock anew, from what is installed here.

    Raises
    ------
    InvalidBundle
    """
    place, files = _sources(source)
    bundle = _made(files, relock)
    if bundle.contents[LOCK_NAME] != files.get(LOCK_NAME):
        _write_lock(place, bundle.lock)
    return bundle


def draft(source: Path) -> Bundle:
    """The bundle that ``pack`` would make now; nothing is written. Raises as ``pack``."""
    return _made(_sources(source)[1])


def has_lock(source: Path) -> bool:
    """Whether a task's folder, or the place next to its one file, has a lock."""
    return (source / LOCK_NAME if source.is_dir() else source.with_suffix(".lock")).exists()


def publish(bundle: Bundle, store: ContentStore) -> CID:
    """Put a bundle into a store, the root last; each part is pinned, so that it stays readable file by file."""
    for node in bundle.nodes:
        store.put(node.data)
    return bundle.cid


def _made(files: dict[str, bytes], relock: bool = False) -> Bundle:
    """The bundle of these files, with the lock among them or else a new one."""
    check_paths(files)
    if relock or LOCK_NAME not in files:
        return Bundle.of({**files, LOCK_NAME: make_lock(files).to_bytes()})
    check_lock(PackageLock.from_bytes(files[LOCK_NAME]), files)
    return Bundle.of(files)


def _sources(source: Path) -> tuple[Path, dict[str, bytes]]:
    """Where the lock belongs, and the files by path, with the lock if there is one."""
    if source.is_dir():
        return source / LOCK_NAME, read_folder(source)
    if source.suffix != ".py":
        raise InvalidBundle(f"{source} is neither a folder nor a Python file: give the folder of your task")
    place = source.with_suffix(".lock")
    try:
        files = {source.name: read_file(source)}
        if place.exists():
            files[LOCK_NAME] = read_file(place)
    except OSError as fault:
        raise InvalidBundle(f"cannot read {fault.filename or source}: {fault.strerror}") from None
    return place, files


def _write_lock(place: Path, lock: PackageLock) -> None:
    try:
        write_atomically(place, lock.to_bytes())
    except OSError as fault:
        raise InvalidBundle(f"cannot write {place} ({fault.strerror}): the lock belongs to the task's files") from None
