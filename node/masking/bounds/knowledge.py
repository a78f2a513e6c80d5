"""Proofs about mask keys: that a member knows the secret of its key, and what point two members agreed on.

Without the first, a member could publish a key made from others' keys (a rogue key) whose secret nobody has. The second
opens one edge to everybody: the x coordinate of its point gives the pair's mask, and no secret of any other edge.

Both are Schnorr's protocol and that of Chaum and Pedersen (1992) for equal discrete logarithms, made non-interactive by
Fiat and Shamir: the challenge is a hash of the whole statement, the caller's context and the first message. Nonces are
derived from the secret, the statement and random bytes, so they differ even if the random bytes repeat.

Points are multiplied in constant time where the factor is secret. Responses are Python integers, which are not.
"""

import hashlib
from dataclasses import dataclass
from typing import Self

from fedgrove.common.curve import ORDER, POINT_BYTES, G, Point
from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking import x_only
from fedgrove.node.masking.keys import Random, derive

SCALAR_BYTES = 32

_NONCE = b"fedgrove proof nonce 1"
_SECRET = b"fedgrove known secret 1"
_SHARED = b"fedgrove shared point 1"


@dataclass(frozen=True)
class KnownSecret:
    """A proof that whoever made it knows the secret of a mask key; 64 bytes.

    Attributes
    ----------
    challenge, response : int
        From 0 to ``ORDER`` − 1; response·G − challenge·key is the first message.
    """

    challenge: int
    response: int

    BYTES = 2 * SCALAR_BYTES

    @classmethod
    def prove(cls, secret: bytes, context: bytes, random: Random) -> Self:
        """Prove to know a canonical secret, bound to ``context``: any bytes; a proof holds for no others.

        Raises ValueError: the secret is not canonical.
        """
        key = _key_of(secret)
        statement = _statement(_SECRET, context, key)
        nonce = _nonce(secret, statement, random)
        challenge = _challenge(statement, G * nonce)
        return cls(challenge, _response(nonce, challenge, secret))

    def verify(self, key: bytes, context: bytes) -> bool:
        """Whether the proof is for this x-only key (32 bytes) and context; False for a key that is not on the curve."""
        try:
            point = Point.lift_x(key)
        except InvalidContent:
            return False
        first = G * self.response - point * self.challenge
        return _challenge(_statement(_SECRET, context, key), first) == self.challenge

    def to_bytes(self) -> bytes:
        """Challenge ‖ response, 32 bytes each, big-endian."""
        return self.challenge.to_bytes(SCALAR_BYTES) + self.response.to_bytes(SCALAR_BYTES)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read what ``to_bytes`` wrote; InvalidContent: another length, or a number that is not below the order."""
        if len(data) != cls.BYTES:
            raise InvalidContent(f"a proof of a secret has {len(data)} bytes instead of {cls.BYTES}")
        return cls(_scalar(data[:SCALAR_BYTES]), _scalar(data[SCALAR_BYTES:]))


@dataclass(frozen=True)
class SharedPoint:
    """The point on which the two ends of an edge agree, and a proof of it by one of them; 97 bytes.

    Attributes
    ----------
    point : Point
        secret·P, with P the point of even y of the partner's key; never the neutral element.
    challenge, response : int
        From 0 to ``ORDER`` − 1; response·G − challenge·key and response·P − challenge·point are the first message.
    """

    point: Point
    challenge: int
    response: int

    BYTES = POINT_BYTES + 2 * SCALAR_BYTES

    @classmethod
    def prove(cls, secret: bytes, partner: bytes, context: bytes, random: Random) -> Self:
        """Open the edge between the key of ``secret`` and the x-only key ``partner``, bound to ``context``: any bytes.

        Raises
        ------
        ValueError
            The secret is not canonical.
        InvalidContent
            The partner's key is not on the curve.
        """
        key, base = _key_of(secret), Point.lift_x(partner)
        point = base.times_secret(int.from_bytes(secret))
        statement = _statement(_SHARED, context, key, partner, point.to_bytes())
        nonce = _nonce(secret, statement, random)
        challenge = _challenge(statement, G * nonce, base.times_secret(nonce))
        return cls(point, challenge, _response(nonce, challenge, secret))

    def verify(self, key: bytes, partner: bytes, context: bytes) -> bool:
        """Whether this is the point of the edge, proven with the secret of ``key``.

        Parameters
        ----------
        key, partner : bytes
            x-only keys, 32 bytes each: of the end that made the proof, and of the other. False if one is not on the
            curve.
        context : bytes
            As for ``prove``.
        """
        try:
            own, base = Point.lift_x(key), Point.lift_x(partner)
        except InvalidContent:
            return False
        first = G * self.response - own * self.challenge
        second = base * self.response - self.point * self.challenge
        statement = _statement(_SHARED, context, key, partner, self.point.to_bytes())
        return _challenge(statement, first, second) == self.challenge

    @property
    def x(self) -> bytes:
        """What ``x_only.agree`` gives both ends, 32 bytes: ``shared_mask_key`` makes the pair's mask key from it."""
        return self.point.to_bytes()[1:]

    def to_bytes(self) -> bytes:
        """Point (33) ‖ challenge ‖ response, 32 bytes each, big-endian."""
        numbers = (self.challenge, self.response)
        return self.point.to_bytes() + b"".join(number.to_bytes(SCALAR_BYTES) for number in numbers)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read what ``to_bytes`` wrote.

        Raises InvalidContent: another length, no point or the neutral element, or a number that is not below the order.
        """
        if len(data) != cls.BYTES:
            raise InvalidContent(f"a proof of a shared point has {len(data)} bytes instead of {cls.BYTES}")
        point, body = Point.parse(data[:POINT_BYTES]), data[POINT_BYTES:]
        if point.is_neutral:
            raise InvalidContent("no two members agree on the neutral element")
        return cls(point, _scalar(body[:SCALAR_BYTES]), _scalar(body[SCALAR_BYTES:]))


def _key_of(secret: bytes) -> bytes:
    """The key of a canonical secret."""
    encoded = x_only.point(secret)
    if encoded[:1] != x_only.EVEN:
        raise ValueError("the secret is not the canonical one of its key")
    return encoded[1:]


def _statement(label: bytes, context: bytes, *values: bytes) -> bytes:
    """What is proven and for what purpose; all that follows the label has a fixed length."""
    return label + hashlib.sha256(context).digest() + b"".join(values)


def _nonce(secret: bytes, statement: bytes, random: Random) -> int:
    """From 1 to ``ORDER`` − 1; 512 bits are reduced, so that all are as likely to within 2⁻²⁵⁶."""
    wide = derive(secret, _NONCE + statement, random(SCALAR_BYTES), 2 * SCALAR_BYTES)
    return int.from_bytes(wide) % (ORDER - 1) + 1


def _challenge(statement: bytes, *first: Point) -> int:
    """The hash of a statement and a prover's first message."""
    encoded = b"".join(point.to_bytes() for point in first)
    return int.from_bytes(hashlib.sha256(statement + encoded).digest()) % ORDER


def _response(nonce: int, challenge: int, secret: bytes) -> int:
    return (nonce + challenge * int.from_bytes(secret)) % ORDER


def _scalar(data: bytes) -> int:
    number = int.from_bytes(data)
    if number >= ORDER:
        raise InvalidContent("a number of a proof is not below the order of the curve")
    return number
