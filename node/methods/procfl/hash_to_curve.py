"""Hashing to Curve25519: the suite curve25519_XMD:SHA-512_ELL2_RO_ of RFC 9380, u-coordinates only.

Every result is on the curve (not on its twist) and in the subgroup of prime order, and nobody knows its logarithm. The
arithmetic is not constant-time. It runs once for each element, before any message, so its time tells at most how many
elements there are, which is public.
"""

import hashlib

from gmpy2 import invert, mpz, powmod

from fedgrove.node.methods.procfl.points import POINT_BYTES, PRIME

P = mpz(PRIME)
A = 486662
"""Curve25519 is v² = u³ + A·u² + u over 𝔽_p (RFC 7748)."""

_ROOT_EXPONENT = (P + 3) // 8
_ROOT_OF_MINUS_ONE = powmod(2, (P - 1) // 4, P)
_FIELD_BYTES = 48  # L = ⌈(255 + 128)/8⌉
_HASH_BYTES, _BLOCK_BYTES = 64, 128  # of SHA-512


def hash_to_curve(message: bytes, tag: bytes) -> bytes:
    """The point of a message under a domain separation tag of at most 255 bytes: its u-coordinate as in RFC 7748."""
    uniform = expand_message(message, tag, 2 * _FIELD_BYTES)
    first, second = (mpz(int.from_bytes(half)) % P for half in (uniform[:_FIELD_BYTES], uniform[_FIELD_BYTES:]))
    return int(_times_8(_u_of_sum(map_to_curve(first), map_to_curve(second)))).to_bytes(POINT_BYTES, "little")


def expand_message(message: bytes, tag: bytes, length: int) -> bytes:
    """expand_message_xmd with SHA-512 (RFC 9380, section 5.3.1)."""
    suffix = tag + bytes([len(tag)])
    start = hashlib.sha512(bytes(_BLOCK_BYTES) + message + length.to_bytes(2) + b"\0" + suffix).digest()
    blocks = [hashlib.sha512(start + b"\1" + suffix).digest()]
    while len(blocks) * _HASH_BYTES < length:
        mixed = int.from_bytes(start) ^ int.from_bytes(blocks[-1])
        counter = bytes([len(blocks) + 1])
        blocks.append(hashlib.sha512(mixed.to_bytes(_HASH_BYTES) + counter + suffix).digest())
    return b"".join(blocks)[:length]


def map_to_curve(field_element: mpz) -> tuple[mpz, mpz]:
    """Elligator 2 (RFC 9380, sections 6.7.1 and 8.5): the point (u, v) of a field element."""
    # 1 + 2r² is never zero: −1 is a square modulo p, and 2 is none.
    u = -A * invert(1 + 2 * field_element * field_element, P) % P
    v = _root(_right_side(u))
    if v is not None:
        return u, v if v & 1 else P - v
    u = (-u - A) % P
    v = _root(_right_side(u))
    if v is None:
        raise ArithmeticError("neither candidate is on the curve: the processor or memory is faulty")
    return u, P - v if v & 1 else v


def _right_side(u: mpz) -> mpz:
    return u * (u * (u + A) + 1) % P


def _root(square: mpz) -> mpz | None:
    """A square root modulo p ≡ 5 (mod 8), or None."""
    root = powmod(square, _ROOT_EXPONENT, P)
    if root * root % P == square:
        return root
    root = root * _ROOT_OF_MINUS_ONE % P
    return root if root * root % P == square else None


def _u_of_sum(first: tuple[mpz, mpz], second: tuple[mpz, mpz]) -> mpz:
    """The u-coordinate of the sum of two points that are neither equal nor opposite, as hashes are with 2⁻²⁵⁰."""
    (u1, v1), (u2, v2) = first, second
    slope = (v2 - v1) * invert(u2 - u1, P) % P
    return (slope * slope - A - u1 - u2) % P


def _times_8(u: mpz) -> mpz:
    """Clear the cofactor: three doublings (RFC 7748, section 5)."""
    x, z = u, mpz(1)
    for _ in range(3):
        plus, minus = (x + z) ** 2 % P, (x - z) ** 2 % P
        x, z = plus * minus % P, (plus - minus) * (plus + (A - 2) // 4 * (plus - minus)) % P
    return x * invert(z, P) % P
