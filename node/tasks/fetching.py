"""A bundle out of a store, hostile until checked: names, sizes and numbers before anything is fetched, then the CID.

Nothing that is read is interpreted here but directories and the lock. What comes out has exactly the CID asked for: a
directory in another form than ``task pack`` gives, also one that holds the same files, is refused.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.cid import CID, DAG_PB
from fedgrove.ipfs.directory import DirectoryEntry, decode_directory
from fedgrove.ipfs.store import ContentReader, Root
from fedgrove.node.tasks.bundle import Bundle
from fedgrove.node.tasks.names import (
    MAX_BUNDLE_BYTES,
    MAX_DEPTH,
    MAX_FILE_BYTES,
    MAX_FILES,
    InvalidBundle,
    check_name,
    check_paths,
)

MAX_DIRECTORY_BYTES = 1 << 16
MAX_ENTRIES = 2 * MAX_FILES
"""Files and folders in all: as many folders as files."""


def fetch_bundle(store: ContentReader, cid: CID) -> Bundle:
    """Fetch a bundle and check all of it.

    Raises
    ------
    InvalidBundle
        The content under this CID is no bundle.
    StoreError
        It cannot be had, a part of it is damaged or larger than any part of a bundle.
    """
    if cid.codec != DAG_PB:
        raise InvalidBundle(f"{cid} names no folder: a bundle's CID begins with bafybei")
    folder = FolderInStore(store)
    try:
        found = dict(folder.walk(cid))
        check_paths(found)
        bundle = Bundle.of({path: folder.file(each) for path, each in found.items()})
    except InvalidBundle as fault:
        raise InvalidBundle(f"{cid} is not a bundle: {fault}") from None
    if bundle.cid != cid:
        raise InvalidBundle(f"{cid} is not a bundle: it is not in the form that `fedgrove task pack` gives")
    return bundle


@dataclass
class FolderInStore:
    """A folder that is being fetched: what it has taken so far.

    Attributes
    ----------
    store : ContentReader
    most : int
        Bytes of its largest file.
    """

    store: ContentReader
    most: int = MAX_FILE_BYTES
    entries: int = field(default=0, init=False)
    size: int = field(default=0, init=False)

    def walk(self, cid: CID, below: str = "", depth: int = 0) -> Iterator[tuple[str, CID]]:
        """Yield path and CID of every file below a directory (``below`` is its own path, with a slash)."""
        if depth > MAX_DEPTH:
            raise InvalidBundle(f"its folders are more than {MAX_DEPTH} deep")
        for entry in self._entries(cid):
            path = below + entry.name
            check_name(entry.name, path)
            if self.is_folder(entry.cid):
                yield from self.walk(entry.cid, f"{path}/", depth + 1)
            else:
                yield path, entry.cid

    def is_folder(self, cid: CID) -> bool:
        return cid.codec == DAG_PB and not self._root(cid, self.most).links

    def file(self, cid: CID) -> bytes:
        """A file's content, compared with what is left of the bundle's size before it is fetched."""
        data = self.store.get(cid, min(MAX_FILE_BYTES, MAX_BUNDLE_BYTES - self.size))
        self.size += len(data)
        return data

    def _entries(self, cid: CID) -> tuple[DirectoryEntry, ...]:
        """The entries of a directory, counted before any of them is looked at."""
        try:
            found = decode_directory(self._root(cid, MAX_DIRECTORY_BYTES).data)
        except InvalidContent as fault:
            raise InvalidBundle(f"{cid}: {fault}") from None
        self.entries += len(found)
        if self.entries > MAX_ENTRIES:
            raise InvalidBundle(f"it has more than {MAX_ENTRIES} files and folders")
        return found

    def _root(self, cid: CID, max_bytes: int) -> Root:
        return self.store.root(cid.digest, max_bytes)
