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
        "graph": "1fae86a354243de8e5bbf54c09bde27d",
        "shares": "a63a5a01c81393a570c5012f590a8369",
        "masked": "2c06cc20954efb473daae212ec906fe6",
        "release": "50de654cf080034e4cb0ac1fdc916557",
        "record": "9d745781be9829cdc6ff05dc8072d3ca",
        "model": "9f2ba5db10ec550f6fe615eece4317fb",
    },
    "some tensors": {
        "secrets": "99a175fd90c416220cce0ac85ea5ba39",
        "graph": "1fae86a354243de8e5bbf54c09bde27d",
        "shares": "a63a5a01c81393a570c5012f590a8369",
        "masked": "a7afccdca747f58ecf5be0b10413b8b3",
        "release": "50de654cf080034e4cb0ac1fdc916557",
        "record": "9d745781be9829cdc6ff05dc8072d3ca",
        "model": "9f2ba5db10ec550f6fe615eece4317fb",
    },
    "groups": {
        "secrets": "99a175fd90c416220cce0ac85ea5ba39",
        "graph": "ff68b00b4fd85d1fecb82bacbfb25310",
        "shares": "511111869f32372818caad8adc2bb883",
        "masked": "f9e0061a4f25b2806e1073ea4ff7eade",
        "release": "8cf7ae8657f14339551c661481b8627f",
        "record": "279d402829d9294039d9598ecd74bc95",
    },
}


def blobs_of(case: str) -> dict[str, bytes]:
    work = Round.make(7, 2024, **CASES[case])
    work.vectors = [np.linspace(-p - 1, p + 1, work.layout.length, dtype=np.float32) for p in EVERYBODY]
    shares = {p: work.blob(p) for p in EVERYBODY}
    left_out = () if work.graph.is_whole else (1,)
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
