"""A UnixFS directory as one dag-pb block, and back, with the CIDs that Kubo gives.

Source: the UnixFS and dag-pb specifications. A directory has no mode, no owner and no time, its entries are sorted by
the bytes of their names, and nothing else is in its block: its entries determine every byte. ``decode_directory``
accepts a block iff encoding what it read gives the same bytes. There are no sharded directories here, which Kubo makes
above 256 KiB.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.cid import CID, DAG_PB
from fedgrove.ipfs.unixfs import build, chunks, field, read_varint, varint

_DIRECTORY_DATA = b"\x0a\x02\x08\x01"  # dag-pb Data: UnixFS Data.Type = Directory
_CID_FIELD = b"\x0a\x24"  # dag-pb Hash: a CIDv1 over sha2-256 has 36 bytes
_CID_BYTES = 36


@dataclass(frozen=True)
class DirectoryEntry:
    """A named child of a directory: its CID, and the bytes of all blocks below it (Tsize)."""

    name: str
    cid: CID
    total_size: int


@dataclass(frozen=True)
class FolderNode:
    """A file or a directory of a folder: its entry, and the file's content or the directory's block."""

    entry: DirectoryEntry
    data: bytes


def folder_nodes(files: Mapping[str, bytes]) -> Iterator[FolderNode]:
    """Yield the files and directories of a folder given as contents by path (``/`` between names); the root is last.

    No path may be a folder of another one's.
    """
    found = {path: _file_node(path.rpartition("/")[2], data) for path, data in files.items()}
    yield from found.values()
    yield from directory_nodes({path: node.entry for path, node in found.items()})


def directory_nodes(files: Mapping[str, DirectoryEntry], name: str = "") -> Iterator[FolderNode]:
    """Yield the directories of a folder with these files by path; the root is last."""
    entries: list[DirectoryEntry] = []
    below: dict[str, dict[str, DirectoryEntry]] = {}
    for path, entry in files.items():
        head, _, rest = path.partition("/")
        if rest:
            below.setdefault(head, {})[rest] = entry
        else:
            entries.append(entry)
    for head, inner in below.items():
        *deeper, own = directory_nodes(inner, head)
        yield from (*deeper, own)
        entries.append(own.entry)
    yield _directory_node(name, entries)


def encode_directory(entries: Iterable[DirectoryEntry]) -> bytes:
    """Return the dag-pb bytes of the directory with these entries, in any order.

    Raises
    ------
    ValueError
        Two entries have one name.
    """
    ordered = sorted(entries, key=lambda entry: entry.name.encode())
    if len({entry.name for entry in ordered}) < len(ordered):
        raise ValueError("two entries of a directory have one name")
    return b"".join(field(0x12, _encode_entry(entry)) for entry in ordered) + _DIRECTORY_DATA


def decode_directory(data: bytes) -> tuple[DirectoryEntry, ...]:
    """Return the entries of a directory; their names are as foreign as the block.

    Raises
    ------
    InvalidContent
        The block is not the one canonical block of a directory with CIDv1 entries.
    """
    try:
        entries = tuple(_scan_entries(data))
        canonical = encode_directory(entries) == data
    except (InvalidContent, ValueError):
        canonical, entries = False, ()
    if not canonical:
        raise InvalidContent("the block is not a directory, or is not in its canonical form")
    return entries


def _file_node(name: str, data: bytes) -> FolderNode:
    blocks = list(build(chunks(data)))
    return FolderNode(DirectoryEntry(name, blocks[-1].cid, sum(len(block.data) for block in blocks)), data)


def _directory_node(name: str, entries: list[DirectoryEntry]) -> FolderNode:
    block = encode_directory(entries)
    total_size = len(block) + sum(entry.total_size for entry in entries)
    return FolderNode(DirectoryEntry(name, CID.of_block(block, DAG_PB), total_size), block)


def _encode_entry(entry: DirectoryEntry) -> bytes:
    return field(0x0A, bytes(entry.cid)) + field(0x12, entry.name.encode()) + b"\x18" + varint(entry.total_size)


def _scan_entries(data: bytes) -> Iterator[DirectoryEntry]:
    """Take names, CIDs and sizes from what looks like a directory; encoding them again checks everything else."""
    position = 0
    while data[position : position + 1] == b"\x12":
        length, start = read_varint(data, position + 1)
        link, position = data[start : start + length], start + length
        if not link.startswith(_CID_FIELD):
            raise InvalidContent("an entry is named by another kind of CID")
        after = len(_CID_FIELD) + _CID_BYTES
        name_length, start = read_varint(link, after + 1)
        total_size, _ = read_varint(link, start + name_length + 1)
        name = link[start : start + name_length].decode()
        yield DirectoryEntry(name, CID.from_bytes(link[len(_CID_FIELD) : after]), total_size)
