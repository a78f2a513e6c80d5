"""Points of secp256k1 as a group of prime order, by libsecp256k1: sums, multiples and products over many points.

A ``Point`` may be the neutral element, unlike a public key. ``FixedPoints`` keeps tables of multiples of points that
are used again and again; ``fixed_product`` sums multiples of hundreds of them in milliseconds.

Everything here runs in variable time, except ``G * secret`` and ``Point.times_secret``.
"""

import hashlib
import threading
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fedgrove.common.errors import InvalidContent

_library = import_module("coincurve._libsecp256k1")
ffi: Any = _library.ffi
lib: Any = _library.lib

ORDER: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
POINT_BYTES: Final = 33

_NEUTRAL = bytes(POINT_BYTES)
_CONTEXT: Any = lib.secp256k1_context_create(lib.SECP256K1_CONTEXT_NONE)
_KEY_BYTES = int(ffi.sizeof("secp256k1_pubkey"))
_DIGITS = 256  # multiples in a table: digits from −128 to 127
_HALF = _DIGITS // 2


class Point:
    """An element of the group: immutable, hashable, equal where the points are.

    ``+`` and ``-`` are the group's operations and ``* n`` takes a multiple by any integer, modulo ``ORDER``.
    """

    __slots__ = ("_encoded", "key")

    def __init__(self, key: Any) -> None:
        """For this module: wrap a ``secp256k1_pubkey *`` that nobody changes any more; None is the neutral element."""
        self.key = key
        self._encoded: bytes | None = None if key is not None else _NEUTRAL

    @classmethod
    def parse(cls, data: bytes) -> "Point":
        """The point of its one encoding: 33 bytes in SEC 1's compressed form, or 33 zero bytes for the neutral element.

        Raises InvalidContent: for any other bytes.
        """
        data = bytes(data)
        if data == _NEUTRAL:
            return NEUTRAL
        if len(data) != POINT_BYTES:
            raise InvalidContent(f"a point of the curve is {POINT_BYTES} bytes, not {len(data)}")
        key = ffi.new("secp256k1_pubkey *")
        if not lib.secp256k1_ec_pubkey_parse(_CONTEXT, key, data, POINT_BYTES):
            raise InvalidContent("the bytes do not encode a point of the curve")
        return cls(key)

    @classmethod
    def lift_x(cls, x: bytes) -> "Point":
        """The point with an even y at a coordinate of 32 bytes (``lift_x`` of BIP 340).

        Raises InvalidContent: unless there is one.
        """
        return cls.parse(b"\2" + x)

    def to_bytes(self) -> bytes:
        """The 33 bytes that ``parse`` reads."""
        if self._encoded is None:
            out, size = ffi.new("unsigned char[]", POINT_BYTES), ffi.new("size_t *", POINT_BYTES)
            lib.secp256k1_ec_pubkey_serialize(_CONTEXT, out, size, self.key, lib.SECP256K1_EC_COMPRESSED)
            self._encoded = bytes(ffi.buffer(out))
        return self._encoded

    @property
    def is_neutral(self) -> bool:
        return self.key is None

    def times_secret(self, secret: int) -> "Point":
        """``self * secret`` in constant time, for 0 < secret < ORDER and a point that is not neutral.

        Raises ValueError: for any other secret, or for the neutral element.
        """
        if self.key is None or not 0 < secret < ORDER:
            raise ValueError("a secret multiple needs a point and a number in [1, order)")
        # Only ECDH multiplies points other than G in constant time; this hash function hands out the point itself.
        coordinates = ffi.new("unsigned char[]", 65)
        scalar = secret.to_bytes(32, "big")
        if not lib.secp256k1_ecdh(_CONTEXT, coordinates, self.key, scalar, _write_point, ffi.NULL):
            raise ValueError("libsecp256k1 refused the multiplication")
        key = ffi.new("secp256k1_pubkey *")
        lib.secp256k1_ec_pubkey_parse(_CONTEXT, key, coordinates, 65)
        return Point(key)

    def __add__(self, other: "Point") -> "Point":
        return sum_of((self, other))

    def __sub__(self, other: "Point") -> "Point":
        return sum_of((self, -other))

    def __neg__(self) -> "Point":
        if self.key is None:
            return self
        key = _copy(self.key)
        lib.secp256k1_ec_pubkey_negate(_CONTEXT, key)
        return Point(key)

    def __mul__(self, scalar: int) -> "Point":
        scalar %= ORDER
        if self.key is None or not scalar:
            return NEUTRAL
        if self is G:
            key = ffi.new("secp256k1_pubkey *")
            lib.secp256k1_ec_pubkey_create(_CONTEXT, key, scalar.to_bytes(32, "big"))
        else:
            key = _copy(self.key)
            lib.secp256k1_ec_pubkey_tweak_mul(_CONTEXT, key, scalar.to_bytes(32, "big"))
        return Point(key)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def __repr__(self) -> str:
        return f"Point.parse(bytes.fromhex({self.to_bytes().hex()!r}))"

    def __reduce__(self) -> tuple[Callable[[bytes], "Point"], tuple[bytes]]:
        return Point.parse, (self.to_bytes(),)


@ffi.callback("int(unsigned char *, const unsigned char *, const unsigned char *, void *)")
def _write_point(output: Any, x: Any, y: Any, _data: Any) -> int:
    output[0] = 4
    ffi.memmove(output + 1, x, 32)
    ffi.memmove(output + 33, y, 32)
    return 1


NEUTRAL: Final = Point(None)

G: Final = Point.parse(bytes.fromhex("0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"))
"""The standard generator."""


def sum_of(points: Iterable[Point]) -> Point:
    """The sum of any number of points; much faster than one addition after the other."""
    keys = [point.key for point in points if point.key is not None]
    return _combine(ffi.new("secp256k1_pubkey *[]", keys), len(keys))


def multi_product(points: Iterable[Point], scalars: Iterable[int]) -> Point:
    """Σ scalar · point, of as many points as scalars; about 30 µs for each."""
    return sum_of(point * scalar for point, scalar in zip(points, scalars, strict=True))


def hash_to_point(label: bytes) -> Point:
    """A point whose logarithm nobody knows: y is even, x the first SHA-256(label ‖ counter) that is on the curve."""
    counter = 0
    while True:
        digest = hashlib.sha256(b"fedgrove point 1" + label + counter.to_bytes(4, "big")).digest()
        try:
            return Point.lift_x(digest)
        except InvalidContent:
            counter += 1


class FixedPoints:
    """A sequence of points with tables of their multiples, made when they are first used; safe between threads.

    Parameters
    ----------
    point : callable
        The point at an index from 0 up. It must never change.
    """

    def __init__(self, point: Callable[[int], Point]) -> None:
        self._point = point
        self._points: list[Point] = []
        self._tables: list[Any] = []  # keeps the memory behind the addresses
        self._addresses = np.zeros(0, np.uint64)
        self._lock = threading.Lock()

    def __getitem__(self, index: int) -> Point:
        self.addresses(index + 1)
        return self._points[index]

    def addresses(self, count: int) -> npt.NDArray[np.uint64]:
        """Where the tables of the first ``count`` points begin (uint64); each holds −128 to 127 times its point."""
        if len(self._addresses) < count:
            with self._lock:
                self._extend(count)
        return self._addresses[:count]

    def _extend(self, count: int) -> None:
        for index in range(len(self._points), count):
            point = self._point(index)
            self._points.append(point)
            self._tables.append(_multiples(point))
        self._addresses = np.array([int(ffi.cast("uintptr_t", table)) for table in self._tables], np.uint64)


def fixed_product(terms: Iterable[tuple[FixedPoints, Sequence[int]]]) -> Point:
    """Σ scalar · point over the first points of each sequence, as many as it has scalars.

    Scalars are any integers; small ones, negative or not, cost less. A point costs 0.5 µs a byte of its scalar.
    """
    tables: list[npt.NDArray[np.uint64]] = []
    scalars: list[int] = []
    for points, factors in terms:
        tables.append(points.addresses(len(factors)))
        scalars += map(_centred, factors)
    if not scalars:
        return NEUTRAL
    digits = _balanced_digits(scalars)
    entries = np.concatenate(tables)[:, None] + digits * np.uint64(_KEY_BYTES)
    total = NEUTRAL
    for place in reversed(range(digits.shape[1])):
        used = np.ascontiguousarray(entries[digits[:, place] != _HALF, place])
        total = total * _DIGITS + _combine(ffi.cast("secp256k1_pubkey **", used.ctypes.data), len(used))
    return total


def _centred(scalar: int) -> int:
    """The same modulo ORDER, at most ORDER/2 away from zero."""
    if -_SMALL < scalar < _SMALL:
        return scalar
    scalar %= ORDER
    return scalar - ORDER if scalar > ORDER // 2 else scalar


_SMALL = 1 << 254


def _balanced_digits(scalars: Sequence[int]) -> npt.NDArray[np.uint64]:
    """Digits to the base 256 from −128 to 127, lowest first, each plus 128; shape (scalars, digits)."""
    bits = max(max(scalars).bit_length(), min(scalars).bit_length())
    size = (bits + 1) // 8 + 1  # so that 127/255 of the range holds every scalar
    shift = int.from_bytes(bytes([_HALF]) * size)
    raw = b"".join([(scalar + shift).to_bytes(size, "little") for scalar in scalars])
    return np.frombuffer(raw, np.uint8).reshape(len(scalars), size).astype(np.uint64)


def _multiples(point: Point) -> Any:
    """A ``secp256k1_pubkey[256]`` of −128 to 127 times a point; the entry of 0 is never read."""
    table = ffi.new("secp256k1_pubkey[]", _DIGITS)
    pair = ffi.new("secp256k1_pubkey *[2]")
    pair[0] = table + _HALF + 1
    ffi.memmove(pair[0], point.key, _KEY_BYTES)
    for multiple in range(2, _HALF + 1):
        pair[1] = table + _HALF + multiple - 1
        # 128 has no entry of its own: it goes where −128 belongs and is negated below.
        lib.secp256k1_ec_pubkey_combine(_CONTEXT, table + (_HALF + multiple) % _DIGITS, pair, 2)
    for multiple in range(1, _HALF + 1):
        entry = table + _HALF - multiple
        if multiple < _HALF:
            ffi.memmove(entry, table + _HALF + multiple, _KEY_BYTES)
        lib.secp256k1_ec_pubkey_negate(_CONTEXT, entry)
    return table


def _copy(key: Any) -> Any:
    copy = ffi.new("secp256k1_pubkey *")
    ffi.memmove(copy, key, _KEY_BYTES)
    return copy


def _combine(keys: Any, count: int) -> Point:
    """The sum of the points behind an array of pointers; libsecp256k1 answers 0 where it is the neutral element."""
    key = ffi.new("secp256k1_pubkey *")
    if not count or not lib.secp256k1_ec_pubkey_combine(_CONTEXT, key, keys, count):
        return NEUTRAL
    return Point(key)
