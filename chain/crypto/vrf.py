"""The verifiable random function of the ledger: ECVRF-SECP256K1-SHA256-TAI, byte for byte in the frame of RFC 9381.

The RFC names no suite on secp256k1; suite string 0xFE is the community's convention. A proof is 81 bytes, Γ ‖ c ‖ s,
and its output beta 32 bytes. `hints` turns a proof into the message that `contracts/ECVRF.sol` verifies.

    prove(secret_key, alpha) -> proof            verify(public_key, proof, alpha) -> beta, or InvalidContent
    public_key(secret_key) -> 33 bytes           hints(public_key, proof, alpha) -> message for the contract
    proof_to_hash(proof) -> beta, unverified     coordinates(public_key) -> (x, y) for the contract
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from ecdsa import rfc6979

from fedgrove.chain.crypto.curve import Curve, Point, default_curve
from fedgrove.common.errors import InvalidContent, InvalidInput

SECRET_KEY_BYTES = 32
PUBLIC_KEY_BYTES = 33
CHALLENGE_BYTES = 16
PROOF_BYTES = PUBLIC_KEY_BYTES + CHALLENGE_BYTES + 32
MESSAGE_HEAD_BYTES = 8 * 32 + 1
SUITE_SECP256K1 = 0xFE


@dataclass(frozen=True, slots=True)
class Proof:
    """A decoded proof (RFC 9381 section 5.4.4): Γ = xH, challenge c < 2¹²⁸, response s < order."""

    gamma: Point
    challenge: int
    response: int


@dataclass(frozen=True)
class Suite:
    """ECVRF with SHA-256 and try-and-increment over a 256-bit curve of cofactor 1 (RFC 9381 section 5.5).

    `identifier` is the suite string, one byte: 0xFE for secp256k1 here, 0x01 for the RFC's P-256.
    """

    identifier: int
    curve: Curve

    def public_key(self, secret_key: bytes) -> bytes:
        """The 33-byte compressed public key; raises InvalidInput."""
        return self.curve.public(self._secret(secret_key)).compressed()

    def prove(self, secret_key: bytes, alpha: bytes) -> bytes:
        """The 81-byte proof over `alpha` (section 5.1); raises InvalidInput.

        The point multiplications by the key and the nonce run in constant time where the backend can.
        """
        secret = self._secret(secret_key)
        public = self.curve.public(secret)
        hashed, _ = self.encode_to_curve(public, alpha)
        gamma = self.curve.multiply_secret(hashed, secret)
        nonce = self.nonce(secret, hashed)
        challenge = self.challenge(
            public, hashed, gamma, self.curve.public(nonce), self.curve.multiply_secret(hashed, nonce)
        )
        response = (nonce + challenge * secret) % self.curve.order
        return gamma.compressed() + challenge.to_bytes(CHALLENGE_BYTES, "big") + response.to_bytes(32, "big")

    def verify(self, public_key: bytes, proof: bytes, alpha: bytes) -> bytes:
        """The 32-byte output of a valid proof over `alpha` (section 5.3, key validated); raises InvalidContent."""
        self.check(public_key, proof, alpha)
        return self.proof_to_hash(proof)

    def check(self, public_key: bytes, proof: bytes, alpha: bytes) -> tuple[Proof, Point, Point, int]:
        """Verify, and return the decoded proof with U = sG − cY, H and its counter; raises InvalidContent."""
        public = self.decode_public_key(public_key)
        decoded = self.decode_proof(proof)
        curve, c, s = self.curve, decoded.challenge, decoded.response
        if c == 0 or s == 0:
            # One in 2¹²⁸ for an honest prover; the contract refuses both, and so do we.
            raise InvalidContent("The proof has a zero challenge or a zero response.")
        hashed, counter = self.encode_to_curve(public, alpha)
        try:
            u = curve.add(curve.public(s), curve.negate(curve.multiply(public, c)))
            v = curve.add(curve.multiply(hashed, s), curve.negate(curve.multiply(decoded.gamma, c)))
        except InvalidContent:
            raise InvalidContent("The proof yields the point at infinity.") from None
        if self.challenge(public, hashed, decoded.gamma, u, v) != c:
            raise InvalidContent("The proof does not belong to this public key and input.")
        return decoded, u, hashed, counter

    def proof_to_hash(self, proof: bytes) -> bytes:
        """The output of a proof (section 5.2) that is decoded but NOT verified; raises InvalidContent."""
        gamma = self.decode_proof(proof).gamma
        return self._hash(0x03, gamma.compressed())

    def encode_to_curve(self, public: Point, alpha: bytes) -> tuple[Point, int]:
        """H, with even y, and the counter that gave it (section 5.4.1.1; the salt is the compressed public key)."""
        for counter in range(256):
            try:
                return self.curve.decode(b"\x02" + self.candidate(public, alpha, counter)), counter
            except InvalidContent:
                continue
        raise ValueError("No counter below 256 gives a point; change the input (probability 2^-256).")

    def candidate(self, public: Point, alpha: bytes, counter: int) -> bytes:
        """The 32-byte x-coordinate that try-and-increment tries at `counter`."""
        return self._hash(0x01, public.compressed() + alpha + bytes([counter]))

    def nonce(self, secret: int, hashed: Point) -> int:
        """k of section 5.4.2.1: RFC 6979 with SHA-256 over the digest of the compressed H."""
        digest = hashlib.sha256(hashed.compressed()).digest()
        return rfc6979.generate_k(self.curve.order, secret, hashlib.sha256, digest)

    def challenge(self, *points: Point) -> int:
        """c of section 5.4.3: the first 16 bytes of the hash over Y, H, Γ, U, V."""
        digest = self._hash(0x02, b"".join(point.compressed() for point in points))
        return int.from_bytes(digest[:CHALLENGE_BYTES], "big")

    def decode_public_key(self, public_key: bytes) -> Point:
        """The point of a compressed public key; raises InvalidContent."""
        try:
            return self.curve.decode(public_key)
        except InvalidContent:
            raise InvalidContent("The public key is not the 33-byte compressed encoding of a point.") from None

    def decode_proof(self, proof: bytes) -> Proof:
        """Γ, c, s of an 81-byte proof (section 5.4.4); raises InvalidContent."""
        if len(proof) != PROOF_BYTES:
            raise InvalidContent(f"A proof is {PROOF_BYTES} bytes, not {len(proof)}.")
        challenge_end = PUBLIC_KEY_BYTES + CHALLENGE_BYTES
        try:
            gamma = self.curve.decode(proof[:PUBLIC_KEY_BYTES])
        except InvalidContent:
            raise InvalidContent("The proof does not start with a compressed point.") from None
        response = int.from_bytes(proof[challenge_end:], "big")
        if response >= self.curve.order:
            raise InvalidContent("The response of the proof is not below the group's order.")
        return Proof(gamma, int.from_bytes(proof[PUBLIC_KEY_BYTES:challenge_end], "big"), response)

    def _hash(self, domain: int, data: bytes) -> bytes:
        return hashlib.sha256(bytes([self.identifier, domain]) + data + b"\x00").digest()

    def _secret(self, secret_key: bytes) -> int:
        secret = int.from_bytes(secret_key, "big")
        if len(secret_key) != SECRET_KEY_BYTES or not 0 < secret < self.curve.order:
            raise InvalidInput(
                f"A VRF secret key is {SECRET_KEY_BYTES} bytes, big-endian, from 1 to the group's order minus 1."
            )
        return secret


SUITE = Suite(SUITE_SECP256K1, default_curve())
"""The ledger's suite, on the best backend that is installed."""

public_key, prove, verify, proof_to_hash = SUITE.public_key, SUITE.prove, SUITE.verify, SUITE.proof_to_hash


def coordinates(public_key: bytes) -> tuple[int, int]:
    """The coordinates (x, y) under which the contracts know a compressed public key; raises InvalidContent."""
    point = SUITE.decode_public_key(public_key)
    return point.x, point.y


def hints(public_key: bytes, proof: bytes, alpha: bytes, suite: Suite = SUITE) -> bytes:
    """The message that lets `ECVRF.sol` verify a proof without inverting or exponentiating.

    Layout, documented in the contract: Γx, s, Ux, Uy, Ax, Ay, λ, Bx as 32-byte words; the prefix byte of Γ; then one
    root a word, −(h³ + 7)'s for each counter that failed and h³ + 7's for the one that gave H. 289 bytes for counter 0.

    Raises InvalidContent when the proof does not verify.
    """
    public = suite.decode_public_key(public_key)
    decoded, u, hashed, counter = suite.check(public_key, proof, alpha)
    curve, p = suite.curve, suite.curve.field
    a = curve.multiply(hashed, decoded.response)
    b = curve.multiply(decoded.gamma, decoded.challenge)
    if a.x == b.x:
        # V = A − B is not infinity (check), so A = −B: one in 2²⁵⁶, and no slope that the contract takes.
        raise InvalidContent("The proof has sH = −cΓ, which the contract cannot verify.")
    slope = (a.y + b.y) * pow(a.x - b.x, -1, p) % p
    words = [decoded.gamma.x, decoded.response, u.x, u.y, a.x, a.y, slope, b.x]
    roots = [_root_of_failure(suite, public, alpha, i) for i in range(counter)] + [hashed.y]
    head = b"".join(word.to_bytes(32, "big") for word in words)
    return head + proof[:1] + b"".join(root.to_bytes(32, "big") for root in roots)


def _root_of_failure(suite: Suite, public: Point, alpha: bytes, counter: int) -> int:
    """The square root of −(h³ + 7), which exists because h is on no point and p ≡ 3 mod 4."""
    p = suite.curve.field
    h = int.from_bytes(suite.candidate(public, alpha, counter), "big")
    return pow(-(h**3 + 7) % p, (p + 1) // 4, p)
