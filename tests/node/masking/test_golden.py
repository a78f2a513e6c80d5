"""Fixed seeds give fixed bytes: no format or mask may change without notice (SHA-256 of each blob)."""

import hashlib

import numpy as np
import pytest

from tests.node.masking.rounds import Round

EVERYBODY = tuple(range(7))
SURVIVORS = (0, 2, 3, 4, 5, 6)
CASES = {
    "all": {"kappa": 1.0, "degree": 3},
    "some tensors": {"kappa": 0.75, "degree": 3},
    "groups": {"groups": ((0, 1, 2, 3), (4, 5, 6))},
}
GOLDEN = {
    "all": {
        "secrets": "99a175fd90c416220cce0ac85ea5ba39",
        "graph": "eff5b1ea20e4b298fb6ff5b8f79b1fa2",
        "shares": "b3a38b24ed53c6bdf3902bcd6d7037aa",
        "masked": "2c06cc20954efb473daae212ec906fe6",
        "release": "495d029962bd676e1cf478ae682dfcad",
        "record": "bb09c3d2f0f9ea4fdea1a934693f376f",
        "model": "9f2ba5db10ec550f6fe615eece4317fb",
    },
    "some tensors": {
        "secrets": "99a175fd90c416220cce0ac85ea5ba39",
        "graph": "eff5b1ea20e4b298fb6ff5b8f79b1fa2",
        "shares": "b3a38b24ed53c6bdf3902bcd6d7037aa",
        "masked": "a7afccdca747f58ecf5be0b10413b8b3",
        "release": "495d029962bd676e1cf478ae682dfcad",
        "record": "bb09c3d2f0f9ea4fdea1a934693f376f",
        "model": "9f2ba5db10ec550f6fe615eece4317fb",
    },
    "groups": {
        "secrets": "99a175fd90c416220cce0ac85ea5ba39",
        "graph": "97bfe323f43f40ceb7c18d414eef3a81",
        "shares": "09803f7f63bb89d7714ce497fff8a246",
        "masked": "f9e0061a4f25b2806e1073ea4ff7eade",
        "release": "df153230a90106d317aad29fc430921f",
        "record": "d043502bf38e133a043ab9ee4afb3cc0",
    },
}


def blobs_of(case: str) -> dict[str, bytes]:
    work = Round.make(7, 2024, **CASES[case])
    work.vectors = [np.linspace(-p - 1, p + 1, work.layout.length, dtype=np.float32) for p in EVERYBODY]
    shares = {p: work.blob(p) for p in EVERYBODY}
    left_out = (1,) if work.graph.groups else ()
    record = work.record(shares, SURVIVORS, SURVIVORS, left_out)
    blobs = {
        "secrets": work.secrets[1].to_bytes(),
        "graph": work.graph.digest,
        "shares": shares[3],
        "masked": work.masked(3, EVERYBODY).tobytes(),
        "release": work.released(3, shares, SURVIVORS, unavailable=(2,)),
        "record": record.to_bytes(),
    }
    if not left_out:
        blobs["model"] = work.closed(EVERYBODY, SURVIVORS, record).tobytes()
    return blobs


@pytest.mark.parametrize("case", CASES)
def test_bytes_do_not_change_unnoticed(case):
    digests = {name: hashlib.sha256(data).hexdigest()[:32] for name, data in blobs_of(case).items()}
    assert digests == GOLDEN[case]
