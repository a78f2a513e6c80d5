"""Keys on secp256k1 that are x coordinates, and agreement between them.

A key is 32 bytes: the x coordinate of a point, which stands for the one of its two points whose y is even (BIP 340,
section "Design"). Its secret is canonical if that point is secret·G, so a key has exactly one canonical secret.
The curve's order is prime: every key that is on the curve keeps a secret, and there are no points of low order.

libsecp256k1 (by coincurve) multiplies in 40 µs, OpenSSL, where coincurve has no wheel, in about a millisecond; both do
so in constant time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

if TYPE_CHECKING:  # `Libsecp256k1` cannot be made without it
    import coincurve

    ffi: Any
    lib: Any
else:
    try:
        import coincurve
        from coincurve._libsecp256k1 import ffi, lib
    except ImportError:  # no wheel for this platform
        coincurve = None

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
"""n, the number of points; secrets are integers from 1 to n − 1, 32 bytes, big-endian."""

KEY_BYTES = 32

EVEN = b"\2"
"""First byte of a compressed point whose y is even (SEC 1, section 2.3.3)."""


class Backend(Protocol):
    """A library that multiplies; secrets are in range, other arguments anything."""

    def point(self, secret: bytes) -> bytes:
        """secret·G, compressed: 33 bytes."""
        ...

    def is_on_curve(self, key: bytes) -> bool:
        """Whether 32 bytes are the x coordinate, below the field's order, of a point."""
        ...

    def shared(self, secret: bytes, key: bytes) -> bytes:
        """The x coordinate of secret·P, 32 bytes, P a point of the key; ValueError if there is none."""
        ...


class Libsecp256k1:
    """By coincurve."""

    def point(self, secret: bytes) -> bytes:
        return coincurve.PublicKey.from_valid_secret(secret).format()

    def is_on_curve(self, key: bytes) -> bool:
        try:
            coincurve.PublicKey(EVEN + key)
        except ValueError:
            return False
        return True

    def shared(self, secret: bytes, key: bytes) -> bytes:
        # `PublicKey.multiply` is not in constant time, and `PrivateKey.ecdh` hashes the point.
        public: Any = coincurve.PublicKey(EVEN + key)
        product = ffi.new("unsigned char [32]")
        if not lib.secp256k1_ecdh(public.context.ctx, product, public.public_key, secret, _copy_x(), ffi.NULL):
            raise ValueError("libsecp256k1 refused the multiplication")
        return bytes(ffi.buffer(product))


class OpenSsl:
    """By cryptography."""

    _curve = ec.SECP256K1()

    def point(self, secret: bytes) -> bytes:
        return self._private(secret).public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)

    def is_on_curve(self, key: bytes) -> bool:
        try:
            self._public(key)
        except ValueError:
            return False
        return True

    def shared(self, secret: bytes, key: bytes) -> bytes:
        public = self._public(key)
        return self._private(secret).exchange(ec.ECDH(), public)

    def _private(self, secret: bytes) -> ec.EllipticCurvePrivateKey:
        return ec.derive_private_key(int.from_bytes(secret), self._curve)

    def _public(self, key: bytes) -> ec.EllipticCurvePublicKey:
        return ec.EllipticCurvePublicKey.from_encoded_point(self._curve, EVEN + key)


@cache
def backend() -> Backend:
    """The fastest that is installed."""
    return OpenSsl() if coincurve is None else Libsecp256k1()


def is_secret(secret: bytes) -> bool:
    """Whether these are 32 bytes of a number from 1 to n − 1."""
    return len(secret) == KEY_BYTES and 0 < int.from_bytes(secret) < ORDER


@lru_cache(maxsize=1 << 12)  # a round's keys are looked at again and again
def is_key(key: bytes) -> bool:
    """Whether a point has this x coordinate, in 32 bytes; without one a key agrees with nobody."""
    return len(key) == KEY_BYTES and backend().is_on_curve(key)


def point(secret: bytes) -> bytes:
    """secret·G, compressed (33 bytes): ``EVEN`` and the key if the secret is canonical; ValueError: not a secret."""
    _check_secret(secret)
    return backend().point(secret)


def canonical(secret: bytes) -> bytes:
    """The one of e and n − e that is the canonical secret of their common key; ValueError: not a secret."""
    return secret if point(secret)[:1] == EVEN else (ORDER - int.from_bytes(secret)).to_bytes(KEY_BYTES)


def generate(random: Callable[[int], bytes]) -> bytes:
    """A uniform canonical secret."""
    while not is_secret(secret := random(KEY_BYTES)):  # never, in practice: all but 2⁻¹²⁸ of the numbers are in range
        pass
    return canonical(secret)


def agree(secret: bytes, key: bytes) -> bytes:
    """The x coordinate, 32 bytes, of the point that both ends of a pair compute.

    Raises ValueError: not a secret, or not a key.
    """
    _check_secret(secret)
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes")
    return backend().shared(secret, key)


def _check_secret(secret: bytes) -> None:
    if not is_secret(secret):
        raise ValueError("it is not a secret on secp256k1")  # its value is not shown


@cache
def _copy_x() -> Any:
    """The hash function of `secp256k1_ecdh` that writes x instead of a digest."""

    def copy(output: Any, x32: Any, _y32: Any, _data: Any) -> int:
        ffi.memmove(output, x32, 32)
        return 1

    return ffi.callback("int(unsigned char *, const unsigned char *, const unsigned char *, void *)", copy)
