"""The protocol of every content store, and its errors: one sentence each, naming what is meant by its CID."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from fedgrove.common.errors import Error
from fedgrove.ipfs.cid import CID
from fedgrove.ipfs.unixfs import Link


class StoreError(Error):
    """Base of all errors of a store."""


class BlobError(StoreError):
    """An error about one piece of content; ``cid`` names it.

    Where only a digest was asked for and no block could be read, the codec is unknown and the CID is the raw one.
    """

    def __init__(self, cid: CID, reason: str) -> None:
        super().__init__(f"{cid}: {reason}")
        self.cid = cid


class NotFound(BlobError):
    """The store does not hold the content, or did not find it in the time given."""


class Corrupt(BlobError):
    """The bytes do not match the CID, or the block is not what its CID or its parent says."""


class Malformed(Corrupt):
    """Every block is what its CID says, but they do not make a file: whoever published the content lied."""


class TooLarge(BlobError):
    """The content is larger than the caller allows; found before its parts are fetched."""


class QuotaExceeded(StoreError):
    """Storing the content would exceed the store's quota; nothing was written."""


class DiskFull(StoreError):
    """The disk takes no more; what was being stored is not there, all else is."""


class Unreachable(StoreError):
    """The store's service did not answer, or not in time."""


@dataclass(frozen=True)
class Root:
    """A blob's verified root block: its CID, its bytes, the size of the blob, its children (none: raw content)."""

    cid: CID
    data: bytes
    size: int
    links: tuple[Link, ...]


class ContentReader(Protocol):
    """Blobs by content, to be read.

    A digest is the sha2-256 digest (32 bytes) of a blob's root block, as the ledger records it.

    Codec rule: a block is the root of a chunked file iff ``ipfs.unixfs.decode_root`` accepts its bytes; every other
    block is the content itself. Everything returned has been verified.
    """

    @property
    def networked(self) -> bool:
        """Whether it looks for what it lacks elsewhere, which can take its timeout."""
        ...

    def get(self, cid: CID, max_bytes: int) -> bytes:
        """Return the blob with this CID.

        Raises
        ------
        NotFound, Corrupt, TooLarge, Unreachable
        """
        ...

    def fetch(self, digest: bytes, max_bytes: int) -> bytes:
        """Return the blob whose root block has this digest (same errors as ``get``)."""
        ...

    def root(self, digest: bytes, max_bytes: int | None = None) -> Root:
        """Return a blob's verified root block, which tells its CID and its size (same errors as ``get``)."""
        ...

    def stream(self, digest: bytes, max_bytes: int) -> Iterator[bytes]:
        """Yield a blob in order, at most 1 MiB at a time; its root and size are checked before this returns."""
        ...

    def has(self, digest: bytes) -> bool:
        """Whether every block of the blob is held locally (their bytes are verified when they are read)."""
        ...

    def available(self, digest: bytes, max_bytes: int | None = None) -> bool:
        """Whether a whole blob of at most ``max_bytes`` can be had from here (None: of any size).

        A networked store looks for what is missing, for its timeout (a block asked for by then is still waited for),
        and keeps what it finds, so that asking again goes on from there. A blob whose root or nodes are malformed
        cannot be had; leaves are verified when they are read.

        Raises
        ------
        Unreachable
        """
        ...


class ContentStore(ContentReader, Protocol):
    """Blobs by content. ``put`` refuses content that the codec rule would misread."""

    def put(self, data: bytes) -> CID:
        """Store a blob and pin it; the same content again changes nothing.

        Raises
        ------
        StoreError, QuotaExceeded, Unreachable
        """
        ...

    def add(self, chunks: Iterable[bytes]) -> CID:
        """Store a large blob, given in chunks of 1 MiB (the last may be shorter), and pin it; few are held in memory.

        Raises
        ------
        StoreError, QuotaExceeded, Unreachable
        """
        ...

    def pin(self, digest: bytes) -> None:
        """Keep a blob through garbage collection.

        Raises
        ------
        NotFound
            The blob is not there as a whole.
        """
        ...

    def unpin(self, digest: bytes) -> None:
        """Allow garbage collection to remove a blob; without effect when it is not pinned."""
        ...

    def collect_garbage(self) -> int:
        """Remove every block that belongs to no pinned blob and return how many these were."""
        ...
