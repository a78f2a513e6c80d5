"""Private intersection by Diffie–Hellman: how many elements two sets have in common, and nothing else.

Each client n has a secret exponent a for one clustering.

1. To all: {a·H(x) : x ∈ χₙ}, its blinded set.
2. For each partner with the exponent b, to the counter: tags of {a·P : P in the partner's blinded set}.
3. The counter compares the two lists of tags of a pair: a·b·H(x) is in both for a common x.

H hashes to Curve25519, multiplication is X25519 in constant time, lists are sorted: blinded points look random, so that
their order tells nothing of that of the elements, nor the order of tags of that of the blinded points.

**Who counts.** In the protocol of two parties (Huberman et al. 1999; De Cristofaro et al. 2012) one client gets both
lists. If it blinds every element with an exponent of its own, it can try which exponent fits which answer, and learns
the common elements themselves. Here neither client sees a tag of the other. The counter, who holds no exponent, can
test no guess: it learns sizes and overlap, which are the ISM that it is to have anyhow. So answers go sealed to the
counter. A counter that colludes with a client knows what that client would in the protocol of two parties.

**What a secret may serve for.** One secret and one blinded set serve all partners of one clustering. Colluding partners
see the same blinded set, and learn together what one of them would have learned with all their elements; under the
decisional Diffie–Hellman assumption the tags of two pairs tell nothing of each other. A second clustering takes a new
secret, else the changes of a set would show, and so does a set that changed.

**Hostile points.** Coordinates that are not reduced are refused, and so are points of low order. What remains is
harmless to the secret: points of the twist (its order is 4 times a prime), and points with a component of low order,
which a clamped exponent removes. Two points that differ only by such a component give one tag twice, which is refused.
"""

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.keys import SECRET_BYTES, Random, clamp
from fedgrove.node.methods.procfl.messages import TAG_BYTES, Answered, Header, digest, read_sorted, write
from fedgrove.node.methods.procfl.points import POINT_BYTES, PRIME
from fedgrove.node.methods.procfl.similarity import Intersection

_BLINDED = b"FGE1"
_TAGS = b"FGE2"
_DOMAIN = b"fedgrove-V01-CS01-with-curve25519_XMD:SHA-512_ELL2_RO_"
_TAG = b"fedgrove common element 1"


def new_secret(random: Random) -> bytes:
    """A secret exponent for one clustering; ``random`` is ``os.urandom`` in use. Keep it until all have answered."""
    return clamp(random(SECRET_BYTES))


class EcdhClient:
    """One client in one clustering. The same secret, set and messages give the same bytes, also after a restart.

    Parameters
    ----------
    session : bytes
        32 bytes that name the clustering.
    client : int
        From 0.
    elements : uint64 array of shape (size,)
        χ.
    secret : bytes
        Of ``new_secret``.
    """

    def __init__(self, session: bytes, client: int, elements: np.ndarray, secret: bytes) -> None:
        if clamp(secret) != secret:
            raise ValueError("the secret of a clustering is not clamped as RFC 7748 requires")
        self._session, self._client = session, client
        self._key = X25519PrivateKey.from_private_bytes(secret)
        points = [_point(session, element) for element in elements.tolist()]
        self._blinded = write(Header(_BLINDED, session, client), sorted(self._times(points)))
        self._answered = Answered()

    @property
    def blinded(self) -> bytes:
        """Message 1, for all partners: 80 + 32·size bytes. It reveals only the size of the set."""
        return self._blinded

    def answer(self, partner: int, blinded: bytes) -> bytes:
        """Message 2, for the counter only: 80 + 16·(size of the partner's set) bytes.

        Raises InvalidContent: this is no blinded set of the partner, or its second.
        """
        points = read_points(blinded, self._session, partner)
        self._answered.admit(partner, blinded)
        try:
            products = self._times(points)
        except ValueError:
            raise InvalidContent(f"the blinded set of client {partner} has a point of low order") from None
        if len(set(products)) != len(products):
            raise InvalidContent(f"the blinded set of client {partner} encodes one element in two ways")
        ordered = [self._blinded, blinded] if self._client < partner else [blinded, self._blinded]
        header = Header(_TAGS, self._session, self._client, partner, digest(*ordered))
        prefix = hashlib.sha256(_TAG + header.session + header.transcript)
        return write(header, sorted(_tag(prefix, product) for product in products))

    def _times(self, points: list[bytes]) -> list[bytes]:
        exchange, decode = self._key.exchange, X25519PublicKey.from_public_bytes
        return [exchange(decode(point)) for point in points]


@dataclass(frozen=True)
class Comparison:
    """A pair of clients as the counter knows it.

    Attributes
    ----------
    session : bytes
    left, right : int
        left < right.
    left_blinded, right_blinded : bytes
        Their messages 1.
    """

    session: bytes
    left: int
    right: int
    left_blinded: bytes
    right_blinded: bytes

    def count(self, left_answer: bytes, right_answer: bytes) -> Intersection:
        """How much the sets have in common.

        Raises InvalidContent: an answer is not of this client, to this partner's blinded set and of its size.
        """
        sizes = (
            len(read_points(self.left_blinded, self.session, self.left)),
            len(read_points(self.right_blinded, self.session, self.right)),
        )
        transcript = digest(self.left_blinded, self.right_blinded)
        left = read_sorted(left_answer, Header(_TAGS, self.session, self.left, self.right, transcript), TAG_BYTES)
        right = read_sorted(right_answer, Header(_TAGS, self.session, self.right, self.left, transcript), TAG_BYTES)
        for client, tags, size in ((self.left, left, sizes[1]), (self.right, right, sizes[0])):
            if len(tags) != size:
                raise InvalidContent(f"client {client} answers {len(tags)} elements, but its partner has {size}")
        return Intersection(self.left, self.right, *sizes, len(set(left).intersection(right)))


def read_points(blinded: bytes, session: bytes, client: int) -> list[bytes]:
    """The points of a client's message 1; raises InvalidContent for anything else. Their order is not looked for."""
    points = read_sorted(blinded, Header(_BLINDED, session, client), POINT_BYTES)
    # Bytes are little-endian: only a point that ends so can be p or above.
    if any(point[-1] >= 0x7F and int.from_bytes(point, "little") >= PRIME for point in points):
        raise InvalidContent(f"the blinded set of client {client} has a coordinate that is not reduced")
    return points


def _tag(prefix: "hashlib._Hash", product: bytes) -> bytes:
    state = prefix.copy()
    state.update(product)
    return state.digest()[:TAG_BYTES]


@lru_cache(maxsize=1 << 16)
def _point(session: bytes, element: int) -> bytes:
    """H(x), the same for all clients of a clustering."""
    from fedgrove.node.methods.procfl.hash_to_curve import hash_to_curve  # clients alone need gmpy2

    return hash_to_curve(session + element.to_bytes(8), _DOMAIN)
