"""Keys that can be destroyed: fixed slots in one small file, each overwritten where it lies on the disk.

A file that is replaced or removed leaves its old bytes on the disk until something else happens to be written there. So
whatever must go is encrypted under a key of its own, and what is destroyed is the key: its slot is overwritten in
place and synced. The slot file is never renamed, replaced or shortened, so that a slot keeps its block on the disk. It
grows by whole pages.

This holds for file systems that overwrite in place, as ext4 does. ``keeps_overwritten`` names those that do not.
Snapshots, backups and flash memory that levels its wear keep old bytes below any file system (docs/threat-model.md).

A slot has 128 bytes: ``KEY1`` (4), the key's id (32), its scope (32), a nonce (12) and the key, sealed by
ChaCha20-Poly1305 under the wrapping key (48). The first 68 bytes are authenticated with it. A free slot is all zeros.
"""

import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fedgrove.common.errors import RunFailed
from fedgrove.node.base.files import sync_directory

ID_BYTES = 32
SLOT_BYTES = 128
PAGE_BYTES = 4096  # more than a file system keeps inside an inode, where bytes would go through its own journal
MAX_SLOTS = 1 << 16
_MAGIC, _FREE = b"KEY1", bytes(SLOT_BYTES)
_NONCE_BYTES, _KEY_BYTES = 12, 32
_NAMED_BYTES = len(_MAGIC) + 2 * ID_BYTES
_CHANGE = os.O_RDWR | os.O_CREAT
_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # no link is followed, no pipe waited for
_MOUNTS = Path("/proc/self/mountinfo")
_COPYING = frozenset({"bcachefs", "btrfs", "f2fs", "nilfs2", "zfs"})


class NoSlotFile(RunFailed):
    """The path holds something else than a slot file."""


@dataclass(frozen=True)
class SlotKey:
    """A key and its id; ``scope`` is the digest of what it is for."""

    id: bytes
    scope: bytes
    key: bytes = field(repr=False)


class SlotFile:
    """The file of the slots, which threads and processes use one after the other.

    Parameters
    ----------
    path : Path
        Made with the first change, mode 0600.
    wrapping_key : bytes
        32 bytes that every key is sealed under.
    """

    def __init__(self, path: Path, wrapping_key: bytes) -> None:
        self._path = path
        self._cipher = ChaCha20Poly1305(wrapping_key)

    @contextmanager
    def held(self, changing: bool = False) -> Iterator["Slots"]:
        """The slots, while the block holds the lock, to read them or to change them.

        Raises
        ------
        NoSlotFile
        """
        try:
            descriptor = os.open(self._path, (_CHANGE if changing else os.O_RDONLY) | _PLAIN, 0o600)
        except FileNotFoundError:
            yield Slots(-1, self._path, self._cipher)
            return
        except OSError as fault:
            if fault.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                raise NoSlotFile(f"{self._path} is not a regular file: remove it") from None
            raise
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise NoSlotFile(f"{self._path} is not a regular file: remove it")
            fcntl.flock(descriptor, fcntl.LOCK_EX if changing else fcntl.LOCK_SH)
            yield Slots(descriptor, self._path, self._cipher)
        finally:
            os.close(descriptor)


class Slots:
    """The keys in a slot file whose lock is held; made by ``SlotFile.held``. No keys where there is no file."""

    def __init__(self, descriptor: int, path: Path, cipher: ChaCha20Poly1305) -> None:
        self._descriptor = descriptor
        self._path = path
        self._cipher = cipher

    def find(self, key_id: bytes) -> SlotKey | None:
        """The key with an id; None if it is not there, was destroyed, or cannot be opened with the wrapping key."""
        return next((self._unseal(slot) for _, slot in self._taken() if _id_of(slot) == key_id), None)

    def of_scope(self, scope: str) -> SlotKey | None:
        """The first key of a scope that can be opened."""
        found = (self._unseal(slot) for _, slot in self._taken() if _scope_of(slot) == _digest(scope))
        return next((key for key in found if key is not None), None)

    def add(self, scope: str) -> SlotKey:
        """A fresh key, durable when this returns."""
        key = SlotKey(os.urandom(ID_BYTES), _digest(scope), os.urandom(_KEY_BYTES))
        named, nonce = _MAGIC + key.id + key.scope, os.urandom(_NONCE_BYTES)
        self._overwrite([self._free_place()], named + nonce + self._cipher.encrypt(nonce, key.key, named))
        return key

    def destroy_others(self, kept: Container[bytes]) -> None:
        """Overwrite every key whose id is not among those kept: gone when this returns."""
        gone = [place for place, slot in self._taken() if _id_of(slot) not in kept]
        if gone:
            self._overwrite(gone, _FREE)

    def _taken(self) -> Iterator[tuple[int, bytes]]:
        """Places and bytes of all slots that are not free."""
        if self._descriptor < 0:
            return
        size = min(os.fstat(self._descriptor).st_size, MAX_SLOTS * SLOT_BYTES)
        data = os.pread(self._descriptor, size, 0)
        for place in range(0, len(data) - SLOT_BYTES + 1, SLOT_BYTES):
            slot = data[place : place + SLOT_BYTES]
            if slot != _FREE:
                yield place, slot

    def _unseal(self, slot: bytes) -> SlotKey | None:
        named, rest = slot[:_NAMED_BYTES], slot[_NAMED_BYTES:]
        try:
            key = self._cipher.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], named)
        except InvalidTag:
            return None
        return SlotKey(_id_of(slot), _scope_of(slot), key)

    def _free_place(self) -> int:
        """Where the first free slot is; the file grows by a page when there is none."""
        size, taken = os.fstat(self._descriptor).st_size, {place for place, _ in self._taken()}
        whole = size - size % PAGE_BYTES  # less than a page at the end is what a killed process was adding
        free = next((place for place in range(0, whole, SLOT_BYTES) if place not in taken), None)
        if free is not None:
            return free
        if whole >= MAX_SLOTS * SLOT_BYTES:
            raise NoSlotFile(f"{self._path} is full, with {MAX_SLOTS} keys: that is more than a journal needs")
        # Written before a key is, so that no key's bytes are ever in a block that the file system may yet move.
        self._write(whole, bytes(PAGE_BYTES))
        os.fsync(self._descriptor)
        sync_directory(self._path.parent)
        return whole

    def _overwrite(self, places: list[int], slot: bytes) -> None:
        """Write slots where they lie, durable when this returns."""
        for place in places:
            self._write(place, slot)
        os.fdatasync(self._descriptor)

    def _write(self, place: int, data: bytes) -> None:
        if os.pwrite(self._descriptor, data, place) != len(data):
            raise OSError(f"{self._path} could not be written completely")


def keeps_overwritten(directory: Path) -> str:
    """The file system that a directory is on if it keeps bytes that were overwritten; empty if it is not known to.

    A file system of that kind writes elsewhere instead of in place, or has everything in a journal of its own first:
    destroyed keys stay on the disk until that place is used again.
    """
    try:
        lines = [line.split() for line in _MOUNTS.read_text().splitlines()]
    except OSError:
        return ""
    place = directory.resolve()
    # Of each mount its point (the fifth word), and behind the dash its kind, its source and its options.
    mounts = {words[4]: words[words.index("-") + 1 :] for words in lines if "-" in words[5:-3]}
    # Later lines hide earlier ones of the same point. Blanks in a path are written as octal codes.
    points = (point for point in mounts if place.is_relative_to(point.replace("\\040", " ")))
    kind, _, options = mounts.get(max(points, key=len, default=""), ("", "", ""))[:3]
    if kind in _COPYING:
        return kind
    return f"{kind} with data=journal" if "data=journal" in options.split(",") else ""


def _id_of(slot: bytes) -> bytes:
    return slot[len(_MAGIC) : len(_MAGIC) + ID_BYTES]


def _scope_of(slot: bytes) -> bytes:
    return slot[_NAMED_BYTES - ID_BYTES : _NAMED_BYTES]


def _digest(scope: str) -> bytes:
    return hashlib.sha256(scope.encode()).digest()
