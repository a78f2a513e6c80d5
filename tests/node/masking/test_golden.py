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
        "secrets": "b569f27eb1ef572856409fff35151c84",
        "graph": "1db73faec94983bde943c146c869589c",
        "shares": "442637b6593f9a226aedc34b7cd1f35c",
        "masked": "5d43957a8377b79df43c79369ee70747",
        "release": "395cc54184f8f9620a26ca0b6e21b233",
        "record": "49e18fd4edad5a90c2a6a7777d7db23a",
        "model": "9f2ba5db10ec550f6fe615eece4317fb",
    },
    "some tensors": {
        "secrets": "b569f27eb1ef572856409fff35151c84",
        "graph": "1db73faec94983bde943c146c869589c",
        "shares": "442637b6593f9a226aedc34b7cd1f35c",
        "masked": "4e825a30a1b4038df4199a7c8ea6e151",
        "release": "395cc54184f8f9620a26ca0b6e21b233",
        "record": "49e18fd4edad5a90c2a6a7777d7db23a",
        "model": "9f2ba5db10ec550f6fe615eece4317fb",
    },
    "groups": {
        "secrets": "b569f27eb1ef572856409fff35151c84",
        "graph": "03f4ca7477cd6530b9e036ec32529cf6",
        "shares": "16c2527ed2231f99d86ac064c3d06359",
        "masked": "7208e67f725a58ca1738ae478c86f842",
        "release": "db3aaf1e896e7eb153d2aba4d838d700",
        "record": "5ac0baa8131f5cf9591b14ad750d8d04",
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
