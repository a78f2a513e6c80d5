"""Fixed seeds give fixed bytes: no format or mask may change without notice (SHA-256 of each blob)."""

import hashlib

import numpy as np
import pytest

from tests.node.masking.rounds import Round

EVERYBODY = tuple(range(7))
SURVIVORS = (0, 2, 3, 4, 5, 6)
GOLDEN = {
    1.0: {
        "secrets": "99a175fd90c416220cce0ac85ea5ba39",
        "graph": "aa58025522012ea35581b4a6dafa2b58",
        "shares": "b6c8294efa2376f86c5960cf750a2835",
        "masked": "cffcc6d8152a3e93962676b73d55592a",
        "release": "3f9c9f3cf846219e6c1a5efe7057018f",
        "record": "710e91f01ea1792b39aa07bd1a25d5ea",
        "model": "9f2ba5db10ec550f6fe615eece4317fb",
    },
    0.75: {
        "secrets": "99a175fd90c416220cce0ac85ea5ba39",
        "graph": "aa58025522012ea35581b4a6dafa2b58",
        "shares": "b6c8294efa2376f86c5960cf750a2835",
        "masked": "70a8d84a1a5429a67d8b190bb18e0f26",
        "release": "3f9c9f3cf846219e6c1a5efe7057018f",
        "record": "710e91f01ea1792b39aa07bd1a25d5ea",
        "model": "9f2ba5db10ec550f6fe615eece4317fb",
    },
}


def blobs_of(kappa: float) -> dict[str, bytes]:
    work = Round.make(7, 2024, kappa=kappa, extra_partners=3)
    work.vectors = [np.linspace(-p - 1, p + 1, work.layout.length, dtype=np.float32) for p in EVERYBODY]
    shares = {p: work.blob(p) for p in EVERYBODY}
    record = work.record(shares, SURVIVORS, SURVIVORS)
    return {
        "secrets": work.secrets[1].to_bytes(),
        "graph": work.graph.digest,
        "shares": shares[3],
        "masked": work.masked(3, EVERYBODY).tobytes(),
        "release": work.released(3, shares, SURVIVORS),
        "record": record.to_bytes(),
        "model": work.closed(EVERYBODY, SURVIVORS, record).tobytes(),
    }


@pytest.mark.parametrize("kappa", [1.0, 0.75])
def test_bytes_are_those_of_the_first_version(kappa):
    digests = {name: hashlib.sha256(data).hexdigest()[:32] for name, data in blobs_of(kappa).items()}
    assert digests == GOLDEN[kappa]
