"""Private intersection by blind RSA signatures: the paper's protocol (Xu et al. 2025; De Cristofaro and Tsudik 2010).

A signer has a key (n, e, d) for one clustering, an asker queries it. H hashes to ℤₙ uniformly.

1. Signer, to all partners: n, and tags of {H(y)^d : y ∈ χ_signer}, sorted.
2. Asker: {H(x)·r^e : x ∈ χ_asker}, r random for each.
3. Signer: (H(x)·r^e)^d, in the same order.
4. The asker takes r off, has H(x)^d, and counts whose tags are among those of message 1.

**What it leaks.** The asker must unblind element by element, so it learns *which* are common, not only how many. As χ
has a prefix of 1, 2, 3 … for each label, that is min(X_signer, X_asker) for every label: just what the paper wants to
hide. Federations compare by Diffie–Hellman for that reason (``node.methods.procfl.ecdh``).

**What a key may serve for.** One key serves all partners of one clustering; colluding askers learn what one asker with
all their elements would. It must not sign in a second clustering: old answers would unmask the new set.

**Hostile messages.** Blinding hides H(x) perfectly if raising to e permutes ℤₙ* and H(x) is invertible. A signer could
choose n so that it is not; so message 1 has e-th roots of eight numbers that follow from n, which a signer with
gcd(e, λ(n)) ≠ 1 has with a probability of 65537⁻⁸ (as in RFC 9474, section 7.3). The asker checks every signature, so
a signer can only leave out tags. The signer raises with Chinese remainders in constant time and checks the result, as a
fault would give away its primes.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from gmpy2 import gcd, invert, is_prime, mpz, powmod, powmod_sec

from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.keys import SECRET_BYTES, Random
from fedgrove.node.methods.procfl.messages import (
    TAG_BYTES,
    Answered,
    Header,
    digest,
    message_bytes,
    read,
    read_sorted,
    write,
)
from fedgrove.node.methods.procfl.similarity import Intersection

if TYPE_CHECKING:
    from _hashlib import HASHXOF

EXPONENT = 65537
KEY_BITS = (2048, 3072, 4096)
PRIMES = 3
ROOTS = 8

_KEY, _TAGS, _QUESTION, _ANSWER = b"FGR0", b"FGR1", b"FGR2", b"FGR3"
_HASH = b"fedgrove RSA element 1"
_CHALLENGE = b"fedgrove RSA permutation 1"
_BLIND = b"fedgrove RSA blinding 1"
_TAG = b"fedgrove RSA common element 1"
_SPARE_BYTES = 16  # more than the modulus has, so that a hash reduced modulo n is uniform except for 2⁻¹²⁸


def asker_of(left: int, right: int) -> int:
    """Which client of a pair asks: by turns, so that everybody asks about half of its partners."""
    return min(left, right) if (left + right) % 2 else max(left, right)


@dataclass(frozen=True)
class RsaKey:
    """A signer's key for one clustering: of three primes, which halves the work of two (RFC 8017, section 3.2).

    Attributes
    ----------
    primes : tuple of mpz
    """

    primes: tuple[mpz, ...] = field(repr=False)

    @classmethod
    def generate(cls, random: Random, bits: int = 2048) -> "RsaKey":
        """A fresh key; ``random`` is ``os.urandom`` in use."""
        if bits not in KEY_BITS:
            raise ValueError(f"a key has {', '.join(map(str, KEY_BITS))} bits, not {bits}")
        sizes = [(bits + place) // PRIMES for place in range(PRIMES)]
        primes = tuple(_prime(size, random) for size in sizes)
        return cls(primes) if len(set(primes)) == PRIMES else cls.generate(random, bits)

    @cached_property
    def modulus(self) -> mpz:
        """n."""
        return prod(self.primes, start=mpz(1))


class RsaSigner:
    """A client as signer, in one clustering.

    Parameters
    ----------
    session : bytes
        32 bytes that name the clustering.
    client : int
        From 0.
    elements : uint64 array of shape (size,)
        χ.
    key : RsaKey
        Never used in another clustering.
    random : Random
        ``os.urandom`` in use; no message depends on it.
    """

    def __init__(self, session: bytes, client: int, elements: np.ndarray, key: RsaKey, random: Random) -> None:
        self._session, self._client = session, client
        self._power = _PrivatePower(key, random)
        self._width = key.modulus.bit_length() // 8
        public = _PublicKey(session, client, key.modulus)
        roots = [self._bytes(self._power(challenge)) for challenge in public.challenges()]
        signed = (self._power(public.hash(element)) for element in elements.tolist())
        key_message = write(Header(_KEY, session, client), [self._bytes(key.modulus), *roots])
        self._offer = key_message + write(Header(_TAGS, session, client), sorted(map(public.tag, signed)))
        self._answered = Answered()

    @property
    def offer(self) -> bytes:
        """Message 1, for all partners: for 2048 bits 2,464 + 16·size bytes. Public, except for the size of the set."""
        return self._offer

    def sign(self, partner: int, question: bytes) -> bytes:
        """Message 3, for the partner whose message 2 this is.

        Raises
        ------
        InvalidContent
            Not a question to this offer, a number that is not below n, or a second question.
        """
        header = Header(_QUESTION, self._session, partner, self._client, digest(self._offer))
        blinded = [mpz(int.from_bytes(item)) for item in read(question, header, self._width)]
        if not all(0 < number < self._power.modulus for number in blinded):
            raise InvalidContent(f"client {partner} asks for the signature of a number out of range")
        self._answered.admit(partner, question)
        header = Header(_ANSWER, self._session, self._client, partner, digest(self._offer, question))
        return write(header, [self._bytes(self._power(number)) for number in blinded])

    def _bytes(self, number: mpz) -> bytes:
        return int(number).to_bytes(self._width)


class RsaAsker:
    """A client as asker, in one clustering. The same secret, set and messages give the same bytes, after a restart too.

    Parameters
    ----------
    session, client, elements
        As of ``RsaSigner``.
    secret : bytes
        32 random bytes, from which all blinding numbers follow.
    bits : int
        Size of all signers' keys.
    """

    def __init__(self, session: bytes, client: int, elements: np.ndarray, secret: bytes, bits: int = 2048) -> None:
        if len(secret) != SECRET_BYTES or bits not in KEY_BITS:
            raise ValueError(f"an asker needs {SECRET_BYTES} secret bytes, and keys of {KEY_BITS} bits")
        self._session, self._client = session, client
        self._elements = elements.tolist()
        self._secret = secret + hashlib.sha256(elements.tobytes()).digest()
        self._width = bits // 8

    def ask(self, signer: int, offer: bytes) -> bytes:
        """Message 2, for the signer whose message 1 this is: for 2048 bits 80 + 256·size bytes.

        Raises
        ------
        InvalidContent
            The offer is malformed, its key too small, or one under which a question would not hide the elements.
        """
        public, _ = self._read(signer, offer)
        questions = []
        for number, factor in zip(self._hashes(public), self._factors(public, offer), strict=True):
            blinded = number * powmod(factor, EXPONENT, public.modulus) % public.modulus
            questions.append(int(blinded).to_bytes(self._width))
        return write(Header(_QUESTION, self._session, self._client, signer, digest(offer)), questions)

    def count(self, signer: int, offer: bytes, question: bytes, answer: bytes) -> Intersection:
        """How many elements the two have in common.

        Parameters
        ----------
        question : bytes
            What ``ask`` gave for this offer.
        answer : bytes
            Message 3.

        Raises
        ------
        InvalidContent
            The answer is malformed, or holds something that is no signature of what was asked.
        """
        public, tags = self._read(signer, offer)
        header = Header(_ANSWER, self._session, signer, self._client, digest(offer, question))
        signed = [mpz(int.from_bytes(item)) for item in read(answer, header, self._width)]
        if len(signed) != len(self._elements):
            raise InvalidContent(f"client {signer} signed {len(signed)} numbers, {len(self._elements)} were asked")
        common = 0
        for number, factor, power in zip(self._hashes(public), self._factors(public, offer), signed, strict=True):
            signature = power * invert(factor, public.modulus) % public.modulus
            if powmod(signature, EXPONENT, public.modulus) != number:
                raise InvalidContent(f"client {signer} answered with an invalid signature")
            common += public.tag(signature) in tags
        own, other = (self._client, len(signed)), (signer, len(tags))
        (left, left_size), (right, right_size) = sorted((own, other))
        return Intersection(left, right, left_size, right_size, common)

    def _read(self, signer: int, offer: bytes) -> "tuple[_PublicKey, frozenset[bytes]]":
        length = message_bytes(1 + ROOTS, self._width)
        items = read(offer[:length], Header(_KEY, self._session, signer), self._width)
        modulus, *roots = (mpz(int.from_bytes(item)) for item in items)
        bits = 8 * self._width
        if len(roots) != ROOTS or modulus.bit_length() != bits or modulus.is_even():
            raise InvalidContent(f"the key of client {signer} is not an odd number of {bits} bits with its proof")
        public = _PublicKey(self._session, signer, modulus)
        if [powmod(root, EXPONENT, modulus) for root in roots] != public.challenges():
            raise InvalidContent(f"client {signer} does not prove that its key hides what it is asked")
        return public, frozenset(read_sorted(offer[length:], Header(_TAGS, self._session, signer), TAG_BYTES))

    def _hashes(self, public: "_PublicKey") -> list[mpz]:
        """H(x) for all own elements; refuse a modulus under which one of them is not invertible."""
        found = [public.hash(element) for element in self._elements]
        product = mpz(1)
        for number in found:
            product = product * number % public.modulus
        if gcd(product, public.modulus) != 1:
            raise InvalidContent(f"the key of client {public.signer} has small factors")
        return found

    def _factors(self, public: "_PublicKey", offer: bytes) -> Iterable[mpz]:
        """r for each own element, invertible."""
        prefix = hashlib.shake_256(_BLIND + self._secret + digest(offer))
        for place in range(len(self._elements)):
            factor = public.expand(prefix, place.to_bytes(4))
            if gcd(factor, public.modulus) != 1:
                raise InvalidContent(f"the key of client {public.signer} has small factors")
            yield factor


class _PublicKey:
    """A signer's modulus and the hashes that belong to it."""

    def __init__(self, session: bytes, signer: int, modulus: mpz) -> None:
        self.signer, self.modulus = signer, modulus
        self._width = (modulus.bit_length() + 7) // 8
        context = session + signer.to_bytes(4) + int(modulus).to_bytes(self._width)
        self._hash, self._challenge = hashlib.shake_256(_HASH + context), hashlib.shake_256(_CHALLENGE + context)
        self._tag = hashlib.sha256(_TAG + context)

    def hash(self, element: int) -> mpz:
        """H(x), uniform modulo n."""
        return self.expand(self._hash, element.to_bytes(8))

    def challenges(self) -> list[mpz]:
        """The numbers whose e-th roots show that raising to e is a permutation."""
        return [self.expand(self._challenge, bytes([place])) for place in range(ROOTS)]

    def tag(self, signature: mpz) -> bytes:
        """What stands for a signed element in message 1."""
        state = self._tag.copy()
        state.update(int(signature).to_bytes(self._width))
        return state.digest()[:TAG_BYTES]

    def expand(self, prefix: "HASHXOF", data: bytes) -> mpz:
        """A number that is uniform modulo n."""
        state = prefix.copy()
        state.update(data)
        return mpz(int.from_bytes(state.digest(self._width + _SPARE_BYTES))) % self.modulus


class _PrivatePower:
    """x ↦ x^d mod n, for x that others choose: blinded, by Chinese remainders, checked."""

    def __init__(self, key: RsaKey, random: Random) -> None:
        self.modulus = key.modulus
        self._steps = []
        known = mpz(1)
        for prime in key.primes:
            # Garner: a power modulo the primes before becomes one modulo them and this one.
            self._steps.append((prime, invert(EXPONENT, prime - 1), known, invert(known, prime)))
            known *= prime
        factor = mpz(int.from_bytes(random(self.modulus.bit_length() // 8 + _SPARE_BYTES))) % self.modulus
        self._mask, self._unmask = powmod(factor, EXPONENT, self.modulus), invert(factor, self.modulus)

    def __call__(self, number: mpz) -> mpz:
        hidden = number * self._mask % self.modulus
        power = mpz(0)
        for prime, exponent, known, inverse in self._steps:
            digit = (powmod_sec(hidden % prime, exponent, prime) - power) * inverse % prime
            power += known * digit
        power = power * self._unmask % self.modulus
        if powmod(power, EXPONENT, self.modulus) != number:
            raise ArithmeticError("a signature came out wrong: the processor or memory is faulty")
        self._mask, self._unmask = self._mask**2 % self.modulus, self._unmask**2 % self.modulus
        return power


def _prime(bits: int, random: Random) -> mpz:
    """A random prime p with e ∤ p − 1, its three highest bits set: the product of three has three times the bits."""
    while True:
        candidate = mpz(int.from_bytes(random((bits + 7) // 8)) % (1 << bits) | 7 << bits - 3 | 1)
        if candidate % EXPONENT != 1 and is_prime(candidate, 40):
            return candidate
