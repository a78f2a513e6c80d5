"""Content of any size under a key, in segments: each can be checked by itself, and none moved, dropped or added.

STREAM (Hoang et al., *Online Authenticated-Encryption and its Nonce-Reuse Misuse-Resistance*, 2015) with
ChaCha20-Poly1305, as in the file format of age: each content has a key of its own, derived from a random salt; the
nonce of a segment is its number and whether it is the last.
"""

from collections.abc import Iterable, Iterator
from os import urandom
from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedgrove.common.chunks import Buffer, cut
from fedgrove.common.errors import InvalidContent

SEGMENT_BYTES = 1 << 20
_SALT_BYTES, _TAG_BYTES, _KEY_BYTES, _COUNTER_BYTES = 16, 16, 32, 11


def seal(key: bytes, name: bytes, chunks: Iterable[Buffer]) -> Iterator[bytes]:
    """Yield the sealed form of content: a salt and the segments. Memory is that of a segment."""
    salt = urandom(_SALT_BYTES)
    cipher = _cipher(key, salt, name)
    yield salt
    number, held = 0, b""
    for segment in cut(chunks, SEGMENT_BYTES):
        if number or held:
            yield cipher.encrypt(_nonce(number, False), held, None)
            number += 1
        held = segment
    yield cipher.encrypt(_nonce(number, True), held, None)


def unseal(key: bytes, name: bytes, file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of what ``seal`` made, each chunk checked; it is whole only when the iterator has ended.

    Raises
    ------
    InvalidContent
    """
    cipher = _cipher(key, file.read(_SALT_BYTES), name)
    number, sealed = 0, file.read(SEGMENT_BYTES + _TAG_BYTES)
    while sealed or not number:
        following = file.read(SEGMENT_BYTES + _TAG_BYTES)
        try:
            yield cipher.decrypt(_nonce(number, not following), sealed, None)
        except InvalidTag:
            raise InvalidContent(f"segment {number} is not what was sealed") from None
        number, sealed = number + 1, following


def _cipher(key: bytes, salt: bytes, name: bytes) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(HKDF(SHA256(), _KEY_BYTES, salt, b"fedgrove sealed stream 1 " + name).derive(key))


def _nonce(number: int, last: bool) -> bytes:
    return number.to_bytes(_COUNTER_BYTES) + bytes([last])
