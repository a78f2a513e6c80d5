"""The blobs of a content archive where it lies: nothing is unpacked.

One pass verifies every block and notes where it is. Many small blocks cost no files, and a few blocks that describe
a file of many repeated parts cost no more than the archive's own size accounts for.
"""

import os
from hashlib import sha256
from typing import BinaryIO

from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs import car
from fedgrove.ipfs.blobs import BlockReader, most_unfolded
from fedgrove.ipfs.cid import CID
from fedgrove.ipfs.store import Corrupt, NotFound, TooLarge

MAX_BLOCKS = 1 << 21
"""About 500 MiB of notes; an archive of that many blobs has terabytes."""


class CarReader(BlockReader):
    """Reads blobs out of an archive.

    Parameters
    ----------
    stream : BinaryIO
        The archive, a regular file; it stays open as long as the reader is used.
    max_bytes : int
        Most bytes of blocks.

    Attributes
    ----------
    root_cid : CID
        What the archive names as its root.
    held_bytes : int
        Bytes of all blocks.

    Raises
    ------
    InvalidContent
        It is no archive, a block is damaged, or there are too many.
    """

    def __init__(self, stream: BinaryIO, max_bytes: int) -> None:
        self._stream = stream
        self._places: dict[bytes, tuple[int, int]] = {}
        archive = car.read(stream, max_bytes)
        self.root_cid = archive.root
        self.held_bytes = 0
        for count, block in enumerate(archive.blocks, 1):
            if count > MAX_BLOCKS:
                raise InvalidContent(f"the archive has more than the {MAX_BLOCKS} blocks allowed")
            size = len(block.data)
            self._places.setdefault(block.cid.digest, (stream.tell() - size, size))
            self.held_bytes += size
        self.max_blob_bytes = most_unfolded(self.held_bytes)

    def held(self) -> set[bytes]:
        """Digests of all blocks, whatever they belong to."""
        return set(self._places)

    def _read_block(self, cid: CID, max_bytes: int) -> bytes:
        if cid.digest not in self._places:
            raise NotFound(cid, "the archive does not hold this block")
        place, size = self._places[cid.digest]
        if size > max_bytes:
            raise TooLarge(cid, f"the block has {size} bytes, but at most {max_bytes} are allowed")
        data = os.pread(self._stream.fileno(), size, place)  # no seeking: several threads may read
        if sha256(data).digest() != cid.digest:
            raise Corrupt(cid, "the block was changed while the archive was read")
        return data

    def _has_block(self, cid: CID) -> bool:
        return cid.digest in self._places
