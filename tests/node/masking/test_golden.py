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
        "graph": "eda439f7fa05495ca0d00468b65c69da",
        "shares": "5bf89dbc079a6795a1a57122495aeb94",
        "masked": "2c06cc20954efb473daae212ec906fe6",
        "release": "22d3ee18b8c64758dfaf017ee066b7da",
        "record": "99b983a027c15cd60825d0b38cf366c0",
        "model": "9f2ba5db10ec550f6fe615eece4317fb",
    },
    "some tensors": {
        "secrets": "99a175fd90c416220cce0ac85ea5ba39",
        "graph": "eda439f7fa05495ca0d00468b65c69da",
        "shares": "5bf89dbc079a6795a1a57122495aeb94",
        "masked": "a7afccdca747f58ecf5be0b10413b8b3",
        "release": "22d3ee18b8c64758dfaf017ee066b7da",
        "record": "99b983a027c15cd60825d0b38cf366c0",
        "model": "9f2ba5db10ec550f6fe615eece4317fb",
    },
    "groups": {
        "secrets": "99a175fd90c416220cce0ac85ea5ba39",
        "graph": "34edd2b3d0267bcfca7394198f916e5f",
        "shares": "a13e736efa943ecd34fa22c845d2980a",
        "masked": "f9e0061a4f25b2806e1073ea4ff7eade",
        "release": "abc6dd386cdc52f20bedac3ad03a6000",
        "record": "147cd08e6e74f3489bf8974970e8610b",
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
