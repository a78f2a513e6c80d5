"""The pseudo-random files behind the CIDs that Kubo publishes in its test suite."""

import hashlib
from collections.abc import Iterator

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms


def deterministic_random(seed: str, size: int, piece: int) -> Iterator[bytes]:
    """The byte stream of Kubo's test suite (test/cli/testutils, DeterministicRandomReader), in pieces.

    It is the ChaCha20 key stream under the key sha256(seed) with a zero nonce.
    """
    cipher = algorithms.ChaCha20(hashlib.sha256(seed.encode()).digest(), bytes(16))
    encryptor, zeros = Cipher(cipher, mode=None).encryptor(), bytes(piece)
    for start in range(0, size, piece):
        yield encryptor.update(zeros[: min(piece, size - start)])
