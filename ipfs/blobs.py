"""Whole blobs out of a store of blocks: the codec rule, size bounds before fetching, verification, streaming."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator

from fedgrove.common.chunks import joined
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.cid import CID, DAG_PB, RAW
from fedgrove.ipfs.store import Corrupt, Malformed, NotFound, Root, StoreError, TooLarge
from fedgrove.ipfs.unixfs import (
    MAX_BLOCK_BYTES,
    UNIXFS_V1_2025,
    DagBlock,
    Link,
    build,
    chunks,
    decode_node,
    decode_root,
    depth_of,
)

MAX_UNFOLDING = 16  # an upload has at most a few times the bytes of the model that the same archive holds
FREE_UNFOLDING = 64 << 20


class BlockReader(ABC):
    """The reading half of a ``ContentStore`` on top of single verified blocks."""

    profile = UNIXFS_V1_2025
    networked = False
    max_blob_bytes: int | None = None
    """Most bytes of content that any blob of this store may unfold to, whatever its reader allows; None: no bound."""

    @abstractmethod
    def _read_block(self, cid: CID, max_bytes: int) -> bytes:
        """Return a block whose bytes have been hashed (``NotFound``, ``Corrupt``, ``TooLarge``, ``Unreachable``)."""

    @abstractmethod
    def _has_block(self, cid: CID) -> bool:
        """Whether the block is held locally."""

    def get(self, cid: CID, max_bytes: int) -> bytes:
        root = self._read_root(cid, max_bytes)
        if root.cid != cid:
            raise Corrupt(cid, f"this is not the root of a file; the CID of its content is {root.cid}")
        return joined(self._contents(root))

    def fetch(self, digest: bytes, max_bytes: int) -> bytes:
        return joined(self.stream(digest, max_bytes))

    def stream(self, digest: bytes, max_bytes: int) -> Iterator[bytes]:
        return self._contents(self._read_root(CID.from_digest(digest, RAW), max_bytes))

    def root(self, digest: bytes, max_bytes: int | None = None) -> Root:
        return self._read_root(CID.from_digest(digest, RAW), max_bytes)

    def has(self, digest: bytes) -> bool:
        cid = CID.from_digest(digest, RAW)
        if not self._has_block(cid):
            return False
        try:
            return all(self._has_block(block) for block in self._walk(self._read_root(cid)))
        except NotFound:
            return False

    def blocks(self, digest: bytes) -> Iterator[CID]:
        """Yield the CID of every block of a blob once; only nodes are read, not leaves.

        Raises
        ------
        NotFound, Corrupt
            The root, or a node on the way, cannot be read.
        """
        yield from self._walk(self._read_root(CID.from_digest(digest, RAW)))

    def available(self, digest: bytes, max_bytes: int | None = None) -> bool:
        try:
            root = self._read_root(CID.from_digest(digest, RAW), max_bytes)
            return all(map(self._finder(), self._walk(root)))
        except (NotFound, Corrupt, TooLarge):
            return False

    def _finder(self) -> Callable[[CID], bool]:
        """Return what ``available`` asks about every block; without a network that is whether it is held."""
        return self._has_block

    def _read_root(self, cid: CID, max_bytes: int | None = None) -> Root:
        """Read a blob's root block and hold the blob's size against ``max_bytes``."""
        # The root block of a chunked file is smaller than the file, so a larger block already shows a larger blob.
        data = self._read_block(cid, MAX_BLOCK_BYTES if max_bytes is None else min(max_bytes, MAX_BLOCK_BYTES))
        links = decode_root(data, self.profile) or ()
        size = sum(link.size for link in links) if links else len(data)
        root = Root(CID.from_digest(cid.digest, DAG_PB if links else RAW), data, size, links)
        if max_bytes is not None and size > max_bytes:
            raise TooLarge(root.cid, f"the content has {size} bytes, but at most {max_bytes} are allowed")
        return root

    def _contents(self, root: Root) -> Iterator[bytes]:
        """The content below a root, whose size is compared with ``max_blob_bytes`` before this returns."""
        if not root.links:
            return iter((root.data,))
        if self.max_blob_bytes is not None and root.size > self.max_blob_bytes:
            raise TooLarge(root.cid, f"its blocks repeat to {root.size} bytes, far more than the whole archive holds")
        return self._subtree(root.links, depth_of(root.size, self.profile))

    def _subtree(self, links: tuple[Link, ...], depth: int) -> Iterator[bytes]:
        """Yield the content below the children of a node ``depth`` levels above the leaves."""
        for link in links:
            if depth > 1:
                yield from self._subtree(self._read_node(link, depth - 1), depth - 1)
                continue
            try:
                data = self._read_block(link.cid, link.size)
            except TooLarge:
                raise Malformed(
                    link.cid, f"the block is larger than the {link.size} bytes that its parent states"
                ) from None
            if len(data) != link.size:
                raise Malformed(link.cid, f"the block has {len(data)} bytes, but its parent states {link.size}")
            yield data

    def _read_node(self, link: Link, depth: int) -> tuple[Link, ...]:
        data = self._read_block(link.cid, MAX_BLOCK_BYTES)
        try:
            return decode_node(data, link.size, depth, self.profile)
        except InvalidContent as fault:
            raise Malformed(link.cid, str(fault)) from None

    def _walk(self, root: Root) -> Iterator[CID]:
        """Yield the CID of every block of a blob once; only nodes are read, not leaves.

        A few blocks can describe an endless file of repeated parts, hence each block is visited only once.
        """
        yield root.cid
        seen = {root.cid}
        pending = [(link, depth_of(root.size, self.profile) - 1) for link in root.links]
        while pending:
            link, depth = pending.pop()
            if link.cid in seen:
                continue
            seen.add(link.cid)
            yield link.cid
            if depth > 0:
                pending.extend((child, depth - 1) for child in self._read_node(link, depth))

    def _chunked(self, chunks: Iterable[bytes]) -> Iterator[DagBlock]:
        """Yield the blocks of new content given in chunks, root last; refuse what its digest would not give."""
        leaves = 0
        for block in build(chunks, self.profile):
            yield block
            leaves += block.cid.codec == RAW
            if leaves == 1 and decode_root(bytes(block.data), self.profile):
                raise _ambiguous(block.cid)

    def _split(self, data: bytes) -> list[DagBlock]:
        """Return the blocks of new content, each once, root last; refuse content that its digest would not give."""
        blocks = list({block.cid: block for block in build(chunks(data, self.profile), self.profile)}.values())
        if len(blocks) == 1 and decode_root(bytes(data), self.profile):
            raise _ambiguous(blocks[0].cid)
        return blocks


def _ambiguous(cid: CID) -> StoreError:
    return StoreError(
        f"{cid}: the content is itself the root block of a file and cannot be stored as content; "
        "wrap it (for example in an archive) and store that"
    )


def most_unfolded(held_bytes: int) -> int:
    """Most bytes that one blob may unfold to, out of an archive whose blocks have ``held_bytes`` in all."""
    return max(FREE_UNFOLDING, MAX_UNFOLDING * held_bytes)
