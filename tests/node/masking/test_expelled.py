"""Recovery records that leave out survivors whose own opened keys prove that they lied."""

import pytest

from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.recovery import RecoveryRecord, most_record_bytes, recover
from tests.node.masking.rounds import Round

N = 8
SHARERS = tuple(range(N))
SURVIVORS = (0, 1, 2, 3, 4, 5, 6)
LIAR = 2
LEFT = tuple(position for position in SURVIVORS if position != LIAR)


@pytest.fixture(scope="module")
def work():
    return Round.make(N)


@pytest.fixture(scope="module")
def blobs(work):
    return {position: work.blob(position) for position in SHARERS}


@pytest.fixture(scope="module")
def record(work, blobs):
    """That of the stage in which the liar is out: its holders released for the others."""
    seed = work.secrets[LIAR].self_seed
    releases = {position: work.released(position, blobs, LEFT) for position in SHARERS if position != LIAR}
    hashes = work.seed_hashes(SURVIVORS)
    return recover(work.graph, SHARERS, SURVIVORS, hashes, releases, blobs, expelled={LIAR: seed})


def parsed(work, data: bytes) -> RecoveryRecord:
    return RecoveryRecord.parse(data, work.graph, SHARERS, SURVIVORS, work.seed_hashes(SURVIVORS))


def test_who_is_expelled_is_a_dropout_whose_self_mask_seed_is_known(work, record):
    assert tuple(record.self_seeds) == record.left(SURVIVORS) == LEFT
    assert record.expelled == {LIAR: work.secrets[LIAR].self_seed}
    assert record.mask_secrets == {position: work.secrets[position].mask_secret for position in (LIAR, 7)}


def test_its_bytes_are_read_back_and_bounded(work, record):
    data = record.to_bytes()
    assert parsed(work, data) == record
    assert len(data) <= most_record_bytes(work.graph, expels=True)


def test_a_seed_that_is_not_the_expelled_ones_is_refused(work, record):
    data = record.to_bytes()
    at = data.index(work.secrets[LIAR].self_seed)
    with pytest.raises(InvalidContent, match="self-mask seed"):
        parsed(work, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


def test_nobody_is_expelled_who_is_no_survivor_or_twice(work, record):
    data = record.to_bytes()
    for positions in ((7,), (), (LIAR, LIAR)):
        head = len(positions).to_bytes(4) + b"".join(each.to_bytes(4) for each in positions)
        seeds = work.secrets[LIAR].self_seed * len(positions)
        with pytest.raises(InvalidContent):
            parsed(work, data[:4] + head + seeds + data[4 + 4 + 4 + 32 :])


def test_a_record_cannot_hide_whom_it_expels(work, record):
    data = record.to_bytes()
    with pytest.raises(InvalidContent, match="list of survivors"):
        parsed(work, b"FGV2" + data[4 + 4 + 4 + 32 :])
