"""A file as a balanced UnixFS DAG of blocks, and back, with the CIDs that Kubo gives.

Sources: the UnixFS and dag-pb specifications; the profile ``unixfs-v1-2025`` of IPIP-499.

In a balanced DAG all leaves have the same depth and every node but the last of its level is full. Hence the size of a
file and the digests of its leaves determine every byte of every node. ``decode_node`` uses that: it takes only digests
and size from a foreign node and accepts it iff encoding these again gives the same bytes. Wrong sizes, other field
orders, duplicate or unknown fields, long varints, names: nothing of that kind can pass.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.cid import CID, DAG_PB, RAW

MAX_BLOCK_BYTES = 1 << 20
_MAX_FILE_BYTES = (1 << 63) - 1
_FILE_TYPE = b"\x08\x02"  # UnixFS Data.Type = File


@dataclass(frozen=True)
class Profile:
    """How a file is cut and linked: bytes per chunk, links per node; leaves are raw blocks."""

    chunk_size: int
    max_links: int


UNIXFS_V1_2025 = Profile(chunk_size=1 << 20, max_links=1024)


@dataclass(frozen=True)
class DagBlock:
    """One block of a DAG: its CID and its bytes."""

    cid: CID
    data: bytes | memoryview


@dataclass(frozen=True)
class Link:
    """A child of a node: its CID, the bytes of the file below it, and all bytes of blocks below it (Tsize)."""

    cid: CID
    size: int
    total_size: int


def chunks(data: bytes, profile: Profile = UNIXFS_V1_2025) -> Iterator[memoryview]:
    """Cut a file into chunks without copying; an empty file is one empty chunk."""
    view = memoryview(data)
    for start in range(0, max(len(view), 1), profile.chunk_size):
        yield view[start : start + profile.chunk_size]


def build(chunks: Iterable[bytes | memoryview], profile: Profile = UNIXFS_V1_2025) -> Iterator[DagBlock]:
    """Yield the blocks of a file given as chunks: leaves, then each level of nodes; the root is the last block."""
    level: list[Link] = []
    for chunk in chunks:
        block = DagBlock(CID.of_block(chunk, RAW), chunk)
        level.append(Link(block.cid, len(chunk), len(chunk)))
        yield block
    while len(level) > 1:
        parents: list[Link] = []
        for start in range(0, len(level), profile.max_links):
            links = level[start : start + profile.max_links]
            node = encode_node(links)
            cid = CID.of_block(node, DAG_PB)
            parents.append(Link(cid, sum(x.size for x in links), len(node) + sum(x.total_size for x in links)))
            yield DagBlock(cid, node)
        level = parents


def cid_of(data: bytes, profile: Profile = UNIXFS_V1_2025) -> CID:
    """Return the CID of a whole file, as ``ipfs add`` with the profile's options prints it."""
    return root_of(chunks(data, profile), profile)


def root_of(chunks: Iterable[bytes | memoryview], profile: Profile = UNIXFS_V1_2025) -> CID:
    """Return the CID of a file given as chunks (all but the last of ``profile.chunk_size``), without keeping them."""
    cid = None
    for block in build(chunks, profile):
        cid = block.cid
    if cid is None:
        raise ValueError("a file has at least one chunk, which may be empty")
    return cid


def encode_node(links: Iterable[Link]) -> bytes:
    """Return the dag-pb bytes of the file node with these children (all of them in file order)."""
    links = list(links)
    encoded = b"".join(field(0x12, _encode_link(link)) for link in links)
    sizes = b"".join(b"\x20" + varint(link.size) for link in links)
    return encoded + field(0x0A, _FILE_TYPE + b"\x18" + varint(sum(link.size for link in links)) + sizes)


def decode_root(data: bytes, profile: Profile = UNIXFS_V1_2025) -> tuple[Link, ...] | None:
    """Return the children of a file root of at least two chunks, or None when the block is anything else.

    This is the rule by which a bare digest is read: all but a root of this kind is raw content. It depends on nothing
    but the bytes, so everybody reads the same.
    """
    try:
        digests, size = _scan_node(data, profile)
        return _rebuild(data, digests, size, depth_of(size, profile), profile)
    except InvalidContent:
        return None


def decode_node(data: bytes, size: int, depth: int, profile: Profile = UNIXFS_V1_2025) -> tuple[Link, ...]:
    """Return the children of an inner node that its parent says to hold ``size`` bytes, ``depth`` levels above leaves.

    Raises
    ------
    InvalidContent
        The block is not the one canonical node of this size and depth.
    """
    digests, found = _scan_node(data, profile)
    if found != size:
        raise InvalidContent(f"the node holds {found} bytes, but its parent states {size}")
    return _rebuild(data, digests, size, depth, profile)


@lru_cache(maxsize=256)
def depth_of(size: int, profile: Profile = UNIXFS_V1_2025) -> int:
    """Return the number of levels of nodes above the leaves of a file of ``size`` bytes (0: one chunk)."""
    depth, capacity = 0, profile.chunk_size
    while capacity < size:
        depth, capacity = depth + 1, capacity * profile.max_links
    return depth


def varint(number: int) -> bytes:
    """Return the unsigned LEB128 form of a number."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at ``position`` and the position after it.

    Raises
    ------
    InvalidContent
        Truncated, longer than 9 bytes (63 bits), or not the shortest form.
    """
    number = 0
    for count in range(9):
        if position + count >= len(data):
            raise InvalidContent("truncated varint")
        byte = data[position + count]
        number |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            if byte == 0 and count > 0:
                raise InvalidContent("varint is not in its shortest form")
            return number, position + count + 1
    raise InvalidContent("varint is longer than 9 bytes")


def field(tag: int, value: bytes) -> bytes:
    """Return a length-delimited field of protocol buffers."""
    return bytes([tag]) + varint(len(value)) + value


def _encode_link(link: Link) -> bytes:
    return field(0x0A, bytes(link.cid)) + b"\x12\x00" + b"\x18" + varint(link.total_size)  # Hash, empty Name, Tsize


def _scan_node(data: bytes, profile: Profile) -> tuple[list[bytes], int]:
    """Take digests and file size from what looks like a node; ``_rebuild`` checks everything else."""
    digests: list[bytes] = []
    position = 0
    while data[position : position + 1] == b"\x12":
        if len(digests) == profile.max_links:
            raise InvalidContent("the node has more links than the profile allows")
        cid = data[position + 4 : position + 40]  # tag, length of link, tag of Hash, length of CID
        try:
            digests.append(CID.from_bytes(cid).digest)
            length, position = read_varint(data, position + 1)
        except InvalidContent:
            raise InvalidContent("a link of the node is malformed") from None
        position += length
    try:
        _, position = read_varint(data, position + 1)
        size, _ = read_varint(data, position + len(_FILE_TYPE) + 1)
    except InvalidContent:
        raise InvalidContent("the node ends too early") from None
    return digests, size


def _rebuild(data: bytes, digests: list[bytes], size: int, depth: int, profile: Profile) -> tuple[Link, ...]:
    """Return the links of the canonical node of this size, depth and digests, if it is ``data``."""
    if depth < 1 or not 0 < size <= _MAX_FILE_BYTES:
        raise InvalidContent(f"a file of {size} bytes cannot have a node at depth {depth}")
    capacity = profile.chunk_size * profile.max_links ** (depth - 1)
    if len(digests) != -(-size // capacity):
        raise InvalidContent(f"a node of {size} bytes has {-(-size // capacity)} links, not {len(digests)}")
    codec = RAW if depth == 1 else DAG_PB
    links: list[Link] = []
    for index, digest in enumerate(digests):
        part = min(capacity, size - index * capacity)
        links.append(Link(CID.from_digest(digest, codec), part, _total_size(part, depth - 1, profile)))
    if encode_node(links) != data:
        raise InvalidContent("the node is not in its canonical form")
    return tuple(links)


def total_size_of(size: int, profile: Profile = UNIXFS_V1_2025) -> int:
    """Return the bytes of all blocks of a file of ``size`` bytes (Tsize), with raw leaves."""
    return _total_size(size, depth_of(size, profile), profile)


@lru_cache(maxsize=256)
def _total_size(size: int, depth: int, profile: Profile) -> int:
    """Bytes of all blocks of a subtree that holds ``size`` bytes (raw leaves): follows from the size alone."""
    if depth == 0:
        return size
    capacity = profile.chunk_size * profile.max_links ** (depth - 1)
    full, rest = divmod(size, capacity)
    placeholder = CID.from_digest(bytes(32), DAG_PB)  # a CID's length does not depend on its digest
    links = [Link(placeholder, capacity, _total_size(capacity, depth - 1, profile))] * full
    if rest:
        links.append(Link(placeholder, rest, _total_size(rest, depth - 1, profile)))
    return len(encode_node(links)) + sum(link.total_size for link in links)
