"""Content archives (CAR version 1): one root, then blocks; every block is verified while reading.

Source: the CARv1 specification. The header is dag-cbor ``{roots: [CID], version: 1}``; with exactly one CIDv1 root it
has one form of 58 bytes, so it is compared, not parsed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import BinaryIO

from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.cid import CID
from fedgrove.ipfs.unixfs import MAX_BLOCK_BYTES, DagBlock, read_varint, varint

_CID_BYTES = 36
_HEADER_START = b"\xa2\x65roots\x81\xd8\x2a\x58\x25\x00"  # map(2), "roots", array(1), tag 42, bytes(37), identity base
_HEADER_END = b"\x67version\x01"
_HEADER_BYTES = len(_HEADER_START) + _CID_BYTES + len(_HEADER_END)


@dataclass(frozen=True)
class Archive:
    """An archive being read: its root, and its blocks in the order they come (an iterator, to be used once)."""

    root: CID
    blocks: Iterator[DagBlock]


def write(root: CID, blocks: Iterable[DagBlock]) -> Iterator[bytes]:
    """Yield the bytes of an archive chunk by chunk; ``root`` and all blocks have CIDv1 names."""
    yield varint(_HEADER_BYTES) + _HEADER_START + bytes(root) + _HEADER_END
    for block in blocks:
        yield from section(block)


def section(block: DagBlock) -> Iterator[bytes]:
    """Yield the bytes of a block in an archive."""
    yield varint(_CID_BYTES + len(block.data)) + bytes(block.cid)
    yield bytes(block.data)


def read(stream: BinaryIO, max_bytes: int) -> Archive:
    """Read an archive of at most ``max_bytes`` bytes of blocks; nothing is trusted, memory stays at one block.

    Raises
    ------
    InvalidContent
        Here for a bad header; from the iterator for a truncated, oversized or altered block.
    """
    if _read_length(stream) != _HEADER_BYTES:
        raise InvalidContent("the archive is not a CAR version 1 with exactly one root")
    header = _read_exactly(stream, _HEADER_BYTES)
    if not (header.startswith(_HEADER_START) and header.endswith(_HEADER_END)):
        raise InvalidContent("the archive is not a CAR version 1 with exactly one root")
    return Archive(_parse_cid(header[len(_HEADER_START) : -len(_HEADER_END)]), _read_blocks(stream, max_bytes))


def _read_blocks(stream: BinaryIO, max_bytes: int) -> Iterator[DagBlock]:
    total = 0
    while (length := _read_length(stream)) is not None:
        if not _CID_BYTES <= length <= _CID_BYTES + MAX_BLOCK_BYTES:
            raise InvalidContent(f"the archive has a section of {length} bytes, more than a block can have")
        total += length - _CID_BYTES
        if total > max_bytes:
            raise InvalidContent(f"the archive holds more than the {max_bytes} bytes allowed")
        section = _read_exactly(stream, length)
        cid, data = _parse_cid(section[:_CID_BYTES]), section[_CID_BYTES:]
        if sha256(data).digest() != cid.digest:
            raise InvalidContent(f"{cid}: the block in the archive does not match its CID")
        yield DagBlock(cid, data)


def _read_length(stream: BinaryIO) -> int | None:
    """Read the varint before a section; None at the end of the archive."""
    encoded = stream.read(1)
    if not encoded:
        return None
    while encoded[-1] & 0x80 and len(encoded) < 9:
        encoded += _read_exactly(stream, 1)
    try:
        return read_varint(encoded, 0)[0]
    except InvalidContent as fault:
        raise InvalidContent(f"the archive has a malformed length: {fault}") from None


def _read_exactly(stream: BinaryIO, length: int) -> bytes:
    data = stream.read(length)
    if len(data) != length:
        raise InvalidContent("the archive is truncated")
    return data


def _parse_cid(data: bytes) -> CID:
    try:
        return CID.from_bytes(data)
    except InvalidContent as fault:
        raise InvalidContent(f"the archive names a block by {fault}") from None
