"""Content identifiers (CID) of version 1 over sha2-256: ``bafy…`` and ``bafk…``.

Source: the multiformats CID specification. Only what a UnixFS file needs is accepted: the codecs raw and dag-pb and the
multihash sha2-256. Both the text and the binary form have exactly one spelling here; every other spelling is refused,
so that equal content has equal names. Version 0 (``Qm…``) names dag-pb blocks alone, and nothing here is named so.
"""

import base64
import hashlib
import re
from dataclasses import dataclass

from fedgrove.common.errors import InvalidContent

RAW = 0x55
DAG_PB = 0x70
DIGEST_BYTES = 32

_VERSION = 1
_MULTIHASH_PREFIX = bytes([0x12, DIGEST_BYTES])  # sha2-256, 32 bytes
_TEXT = re.compile(r"b[a-z2-7]{58}\Z")


@dataclass(frozen=True)
class CID:
    """Name of a block: codec of the block (``RAW`` or ``DAG_PB``), sha2-256 digest (32 bytes)."""

    codec: int
    digest: bytes

    def __post_init__(self) -> None:
        if len(self.digest) != DIGEST_BYTES:
            raise InvalidContent(f"a sha2-256 digest has 32 bytes, not {len(self.digest)}")
        if self.codec not in (RAW, DAG_PB):
            raise InvalidContent(f"a CID with codec {self.codec:#x} is not supported")

    @classmethod
    def of_block(cls, data: bytes | memoryview, codec: int) -> "CID":
        """Return the CID of one block with these bytes."""
        return cls(codec, hashlib.sha256(data).digest())

    @classmethod
    def from_digest(cls, digest: bytes, codec: int) -> "CID":
        """Return the CID of the block with this sha2-256 digest (32 bytes)."""
        return cls(codec, digest)

    @classmethod
    def from_bytes(cls, data: bytes) -> "CID":
        """Parse the binary form, 36 bytes.

        Raises
        ------
        InvalidContent
            Anything else: another length, version, codec, hash function.
        """
        if len(data) == 36 and data[0] == _VERSION and data[2:4] == _MULTIHASH_PREFIX:
            return cls(data[1], data[4:])
        raise InvalidContent(f"{len(data)} bytes that are not a CID over sha2-256")

    @classmethod
    def parse(cls, text: str) -> "CID":
        """Parse base32 text (``b…``).

        Raises
        ------
        InvalidContent
            The text is not such a CID or not its canonical spelling.
        """
        if not _TEXT.match(text):
            raise InvalidContent(f"{text[:80]!r} is not a CID (expected bafk… or bafy…)")
        cid = cls.from_bytes(base64.b32decode(text[1:].upper() + "=" * 6))
        if str(cid) != text:
            raise InvalidContent(f"{text!r} is not the canonical spelling of a CID")
        return cid

    def __bytes__(self) -> bytes:
        return bytes([_VERSION, self.codec]) + _MULTIHASH_PREFIX + self.digest

    def __str__(self) -> str:
        return "b" + base64.b32encode(bytes(self)).decode().lower().rstrip("=")
