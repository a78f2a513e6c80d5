"""Messages for one reader, sealed to its X25519 mailbox key (RFC 7748), by HKDF and ChaCha20-Poly1305 (RFC 5869, 8439).

Message: ephemeral public key (32) ‖ ciphertext and tag. The key is derived from the agreement and the context, and
serves once, so the nonce is zero. A reader learns nothing of who wrote: that the ledger says.
"""

from collections.abc import Iterable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.keys import SECRET_BYTES, Random, agree, clamp, derive, is_low_order, public_key

OVERHEAD = SECRET_BYTES + 16
"""Bytes that a sealed message has more than what it says."""

_SEAL = b"fedgrove mailbox 1"
_NONCE = bytes(12)


def seal(public: bytes, plain: bytes, context: bytes, random: Random) -> bytes:
    """Seal ``plain`` for the holder of a mailbox key; to a key of low order, which has no holder, random bytes."""
    if is_low_order(public):
        return random(len(plain) + OVERHEAD)
    secret = clamp(random(SECRET_BYTES))
    own = public_key(secret)
    key = derive(agree(secret, public), _SEAL + own + public + context)
    return own + ChaCha20Poly1305(key).encrypt(_NONCE, plain, context)


def unseal(secrets: Iterable[bytes], sealed: bytes, context: bytes) -> bytes:
    """Open a message sealed to one of the reader's mailbox keys; after rotations there are several.

    Raises InvalidContent.
    """
    own, body = sealed[:SECRET_BYTES], sealed[SECRET_BYTES:]
    for secret in secrets:
        try:
            key = derive(agree(secret, own), _SEAL + own + public_key(secret) + context)
            return ChaCha20Poly1305(key).decrypt(_NONCE, body, context)
        except (InvalidTag, ValueError, InvalidContent):
            continue
    raise InvalidContent("the message was sealed for another reader or another purpose")
