"""The embedded chain on disk: one file that grows by a frame for each block, so that a kill costs one block at most.

A frame holds what the chain's database was given since the frame before, compressed, behind its length and CRC-32. A
frame that a kill cut short is cut off when the file is opened again. Writes are not synced: a kill loses nothing of
them, a power failure may cost the last blocks.
"""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from eth.db.backends.memory import MemoryDB

from fedgrove.chain.errors import ChainError

_MAGIC = b"fedgrove chain 1\n"
_FRAME = struct.Struct("<II")  # length and CRC-32 of the compressed entries
_ENTRY = struct.Struct("<II")  # lengths of key and value
_GONE = 0xFFFFFFFF  # in place of a value's length: the key was deleted


class StateFile(MemoryDB):
    """A key-value database in memory that can be read again from a file.

    Parameters
    ----------
    path : Path
        Made when missing, readable by its owner only.
    genesis : dict
        What a new file begins with.

    Raises
    ------
    ChainError
        The file is not such a database.
    """

    def __init__(self, path: Path, genesis: dict[bytes, bytes]) -> None:
        super().__init__()
        self._pending: dict[bytes, bytes | None] = {}
        path.touch(mode=0o600)
        self._file = path.open("r+b", buffering=0)
        self._end = self._load(path)
        if not self.kv_store:
            for key, value in genesis.items():
                self[key] = value
            self.commit()

    def __setitem__(self, key: bytes, value: bytes) -> None:
        super().__setitem__(key, value)
        self._pending[key] = value

    def __delitem__(self, key: bytes) -> None:
        super().__delitem__(key)
        self._pending[key] = None

    def commit(self) -> None:
        """Write what has changed since the last time.

        Raises
        ------
        OSError
            There is no room; the file is as it was, and the next time writes this as well.
        """
        payload = zlib.compress(b"".join(map(_packed, self._pending.items())), 1)
        frame = _FRAME.pack(len(payload), zlib.crc32(payload)) + payload
        self._file.truncate(self._end)
        self._file.seek(self._end)
        try:
            _write(self._file, frame)
        except OSError:
            self._file.truncate(self._end)
            raise
        self._end += len(frame)
        self._pending.clear()

    def close(self) -> None:
        """Close the file; nothing more can be written."""
        self._file.close()

    def _load(self, path: Path) -> int:
        """Read all whole frames; returns where the last one ends."""
        data = self._file.readall() or b""
        if data[: len(_MAGIC)] != _MAGIC[: len(data)]:
            raise ChainError(f"{path} is not the file of an embedded chain; give another.")
        end = len(_MAGIC)
        if len(data) < end:
            self._file.seek(0)
            _write(self._file, _MAGIC)
        for payload in _frames(data, end):
            self._apply(payload)
            end += _FRAME.size + len(payload)
        return end

    def _apply(self, payload: bytes) -> None:
        entries, at = zlib.decompress(payload), 0
        while at < len(entries):
            key_length, value_length = _ENTRY.unpack_from(entries, at)
            at += _ENTRY.size
            key = entries[at : at + key_length]
            at += key_length
            if value_length == _GONE:
                self.kv_store.pop(key, None)
                continue
            self.kv_store[key] = entries[at : at + value_length]
            at += value_length


def _packed(change: tuple[bytes, bytes | None]) -> bytes:
    key, value = change
    if value is None:
        return _ENTRY.pack(len(key), _GONE) + key
    return _ENTRY.pack(len(key), len(value)) + key + value


def _frames(data: bytes, at: int) -> Iterator[bytes]:
    """Payloads of the whole frames from a place on."""
    while at + _FRAME.size <= len(data):
        length, checksum = _FRAME.unpack_from(data, at)
        at += _FRAME.size
        payload = data[at : at + length]
        if len(payload) < length or zlib.crc32(payload) != checksum:
            return
        yield payload
        at += length


def _write(file: BinaryIO, data: bytes) -> None:
    """All of it: an unbuffered file may take a part only."""
    while data:
        data = data[file.write(data) :]
