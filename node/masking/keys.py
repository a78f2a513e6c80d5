"""The secrets of one round: a mask key on secp256k1, a sealing key on X25519 (RFC 7748), and a self-mask seed.

Seeds of masks are derived by HKDF (RFC 5869).
"""

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedgrove.node.masking import x_only
from fedgrove.node.masking.context import KEY_BYTES, RoundContext

Random = Callable[[int], bytes]
"""Returns that many random bytes; ``os.urandom`` in use, seeded in tests."""

SECRET_BYTES = 32

_MAGIC = b"FGK2"
_PAIR = b"fedgrove pair mask 2"
_SELF = b"fedgrove self mask 1"
_PRIME = 2**255 - 19
# u-coordinates of the points whose order divides 8, on the curve and on its twist (RFC 7748, section 6.1).
_LOW_ORDER = frozenset(
    {
        0,
        1,
        _PRIME - 1,
        325606250916557431795983626356110631294008115727848805560023387167927233504,
        39382357235489614581723060781553021112529911719440698176882885853963445705823,
    }
)


@dataclass(frozen=True)
class RoundSecrets:
    """What a client must remember from the draw to the end of the round, and destroy then.

    Attributes
    ----------
    mask_secret : bytes
        e, the canonical secret of an x-only key on secp256k1: agrees on pair masks. Shared, and revealed if the client
        drops out.
    seal_secret : bytes
        c, clamped: opens and seals shares. Never leaves the client.
    self_seed : bytes
        b: seed of the self-mask. Shared, and revealed if the client survives.
    """

    mask_secret: bytes = field(repr=False)
    seal_secret: bytes = field(repr=False)
    self_seed: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if any(len(secret) != SECRET_BYTES for secret in (self.mask_secret, self.seal_secret, self.self_seed)):
            raise ValueError(f"a secret of the round is not {SECRET_BYTES} bytes long")
        if clamp(self.seal_secret) != self.seal_secret:
            raise ValueError("the sealing secret of the round is not clamped as RFC 7748 requires")
        if self._mask_point[:1] != x_only.EVEN:
            raise ValueError("the mask secret of the round is not the canonical one of its key")

    @classmethod
    def generate(cls, random: Random) -> "RoundSecrets":
        """Draw fresh secrets; ``random`` is ``os.urandom`` in use."""
        return cls(x_only.generate(random), clamp(random(SECRET_BYTES)), random(SECRET_BYTES))

    @cached_property
    def mask_key(self) -> bytes:
        """The x coordinate of e·G, 32 bytes, published with the draw."""
        return self._mask_point[1:]

    @cached_property
    def seal_key(self) -> bytes:
        """c·G, 32 bytes, published with the draw."""
        return public_key(self.seal_secret)

    @cached_property
    def _mask_point(self) -> bytes:
        return x_only.point(self.mask_secret)

    @property
    def seed_hash(self) -> bytes:
        """SHA-256 of b, 32 bytes, published with the commitment."""
        return hash_seed(self.self_seed)

    def to_bytes(self) -> bytes:
        """100 bytes for an encrypted journal."""
        return _MAGIC + self.mask_secret + self.seal_secret + self.self_seed

    @classmethod
    def from_bytes(cls, data: bytes) -> "RoundSecrets":
        """Read what ``to_bytes`` wrote; ValueError for anything else (the message never shows the bytes)."""
        if len(data) != len(_MAGIC) + 3 * SECRET_BYTES or data[: len(_MAGIC)] != _MAGIC:
            raise ValueError("these bytes are not the secrets of a round")
        body = data[len(_MAGIC) :]
        return cls(body[:32], body[32:64], body[64:])


def clamp(secret: bytes) -> bytes:
    """The scalar that X25519 uses for 32 bytes (RFC 7748, section 5), so that a key has one secret form only."""
    return bytes([secret[0] & 248]) + secret[1:31] + bytes([secret[31] & 127 | 64])


def public_key(secret: bytes) -> bytes:
    """The X25519 public key of 32 secret bytes."""
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def is_low_order(public: bytes) -> bool:
    """Whether every agreement with this key gives zero (RFC 7748, section 6.1): such a key keeps no secret."""
    return (int.from_bytes(public, "little") & (1 << 255) - 1) % _PRIME in _LOW_ORDER


def agree(secret: bytes, public: bytes) -> bytes:
    """X25519(secret, public), 32 bytes; ValueError for a public key of low order."""
    return X25519PrivateKey.from_private_bytes(secret).exchange(X25519PublicKey.from_public_bytes(public))


def derive(secret: bytes, info: bytes, salt: bytes | None = None, length: int = KEY_BYTES) -> bytes:
    """HKDF-SHA256 (RFC 5869)."""
    return HKDF(SHA256(), length, salt, info).derive(secret)


def pair_mask_key(context: RoundContext, secret: bytes, public: bytes, client: int, partner: int) -> bytes:
    """s_ij: the AES key of a pair's mask, the same from either side; ValueError: ``public`` is not a mask key."""
    return shared_mask_key(context, x_only.agree(secret, public), client, partner)


def shared_mask_key(context: RoundContext, shared: bytes, client: int, partner: int) -> bytes:
    """s_ij from the x coordinate, 32 bytes, of the point that the pair agreed on."""
    low, high = sorted((client, partner))
    return derive(shared, _PAIR + context.to_bytes() + low.to_bytes(4) + high.to_bytes(4))


def self_mask_key(context: RoundContext, self_seed: bytes, client: int) -> bytes:
    """The AES key of a client's self-mask PRG(b)."""
    return derive(self_seed, _SELF + context.to_bytes() + client.to_bytes(4))


def hash_seed(self_seed: bytes) -> bytes:
    """SHA-256 of a self-mask seed."""
    return hashlib.sha256(self_seed).digest()


def is_self_seed(candidate: bytes, seed_hash: bytes) -> bool:
    """Whether the candidate is the seed behind the hash on the ledger (constant time)."""
    return hmac.compare_digest(hash_seed(candidate), seed_hash)


def is_mask_secret(candidate: bytes, mask_key: bytes) -> bool:
    """Whether the candidate is the canonical secret of this mask key (constant time)."""
    return x_only.is_secret(candidate) and hmac.compare_digest(x_only.point(candidate), x_only.EVEN + mask_key)
