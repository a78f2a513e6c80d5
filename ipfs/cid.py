"""Content identifiers (CID) over sha2-256: version 1 (``bafy…``, ``bafk…``) and the older version 0 (``Qm…``).

Source: the multiformats CID specification. Only what a UnixFS file needs is accepted: the codecs raw and dag-pb and the
multihash sha2-256. Both the text and the binary form have exactly one spelling here; every other spelling is refused,
so that equal content has equal names.
"""

import base64
import hashlib
import re
from dataclasses import dataclass

from fedgrove.common.errors import InvalidContent

RAW = 0x55
DAG_PB = 0x70
DIGEST_BYTES = 32

_MULTIHASH_PREFIX = bytes([0x12, DIGEST_BYTES])  # sha2-256, 32 bytes
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_V1_TEXT = re.compile(r"b[a-z2-7]{58}\Z")
_V0_TEXT = re.compile(rf"Qm[{_BASE58}]{{44}}\Z")


class InvalidCID(InvalidContent):
    """The text or bytes are not a CID of the accepted kinds."""


@dataclass(frozen=True)
class CID:
    """Name of a block: CID version (0 or 1), codec of the block (``RAW`` or ``DAG_PB``), sha2-256 digest (32 bytes)."""

    version: int
    codec: int
    digest: bytes

    def __post_init__(self) -> None:
        if len(self.digest) != DIGEST_BYTES:
            raise InvalidCID(f"a sha2-256 digest has 32 bytes, not {len(self.digest)}")
        if (self.version, self.codec) not in ((1, RAW), (1, DAG_PB), (0, DAG_PB)):
            raise InvalidCID(f"CID version {self.version} with codec {self.codec:#x} is not supported")

    @classmethod
    def of_block(cls, data: bytes | memoryview, codec: int, version: int = 1) -> "CID":
        """Return the CID of one block with these bytes."""
        return cls(version, codec, hashlib.sha256(data).digest())

    @classmethod
    def from_digest(cls, digest: bytes, codec: int) -> "CID":
        """Return the CIDv1 of the block with this sha2-256 digest (32 bytes)."""
        return cls(1, codec, digest)

    @classmethod
    def from_bytes(cls, data: bytes) -> "CID":
        """Parse the binary form: 36 bytes (version 1) or 34 bytes (version 0).

        Raises
        ------
        InvalidCID
            Anything else: another length, version, codec, hash function.
        """
        if len(data) == 34 and data.startswith(_MULTIHASH_PREFIX):
            return cls(0, DAG_PB, data[2:])
        if len(data) == 36 and data[0] == 1 and data[2:4] == _MULTIHASH_PREFIX:
            return cls(1, data[1], data[4:])
        raise InvalidCID(f"{len(data)} bytes that are not a CID over sha2-256")

    @classmethod
    def parse(cls, text: str) -> "CID":
        """Parse base32 text (``b…``, version 1) or base58 text (``Qm…``, version 0).

        Raises
        ------
        InvalidCID
            The text is not such a CID or not its canonical spelling.
        """
        if _V1_TEXT.match(text):
            cid = cls.from_bytes(base64.b32decode(text[1:].upper() + "=" * 6))
        elif _V0_TEXT.match(text):
            cid = cls.from_bytes(_base58_decode(text))
        else:
            raise InvalidCID(f"{text[:80]!r} is not a CID (expected bafk…, bafy… or Qm…)")
        if str(cid) != text:
            raise InvalidCID(f"{text!r} is not the canonical spelling of a CID")
        return cid

    def __bytes__(self) -> bytes:
        multihash = _MULTIHASH_PREFIX + self.digest
        return multihash if self.version == 0 else bytes([1, self.codec]) + multihash

    def __str__(self) -> str:
        if self.version == 0:
            return _base58_encode(bytes(self))
        return "b" + base64.b32encode(bytes(self)).decode().lower().rstrip("=")


def _base58_encode(data: bytes) -> str:
    """Base58 (Bitcoin alphabet) of bytes that start with a byte other than zero, as a multihash does."""
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = _BASE58[digit] + text
    return text


def _base58_decode(text: str) -> bytes:
    number = 0
    for character in text:
        number = number * 58 + _BASE58.index(character)
    return number.to_bytes((number.bit_length() + 7) // 8, "big")
