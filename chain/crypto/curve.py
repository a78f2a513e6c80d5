"""Elliptic-curve arithmetic behind one small interface: libsecp256k1 in use, pure Python where it is missing.

`Secp256k1` (coincurve) is the curve in use. `EcdsaCurve` (ecdsa) computes the same in pure Python, about 20 times
slower; `default_curve` falls back to it when coincurve cannot be imported, and the tests hold one against the
other. Multiplications by a secret have methods of their own. libsecp256k1 runs them in constant time; pure
Python cannot, so the fallback leaks through timing and suits tests and auditors, who hold no secret.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Protocol

import ecdsa
import ecdsa.ellipticcurve
import ecdsa.errors

from fedgrove.common.errors import InvalidContent

if TYPE_CHECKING:  # `Secp256k1` cannot be made without it
    import coincurve
    from coincurve._libsecp256k1 import ffi, lib
else:
    try:
        import coincurve
        from coincurve._libsecp256k1 import ffi, lib
    except ImportError:  # no wheel for this platform
        coincurve = None


@dataclass(frozen=True, slots=True)
class Point:
    """An affine point, never the point at infinity. Coordinates are integers in [0, p)."""

    x: int
    y: int

    def compressed(self) -> bytes:
        """SEC 1 section 2.3.3: 0x02 or 0x03 by the parity of y, then x as 32 bytes."""
        return bytes([2 + (self.y & 1)]) + self.x.to_bytes(32, "big")


class Curve(Protocol):
    """A curve of prime order (cofactor 1) with 32-byte coordinates and scalars.

    Scalars are integers in [1, order); anything else raises ValueError.
    """

    field: int
    order: int

    def decode(self, data: bytes) -> Point:
        """The point of a 33-byte SEC 1 compressed encoding; raises InvalidContent."""
        ...

    def public(self, secret: int) -> Point:
        """secret · G, in constant time where the backend can."""
        ...

    def multiply_secret(self, point: Point, secret: int) -> Point:
        """secret · point, in constant time where the backend can."""
        ...

    def multiply(self, point: Point, scalar: int) -> Point:
        """scalar · point, for public values only."""
        ...

    def add(self, left: Point, right: Point) -> Point:
        """left + right; raises InvalidContent when the sum is the point at infinity."""
        ...

    def negate(self, point: Point) -> Point:
        """−point."""
        ...


class Secp256k1:
    """secp256k1 by libsecp256k1, through coincurve."""

    field = 2**256 - 2**32 - 977
    order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141

    def __init__(self) -> None:
        if coincurve is None:
            raise ImportError("Install coincurve to use libsecp256k1, or construct EcdsaCurve() instead.")

    def decode(self, data: bytes) -> Point:
        _check_encoding(data)
        return _from_key(_parse(bytes(data)))

    def public(self, secret: int) -> Point:
        return _from_key(coincurve.PublicKey.from_valid_secret(_scalar_bytes(secret, self.order)))

    def multiply_secret(self, point: Point, secret: int) -> Point:
        # tweak_mul, behind PublicKey.multiply, is variable-time. ECDH is libsecp256k1's only constant-time
        # multiplication of a point that is not G; the callback hands out the point itself in place of its hash.
        product = ffi.new("unsigned char [64]")
        scalar = _scalar_bytes(secret, self.order)
        key = _to_key(point)
        if not lib.secp256k1_ecdh(key.context.ctx, product, key.public_key, scalar, _copy_point(), ffi.NULL):
            raise ValueError("libsecp256k1 refused the multiplication.")
        raw = bytes(ffi.buffer(product))
        return Point(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))

    def multiply(self, point: Point, scalar: int) -> Point:
        return _from_key(_to_key(point).multiply(_scalar_bytes(scalar, self.order)))

    def add(self, left: Point, right: Point) -> Point:
        left_key, right_key = _to_key(left), _to_key(right)
        try:
            return _from_key(left_key.combine([right_key]))
        except ValueError:
            raise InvalidContent("The sum is the point at infinity.") from None

    def negate(self, point: Point) -> Point:
        return Point(point.x, self.field - point.y)


class EcdsaCurve:
    """Any short Weierstrass curve of prime order with 32-byte coordinates, in pure Python; secp256k1 by default."""

    def __init__(self, curve: ecdsa.curves.Curve = ecdsa.SECP256k1) -> None:
        if curve.curve.cofactor() != 1 or curve.baselen != 32 or curve.verifying_key_length != 64:
            raise ValueError(f"{curve.name} is not a curve of prime order with 32-byte coordinates; choose another.")
        self._curve = curve
        self.field = int(curve.curve.p())
        self.order = int(curve.order)

    def decode(self, data: bytes) -> Point:
        _check_encoding(data)
        if int.from_bytes(data[1:], "big") >= self.field:  # ecdsa would reduce it
            raise InvalidContent("The x-coordinate of the point is not below the field's order.")
        try:
            point = ecdsa.ellipticcurve.PointJacobi.from_bytes(
                self._curve.curve, bytes(data), valid_encodings=("compressed",)
            )
        except ecdsa.errors.MalformedPointError:
            raise InvalidContent("The bytes do not encode a point on the curve.") from None
        return _affine(point)

    def public(self, secret: int) -> Point:
        return self._times(self._curve.generator, secret)

    def multiply_secret(self, point: Point, secret: int) -> Point:
        return self._times(self._native(point), secret)

    def multiply(self, point: Point, scalar: int) -> Point:
        return self._times(self._native(point), scalar)

    def add(self, left: Point, right: Point) -> Point:
        total = self._native(left) + self._native(right)
        if total == ecdsa.ellipticcurve.INFINITY:
            raise InvalidContent("The sum is the point at infinity.")
        return _affine(total)

    def negate(self, point: Point) -> Point:
        return Point(point.x, self.field - point.y)

    def _times(self, native: ecdsa.ellipticcurve.PointJacobi, scalar: int) -> Point:
        _check_scalar(scalar, self.order)
        return _affine(native * scalar)

    def _native(self, point: Point) -> ecdsa.ellipticcurve.PointJacobi:
        on_curve = 0 <= point.x < self.field and 0 <= point.y < self.field
        if not on_curve or not self._curve.curve.contains_point(point.x, point.y):
            raise InvalidContent("The coordinates are not a point on the curve.")
        return ecdsa.ellipticcurve.PointJacobi(self._curve.curve, point.x, point.y, 1, self.order)


def _affine(point: ecdsa.ellipticcurve.PointJacobi | ecdsa.ellipticcurve.Point) -> Point:
    return Point(int(point.x()), int(point.y()))


@cache
def default_curve() -> Curve:
    """secp256k1 by the best backend that is installed."""
    return EcdsaCurve() if coincurve is None else Secp256k1()


def _check_encoding(data: bytes) -> None:
    if len(data) != 33 or data[0] not in (2, 3):
        raise InvalidContent("A compressed point is 33 bytes and starts with 0x02 or 0x03.")


def _check_scalar(scalar: int, order: int) -> None:
    if not 0 < scalar < order:
        raise ValueError("A scalar must lie in [1, order).")  # may be secret: its value is not shown


def _scalar_bytes(scalar: int, order: int) -> bytes:
    _check_scalar(scalar, order)
    return scalar.to_bytes(32, "big")


def _parse(data: bytes) -> coincurve.PublicKey:
    try:
        return coincurve.PublicKey(data)
    except ValueError:
        raise InvalidContent("The bytes do not encode a point on the curve.") from None


def _to_key(point: Point) -> coincurve.PublicKey:
    if not (0 <= point.x < 2**256 and 0 <= point.y < 2**256):
        raise InvalidContent("The coordinates are not a point on the curve.")
    return _parse(b"\x04" + point.x.to_bytes(32, "big") + point.y.to_bytes(32, "big"))


def _from_key(key: coincurve.PublicKey) -> Point:
    return Point(*key.point())


@cache
def _copy_point() -> ffi.CData:
    """The hash function of `secp256k1_ecdh` that writes x ‖ y instead of a digest."""

    def copy(output: ffi.CData, x32: ffi.CData, y32: ffi.CData, _data: ffi.CData) -> int:
        ffi.memmove(output, x32, 32)
        ffi.memmove(output + 32, y32, 32)
        return 1

    return ffi.callback("int(unsigned char *, const unsigned char *, const unsigned char *, void *)", copy)
