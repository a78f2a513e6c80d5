"""Verified copies of frozen bases: what a task is shown is what the terms name, whatever became of where it came from.

Layout of ``DIRECTORY/bases``: ``CID`` is a base, a read-only file or folder. It is written under another name, measured
as a whole, and has this name only if it is what the terms name. It is measured again whenever it is opened.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.cid import CID
from fedgrove.ipfs.store import ContentReader, StoreError
from fedgrove.node.base.frozen_base import FrozenBase
from fedgrove.node.tasks.base_content import Allowance, BaseFile, base_files, compare, content_of
from fedgrove.node.tasks.fetching import MAX_DIRECTORY_BYTES, FolderInStore
from fedgrove.node.tasks.folder import appearing, remove_folder, write_files
from fedgrove.node.tasks.names import InvalidBundle, check_paths

BASES = "bases"


@dataclass(frozen=True)
class BaseSources:
    """Where the bases of a task may come from: paths that the user gave, by name, and a store if there is one."""

    given: Mapping[str, Path]
    store: ContentReader | None = None


class BaseShelf:
    """Copies of bases in a directory of one process.

    Parameters
    ----------
    directory : Path
        The member's own, as ``fedgrove client --directory``, or a temporary one.
    """

    def __init__(self, directory: Path) -> None:
        self.folder = directory / BASES

    def open_all(self, bases: Sequence[FrozenBase], sources: BaseSources) -> dict[str, Path]:
        """The paths of verified copies by name.

        Raises
        ------
        InvalidBundle
            One is nowhere to be had, what is there is not what the terms name, or no base has a name that was given.
        """
        known = [base.name for base in bases]
        for name in sources.given:
            if name not in known:
                raise InvalidBundle(f"the task has no base {name}; it has {', '.join(known) or 'none'}: correct --base")
        return {base.name: self.open(base, sources) for base in bases}

    def open(self, base: FrozenBase, sources: BaseSources) -> Path:
        """The path of a verified copy; made from what was given, or else from the store. Raises as ``open_all``."""
        place = self.folder / base.cid
        if self._is_kept(place, base):
            return place
        path, store = sources.given.get(base.name), sources.store
        if path is not None:
            self._write(place, base, base_files(path, base.size), path)
        elif store is not None:
            self._fetch(place, base, store)
        else:
            raise InvalidBundle(f"the task needs the base {base.name}: give --base {base.name}=PATH")
        return place

    def _is_kept(self, place: Path, base: FrozenBase) -> bool:
        if place.is_symlink() or not place.exists():
            return False
        try:
            compare(base, content_of(place, base.size, _nothing), place)
        except InvalidBundle:
            return False
        return True

    def _fetch(self, place: Path, base: FrozenBase, store: ContentReader) -> None:
        advice = f"give --base {base.name}=PATH"
        try:
            self._write(place, base, _stored(base, store), "what the store has")
        except StoreError as fault:
            raise InvalidBundle(f"the store does not have the base {base.name} ({fault}): {advice}") from None
        except InvalidBundle as fault:
            raise InvalidBundle(f"{base.cid} is not the base {base.name} ({fault}): {advice}") from None

    def _write(self, place: Path, base: FrozenBase, files: Iterable[BaseFile], where: object) -> None:
        """Write a copy, measure it, and give it its name if it is the base."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for left in self.folder.glob(f".{base.cid}.*"):  # by a killed process
                remove_folder(left)
            allowed = Allowance(where, base.size)
            with appearing(place) as part:
                write_files(part, ((file.path, allowed.counted(file.chunks)) for file in files))
                compare(base, content_of(part, base.size, _nothing), where)
                remove_folder(place)  # what was altered
        except OSError as fault:
            raise InvalidBundle(
                f"cannot keep the base {base.name} in {self.folder}: {fault.strerror}; make room, or give another place"
            ) from None


def _stored(base: FrozenBase, store: ContentReader) -> Iterator[BaseFile]:
    """The files of a base as a store has them; no more bytes than the terms state are fetched."""
    left = base.size
    found = dict(_paths(base, store))
    check_paths(path for path in found if path)
    for path, cid in sorted(found.items()):
        pieces = store.stream(cid.digest, left)
        left -= store.root(cid.digest).size
        yield BaseFile(path, pieces)


def _paths(base: FrozenBase, store: ContentReader) -> Iterator[tuple[str, CID]]:
    """Path and CID of each file; an empty path where the base is one file."""
    try:
        cid = CID.parse(base.cid)
    except InvalidContent as fault:
        raise InvalidBundle(str(fault)) from None
    folder = FolderInStore(store, max(base.size, MAX_DIRECTORY_BYTES))
    if folder.is_folder(cid):
        yield from folder.walk(cid)
    else:
        yield "", cid


def _nothing(name: str) -> bool:
    """Leave out no file of a copy: whatever is in it would be shown."""
    return False
