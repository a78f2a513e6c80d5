"""The embedded store: a folder of blocks named by their digest, with the same CIDs as Kubo.

Layout: ``blocks/<digest>`` (hex, one verified block each), ``pins/<digest>`` (empty; a pinned root), ``temp/`` (writes
under way), ``lock``. A block appears by renaming a synced file, leaves before their root, so that a process killed at
any moment leaves no partial block and no root without its leaves. All changes hold the lock; reads need none.

A folder may come from a stranger: only regular files are read, without following links, and never more than a block.
"""

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from fedgrove.common.regular_file import NotRegular, open_regular
from fedgrove.ipfs.blobs import BlockReader, most_unfolded
from fedgrove.ipfs.cid import CID, RAW
from fedgrove.ipfs.store import Corrupt, DiskFull, NotFound, QuotaExceeded, StoreError, TooLarge
from fedgrove.ipfs.unixfs import MAX_BLOCK_BYTES, DagBlock

BLOCKS, PINS, TEMP, LOCK = "blocks", "pins", "temp", "lock"
DIGEST_NAME = re.compile(r"[0-9a-f]{64}\Z")
_LOCK_SECONDS = 60.0


class DiskReader(BlockReader):
    """The blobs of a folder, for whoever only reads: it makes and changes nothing, so the medium may take no writes.

    Parameters
    ----------
    path
        The folder; one that is missing holds nothing.
    grows
        Whether somebody writes to it. If not, no blob may unfold to more than the whole folder's size accounts for: a
        few blocks can describe an endless file of repeated parts.
    """

    def __init__(self, path: str | Path, grows: bool = False) -> None:
        self.path = Path(path)
        self._grows = grows
        self._blocks, self._pins, self._temp = (self.path / name for name in (BLOCKS, PINS, TEMP))

    def export(self) -> Iterator[DagBlock]:
        """Yield every block of every pinned blob once, verified, for an archive (``ipfs.car.write``).

        Raises
        ------
        Corrupt
            A block is damaged. Blobs that lack a block are left out as far as they are gone.
        """
        seen: set[CID] = set()
        for digest in self._digests(self._pins):
            try:
                for cid in self.blocks(digest):
                    if cid not in seen:
                        seen.add(cid)
                        yield DagBlock(cid, self._read_block(cid, MAX_BLOCK_BYTES))
            except NotFound:
                continue

    def held(self) -> set[bytes]:
        """Digests of all that lies there, blocks and pins, whatever it belongs to."""
        return {*self._digests(self._blocks), *self._digests(self._pins)}

    def used_bytes(self) -> int:
        """Bytes of all blocks held, which is what the quota counts."""
        with self._disk_errors():
            sizes = (each.stat(follow_symlinks=False).st_size for each in _entries(self._blocks))
            return sum(min(size, MAX_BLOCK_BYTES) for size in sizes)

    @cached_property
    def max_blob_bytes(self) -> int | None:
        return None if self._grows else most_unfolded(self.used_bytes())

    def _read_block(self, cid: CID, max_bytes: int) -> bytes:
        with self._disk_errors():
            try:
                with open_regular(self._block_path(cid), follow=False) as file:
                    data = file.read(MAX_BLOCK_BYTES + 1)
            except FileNotFoundError:
                raise NotFound(cid, f"the store at {self.path} does not hold this block") from None
            except NotRegular:
                raise Corrupt(cid, f"the store at {self.path} has something else than a file under this name") from None
        if len(data) > MAX_BLOCK_BYTES:
            raise Corrupt(cid, f"the store at {self.path} holds more bytes under this name than a block can have")
        if sha256(data).digest() != cid.digest:
            raise Corrupt(cid, f"the block in the store at {self.path} is damaged: its bytes do not match its CID")
        # Only what hashes to its CID says something about whoever published it, its size included.
        if len(data) > max_bytes:
            raise TooLarge(cid, f"the block has {len(data)} bytes, but at most {max_bytes} are allowed")
        return data

    def _has_block(self, cid: CID) -> bool:
        try:
            return stat.S_ISREG(self._block_path(cid).lstat().st_mode)
        except OSError:
            return False

    def _block_path(self, cid: CID) -> Path:
        return self._blocks / cid.digest.hex()

    def _digests(self, folder: Path) -> list[bytes]:
        """Return the digests that name the folder's files; other files in it are none of ours."""
        with self._disk_errors():
            return [bytes.fromhex(each.name) for each in _entries(folder) if DIGEST_NAME.match(each.name)]

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as fault:
            reason = f"the store at {self.path} cannot be used: {fault.strerror or fault}"
            if fault.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFull(f"{reason}; make room and run the command again") from fault
            raise StoreError(reason) from fault


class DiskStore(DiskReader):
    """A ``ContentStore`` in a folder, safe for several threads and processes of one machine.

    Parameters
    ----------
    path
        The folder; made if missing.
    quota_bytes
        Most bytes of blocks the store may hold (None: as much as the disk takes).
    """

    def __init__(self, path: str | Path, quota_bytes: int | None = None) -> None:
        super().__init__(path, grows=True)
        self.quota_bytes = quota_bytes
        with self._disk_errors():
            for folder in (self._blocks, self._pins, self._temp):
                folder.mkdir(parents=True, exist_ok=True)

    def put(self, data: bytes) -> CID:
        blocks = self._split(data)
        with self._changes():
            missing = [block for block in blocks if not self._holds(block)]
            self._check_quota(sum(len(block.data) for block in missing))
            self._write(missing)
            self._write_pin(blocks[-1].cid.digest)
        return blocks[-1].cid

    def add(self, chunks: Iterable[bytes]) -> CID:
        root = None
        for block in self._chunked(chunks):
            self.add_blocks([block])
            root = block.cid
        if root is None:
            raise ValueError("a file has at least one chunk, which may be empty")
        with self._changes():
            self._write_pin(root.digest)
        return root

    def pin(self, digest: bytes) -> None:
        with self._changes():
            if not self.has(digest):
                raise NotFound(CID.from_digest(digest, RAW), f"the store at {self.path} does not hold all of it")
            self._write_pin(digest)

    def unpin(self, digest: bytes) -> None:
        with self._changes():
            (self._pins / digest.hex()).unlink(missing_ok=True)
            _sync(self._pins)

    def discard_unfinished(self) -> None:
        """Remove what killed processes were writing: nobody else writes while the lock is held."""
        with self._changes():
            for leftover in self._temp.iterdir():
                leftover.unlink()

    def collect_garbage(self) -> int:
        """Remove every block that belongs to no pinned blob and return how many these were.

        Raises
        ------
        NotFound, Corrupt
            A node of a pinned blob cannot be read, so what it needs is unknown; nothing was removed.
        """
        self.discard_unfinished()
        with self._changes():
            kept = {block.digest for digest in self._digests(self._pins) for block in self.blocks(digest)}
            garbage = [digest for digest in self._digests(self._blocks) if digest not in kept]
            for digest in garbage:
                (self._blocks / digest.hex()).unlink()
            _sync(self._blocks)
        return len(garbage)

    def add_blocks(self, blocks: Iterable[DagBlock]) -> None:
        """Store blocks that are verified already (``ipfs.car.read`` does); nothing is pinned.

        Raises
        ------
        QuotaExceeded
        """
        for block in blocks:
            with self._changes():
                if not self._holds(block):
                    self._check_quota(len(block.data))
                    self._write([block])

    def _holds(self, block: DagBlock) -> bool:
        """Whether the block is there undamaged; storing content again repairs it."""
        try:
            with open_regular(self._block_path(block.cid), follow=False) as file:
                return file.read(MAX_BLOCK_BYTES + 1) == bytes(block.data)
        except (FileNotFoundError, NotRegular):
            return False

    def _check_quota(self, new_bytes: int) -> None:
        if self.quota_bytes is None or new_bytes == 0:
            return
        used = self.used_bytes()
        if used + new_bytes > self.quota_bytes:
            raise QuotaExceeded(
                f"{new_bytes} more bytes exceed the quota of the store at {self.path} "
                f"({used} of {self.quota_bytes} bytes in use): unpin and collect garbage, or raise the quota"
            )

    def _write(self, blocks: list[DagBlock]) -> None:
        """Make new blocks appear, durable and whole; the last one (the root) after all others are durable."""
        try:
            for block in blocks:
                (self._temp / block.cid.digest.hex()).write_bytes(block.data)
            for block in blocks:  # after all writes: the first sync carries most of the others
                _sync(self._temp / block.cid.digest.hex())
            for group in (blocks[:-1], blocks[-1:]):
                for block in group:
                    os.replace(self._temp / block.cid.digest.hex(), self._block_path(block.cid))
                if group:
                    _sync(self._blocks)
        except BaseException:
            for block in blocks:
                (self._temp / block.cid.digest.hex()).unlink(missing_ok=True)
            raise

    def _write_pin(self, digest: bytes) -> None:
        pin = self._pins / digest.hex()
        if not pin.exists():
            pin.touch()
            _sync(self._pins)

    @contextmanager
    def _changes(self) -> Iterator[None]:
        """Hold the store's lock, against threads and processes."""
        with self._disk_errors(), open(self.path / LOCK, "ab") as file:
            deadline = time.monotonic() + _LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise StoreError(
                            f"another process has been changing the store at {self.path} for {_LOCK_SECONDS:.0f} s: "
                            "wait for it to finish or stop it, then try again"
                        ) from None
                    time.sleep(0.005)
            yield


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Entries of a folder, by name; empty if the folder does not exist."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        return []


def _sync(path: Path) -> None:
    """Make a file's bytes durable, or a folder's renames and removals."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
