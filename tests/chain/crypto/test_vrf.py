"""ECVRF: published vectors, the RFC's own examples, mutated and malformed proofs, and the on-chain message."""

import json
import random
import subprocess
import sys
from pathlib import Path

import ecdsa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.chain.crypto import vrf
from fedgrove.chain.crypto.curve import EcdsaCurve, Point, Secp256k1
from fedgrove.chain.crypto.vrf import Suite
from fedgrove.common.errors import InvalidContent, InvalidInput

ROOT = Path(__file__).parents[3]
VECTORS = json.loads((ROOT / "tests/vectors/ecvrf_secp256k1.json").read_text())["vectors"]
NATIVE, PURE = Suite(vrf.SUITE_SECP256K1, Secp256k1()), Suite(vrf.SUITE_SECP256K1, EcdsaCurve())
SUITES = pytest.mark.parametrize("suite", [NATIVE, PURE], ids=["coincurve", "ecdsa"])
P, N = NATIVE.curve.field, NATIVE.curve.order

SECRET = bytes(31) + b"\x07"
KEY = vrf.public_key(SECRET)
ALPHA = b"a round's alpha".ljust(32, b"\0")
PROOF = vrf.prove(SECRET, ALPHA)
BETA = vrf.verify(KEY, PROOF, ALPHA)

# RFC 9381 appendix B.1, ECVRF-P256-SHA256-TAI, examples 10 to 12: secret key, public key, alpha, counter, H, k, U, V,
# proof, beta.
RFC_EXAMPLES = [
    (
        "c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721",
        "0360fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6",
        b"sample",
        1,
        "0272a877532e9ac193aff4401234266f59900a4a9e3fc3cfc6a4b7e467a15d06d4",
        "0d90591273453d2dc67312d39914e3a93e194ab47a58cd598886897076986f77",
        "02bb6a034f67643c6183c10f8b41dc4babf88bff154b674e377d90bde009c21672",
        "02893ebee7af9a0faa6da810da8a91f9d50e1dc071240c9706726820ff919e8394",
        "035b5c726e8c0e2c488a107c600578ee75cb702343c153cb1eb8dec77f4b5071b4"
        "a53f0a46f018bc2c56e58d383f2305e0975972c26feea0eb122fe7893c15af376b33edf7de17c6ea056d4d82de6bc02f",
        "a3ad7b0ef73d8fc6655053ea22f9bede8c743f08bbed3d38821f0e16474b505e",
    ),
    (
        "c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721",
        "0360fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6",
        b"test",
        3,
        "02173119b4fff5e6f8afed4868a29fe8920f1b54c2cf89cc7b301d0d473de6b974",
        "5852353a868bdce26938cde1826723e58bf8cb06dd2fed475213ea6f3b12e961",
        "022779a2cafcb65414c4a04a4b4d2adf4c50395f57995e89e6de823250d91bc48e",
        "033b4a14731672e82339f03b45ff6b5b13dee7ada38c9bf1d6f8f61e2ce5921119",
        "034dac60aba508ba0c01aa9be80377ebd7562c4a52d74722e0abae7dc3080ddb56"
        "c19e067b15a8a8174905b13617804534214f935b94c2287f797e393eb0816969d864f37625b443f30f1a5a33f2b3c854",
        "a284f94ceec2ff4b3794629da7cbafa49121972671b466cab4ce170aa365f26d",
    ),
    (
        "2ca1411a41b17b24cc8c3b089cfd033f1920202a6c0de8abb97df1498d50d2c8",
        "03596375e6ce57e0f20294fc46bdfcfd19a39f8161b58695b3ec5b3d16427c274d",
        b"Example using ECDSA key from Appendix L.4.2 of ANSI.X9-62-2005",
        1,
        "0258055c26c4b01d01c00fb57567955f7d39cd6f6e85fd37c58f696cc6b7aa761d",
        "5689e2e08e1110b4dda293ac21667eac6db5de4a46a519c73d533f69be2f4da3",
        "020f465cd0ec74d2e23af0abde4c07e866ae4e5138bded5dd1196b8843f380db84",
        "036cb6f811428fc4904370b86c488f60c280fa5b496d2f34ff8772f60ed24b2d1d",
        "03d03398bf53aa23831d7d1b2937e005fb0062cbefa06796579f2a1fc7e7b8c667"
        "d091c00b0f5c3619d10ecea44363b5a599cadc5b2957e223fec62e81f7b4825fc799a771a3d7334b9186bdbee87316b1",
        "90871e06da5caa39a3c61578ebb844de8635e27ac0b13e829997d0d95dd98c19",
    ),
]


@SUITES
@pytest.mark.parametrize("vector", VECTORS, ids=[v["label"] for v in VECTORS])
def test_published_vector_with_every_intermediate_value(suite, vector):
    check_example(
        suite,
        *(bytes.fromhex(vector[name]) for name in ("sk", "pk", "alpha")),
        vector["h_ctr"],
        *(bytes.fromhex(vector[name]) for name in ("h", "k", "u", "v", "pi", "beta")),
    )
    proof = suite.decode_proof(bytes.fromhex(vector["pi"]))
    assert proof.gamma.compressed().hex() == vector["gamma"]
    assert f"{proof.challenge:032x}" == vector["c"]
    assert f"{proof.response:064x}" == vector["s"]


@pytest.mark.parametrize("example", RFC_EXAMPLES, ids=["example 10", "example 11", "example 12"])
def test_the_frame_gives_the_examples_of_rfc_9381_on_p256(example):
    sk, pk, alpha, counter, *rest = example
    suite = Suite(0x01, EcdsaCurve(ecdsa.NIST256p))
    check_example(suite, bytes.fromhex(sk), bytes.fromhex(pk), alpha, counter, *map(bytes.fromhex, rest))


def check_example(suite, secret, key, alpha, counter, h, k, u, v, proof, beta):
    curve = suite.curve
    assert suite.public_key(secret) == key
    public = suite.decode_public_key(key)
    hashed, found = suite.encode_to_curve(public, alpha)
    assert (hashed.compressed(), found) == (h, counter)
    nonce = suite.nonce(int.from_bytes(secret, "big"), hashed)
    assert nonce.to_bytes(32, "big") == k
    assert curve.public(nonce).compressed() == u
    assert curve.multiply_secret(hashed, nonce).compressed() == v
    assert suite.prove(secret, alpha) == proof
    assert suite.check(key, proof, alpha)[1].compressed() == u
    assert suite.verify(key, proof, alpha) == suite.proof_to_hash(proof) == beta


@settings(max_examples=50, deadline=None)
@given(st.integers(1, N - 1), st.binary(max_size=80))
def test_every_proof_verifies_and_both_backends_agree(secret, alpha):
    secret_key = secret.to_bytes(32, "big")
    proof = NATIVE.prove(secret_key, alpha)
    assert proof == PURE.prove(secret_key, alpha)
    assert NATIVE.verify(NATIVE.public_key(secret_key), proof, alpha) == vrf.proof_to_hash(proof)


def test_every_single_bit_flip_of_a_proof_is_refused():
    for bit in range(len(PROOF) * 8):
        mutated = bytearray(PROOF)
        mutated[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InvalidContent):
            vrf.verify(KEY, bytes(mutated), ALPHA)


def test_randomly_rewritten_proofs_are_refused():
    generator = random.Random(9381)
    for _ in range(1000):
        mutated = bytearray(PROOF)
        for _ in range(generator.randint(1, 8)):
            mutated[generator.randrange(len(mutated))] = generator.randrange(256)
        if bytes(mutated) != PROOF:
            with pytest.raises(InvalidContent):
                vrf.verify(KEY, bytes(mutated), ALPHA)


def test_a_proof_with_another_gamma_and_an_honest_first_leg_is_refused():
    """The forgery that passes when only U is checked: Γ' = (x + 1)H, with k, c and s as the prover makes them."""
    curve, x = NATIVE.curve, 7
    public = curve.public(x)
    hashed, _ = NATIVE.encode_to_curve(public, ALPHA)
    gamma, k = curve.multiply(hashed, x + 1), 12345
    c = NATIVE.challenge(public, hashed, gamma, curve.public(k), curve.multiply(hashed, k))
    forged = gamma.compressed() + c.to_bytes(16, "big") + ((k + c * x) % N).to_bytes(32, "big")
    with pytest.raises(InvalidContent, match="does not belong"):
        vrf.verify(KEY, forged, ALPHA)


def test_another_input_and_another_key_are_refused():
    for key, alpha in ((KEY, ALPHA + b"\0"), (KEY, b""), (vrf.public_key(bytes(31) + b"\x08"), ALPHA)):
        with pytest.raises(InvalidContent, match="does not belong"):
            vrf.verify(key, PROOF, alpha)


@SUITES
@pytest.mark.parametrize(
    "proof",
    [b"", PROOF[:-1], PROOF + b"\0", b"\x04" + PROOF[1:], b"\x02" + (5).to_bytes(32, "big") + PROOF[33:],
     b"\x02" + (P + 1).to_bytes(32, "big") + PROOF[33:], PROOF[:49] + N.to_bytes(32, "big"), PROOF[:49] + b"\xff" * 32,
     PROOF[:49] + bytes(32), PROOF[:33] + bytes(16) + PROOF[49:]],
)  # fmt: skip
def test_malformed_proofs_are_refused(suite, proof):
    with pytest.raises(InvalidContent):
        suite.verify(KEY, proof, ALPHA)


@SUITES
@pytest.mark.parametrize("key", [b"", KEY[:-1], KEY + b"\0", b"\x05" + KEY[1:], b"\x02" + (5).to_bytes(32, "big")])
def test_malformed_public_keys_are_refused(suite, key):
    with pytest.raises(InvalidContent):
        suite.verify(key, PROOF, ALPHA)


def test_a_challenge_that_leads_to_infinity_is_refused():
    forged = PROOF[:33] + (1).to_bytes(16, "big") + (7).to_bytes(32, "big")  # sG = cY
    with pytest.raises(InvalidContent, match="infinity"):
        vrf.verify(KEY, forged, ALPHA)


@pytest.mark.parametrize("secret", [b"", bytes(32), N.to_bytes(32, "big"), b"\xff" * 32, bytes(30) + b"\x01\x02" * 2])
def test_malformed_secret_keys_are_refused_without_showing_them(secret):
    for attempt in (vrf.public_key, lambda key: vrf.prove(key, ALPHA)):
        with pytest.raises(InvalidInput) as caught:
            attempt(secret)
        assert not secret or (secret.hex() not in str(caught.value) and repr(secret) not in str(caught.value))


def test_hints_hold_the_equations_that_the_contract_checks():
    for vector in VECTORS:
        key, alpha, proof = (bytes.fromhex(vector[name]) for name in ("pk", "alpha", "pi"))
        message = vrf.hints(key, proof, alpha)
        assert len(message) == vrf.MESSAGE_HEAD_BYTES + 32 * (vector["h_ctr"] + 1)
        gamma_x, s, ux, uy, ax, ay, slope, bx = (int.from_bytes(message[i : i + 32], "big") for i in range(0, 256, 32))
        assert vrf.MESSAGE_HEAD_BYTES == 257 and message[256:257] + message[:32] == proof[:33]
        assert (gamma_x, s) == (int.from_bytes(proof[1:33], "big"), int(vector["s"], 16))
        assert Point(ux, uy).compressed().hex() == vector["u"]
        minus_b_y = (ay + slope * (bx - ax)) % P
        assert Point(bx, P - minus_b_y) == NATIVE.curve.multiply(NATIVE.curve.decode(proof[:33]), int(vector["c"], 16))
        vx = (slope**2 - ax - bx) % P
        assert Point(vx, (slope * (ax - vx) - ay) % P).compressed().hex() == vector["v"]
        check_roots(NATIVE.decode_public_key(key), alpha, message[257:])


def check_roots(public, alpha, roots):
    last = len(roots) // 32 - 1
    for counter in range(last + 1):
        h = int.from_bytes(NATIVE.candidate(public, alpha, counter), "big")
        root = int.from_bytes(roots[32 * counter :][:32], "big")
        assert (root**2 - (1 if counter == last else -1) * (h**3 + 7)) % P == 0


def test_hints_are_made_for_valid_proofs_only():
    with pytest.raises(InvalidContent):
        vrf.hints(KEY, PROOF, b"another input")


def test_hints_agree_between_backends():
    assert vrf.hints(KEY, PROOF, ALPHA, NATIVE) == vrf.hints(KEY, PROOF, ALPHA, PURE)


def test_coordinates_are_those_of_the_key():
    x, y = vrf.coordinates(KEY)
    assert Point(x, y).compressed() == KEY


def test_the_committed_solidity_vectors_are_what_the_prover_gives():
    script = ROOT / "scripts/make_vrf_vectors.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
