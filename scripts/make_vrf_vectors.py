"""Regenerate the vectors of the Solidity VRF tests: `python scripts/make_vrf_vectors.py [--check]`.

Deterministic. Three files of columns (equal-length arrays, which Foundry's `vm.parseJson…Array` reads) land in
tests/contracts/vectors: the published vectors with their on-chain messages, random ones, and forgeries to be refused.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path

from fedgrove.chain.crypto import vrf

ROOT = Path(__file__).resolve().parent.parent
PUBLISHED = ROOT / "tests" / "vectors" / "ecvrf_secp256k1.json"
TARGET = ROOT / "tests" / "contracts" / "vectors"
RANDOM_VECTORS = 256
FORGERIES = 16
LIES = ("", "B", "", "A")
"""Which point forgeries lie about, in turn."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Regenerate the vectors of the Solidity VRF tests.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a committed file differs")
    check = parser.parse_args().check
    files = {"ecvrf_published": published(), "ecvrf_random": random_vectors(), "ecvrf_forged": forgeries()}
    stale = []
    for name, rows in files.items():
        path = TARGET / f"{name}.json"
        text = json.dumps({key: [row[key] for row in rows] for key in rows[0]}, indent=0) + "\n"
        if check and (not path.exists() or path.read_text() != text):
            stale.append(path.name)
        elif not check:
            path.write_text(text)
    if stale:
        print(f"Run scripts/make_vrf_vectors.py: stale are {', '.join(stale)}.", file=sys.stderr)
    return 1 if stale else 0


def published() -> list[dict[str, str]]:
    """The 26 published vectors; inputs of any length."""
    vectors = json.loads(PUBLISHED.read_text())["vectors"]
    return [row(bytes.fromhex(v["sk"]), bytes.fromhex(v["alpha"])) for v in vectors]


def random_vectors() -> list[dict[str, str]]:
    """Pseudorandom keys over 32-byte inputs, as on the ledger."""
    return [row(digest("secret", i), digest("alpha", i)) for i in range(RANDOM_VECTORS)]


def forgeries() -> list[dict[str, str]]:
    """Messages of a prover who knows its key and wants the output of Γ' = (x + 1)H instead of xH.

    Even ones carry true hints for the verification equation's terms; odd ones lie about B or A so that the slope gives
    the V = kH of the challenge. The first leg (U) holds in all: a contract that checked only that leg would accept.
    """
    return [forgery(digest("forger", i), digest("forged alpha", i), LIES[i % len(LIES)]) for i in range(FORGERIES)]


def row(secret: bytes, alpha: bytes) -> dict[str, str]:
    key = vrf.public_key(secret)
    proof = vrf.prove(secret, alpha)
    beta = vrf.verify(key, proof, alpha)
    return columns(key, alpha, vrf.hints(key, proof, alpha)) | {"proof": hexed(proof), "beta": hexed(beta)}


def forgery(secret: bytes, alpha: bytes, lie: str) -> dict[str, str]:
    suite = vrf.SUITE
    curve, p, n = suite.curve, suite.curve.field, suite.curve.order
    x = int.from_bytes(secret, "big")
    public = curve.public(x)
    hashed, counter = suite.encode_to_curve(public, alpha)
    gamma = curve.multiply(hashed, x + 1)
    k = suite.nonce(x, hashed)
    u, v = curve.public(k), curve.multiply(hashed, k)
    c = suite.challenge(public, hashed, gamma, u, v)
    s = (k + c * x) % n
    b = curve.multiply(hashed, c * x % n) if lie == "B" else curve.multiply(gamma, c)
    a = curve.add(v, b) if lie == "A" else curve.multiply(hashed, s)
    slope = (a.y + b.y) * pow(a.x - b.x, -1, p) % p
    words = b"".join(word.to_bytes(32, "big") for word in (gamma.x, s, u.x, u.y, a.x, a.y, slope, b.x))
    honest = vrf.hints(public.compressed(), vrf.prove(secret, alpha), alpha)
    roots = honest[-32 * (counter + 1) :]
    return columns(public.compressed(), alpha, words + gamma.compressed()[:1] + roots)


def columns(key: bytes, alpha: bytes, message: bytes) -> dict[str, str]:
    x, y = vrf.coordinates(key)
    return {"x": hexed(x.to_bytes(32)), "y": hexed(y.to_bytes(32)), "alpha": hexed(alpha), "message": hexed(message)}


def digest(label: str, index: int) -> bytes:
    return hashlib.sha256(f"fedgrove vrf vectors {label} {index}".encode()).digest()


def hexed(data: bytes) -> str:
    return "0x" + data.hex()


if __name__ == "__main__":
    sys.exit(main())
