"""From releases to the recovery record, its bytes, and updates that cannot be had; who lies is in ``test_liars``."""

import pytest

from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.graph import WITNESSES
from fedgrove.node.masking.recovery import RecoveryRecord, TooFewShares, most_record_bytes, unavailable_updates
from fedgrove.node.masking.sealing import Kind
from tests.node.masking.rounds import Round

N = 8
SHARERS = tuple(range(N))
SURVIVORS = (0, 1, 2, 3, 4, 5)
CLIENT_OF = {p: 3 * p + 2 for p in range(N)}


@pytest.fixture(scope="module")
def work():
    return Round.make(N)


@pytest.fixture(scope="module")
def blobs(work):
    return {p: work.blob(p) for p in SHARERS}


@pytest.fixture(scope="module")
def releases(work, blobs):
    return {p: work.released(p, blobs, SURVIVORS) for p in SHARERS}


@pytest.fixture(scope="module")
def recovered(work, blobs):
    """``recovered(releases)``: the record that follows from these releases."""
    return lambda releases, survivors=SURVIVORS: work.recovered(blobs, survivors, releases)


def test_the_record_holds_b_of_survivors_and_e_of_dropouts_and_nothing_else(work, releases, recovered):
    record = recovered(releases)
    assert record.self_seeds == {p: work.secrets[p].self_seed for p in SURVIVORS}
    assert record.mask_secrets == {p: work.secrets[p].mask_secret for p in (6, 7)}
    data = record.to_bytes()
    assert len(data) == 40 + 32 * 8 == most_record_bytes(work.graph) - 4  # it could leave the whole out
    for position in SHARERS:
        kept = work.secrets[position].mask_secret if position in SURVIVORS else work.secrets[position].self_seed
        assert kept not in data and work.secrets[position].seal_secret not in data


def test_any_enough_releases_give_the_same_record(work, releases, recovered):
    expected = recovered(releases)
    assert recovered({p: releases[p] for p in SURVIVORS}) == expected
    assert recovered({p: releases[p] for p in (7, 6, 5, 4, 3, 2)}) == expected


def test_too_few_releases_are_an_error_that_names_the_client(work, releases, recovered):
    with pytest.raises(TooFewShares, match="4 shares of client 2 were released, but 5 are needed") as caught:
        recovered({p: releases[p] for p in range(5)})
    assert caught.value.client == 2


def test_a_release_that_does_not_parse_counts_as_absent(work, releases, recovered):
    with pytest.raises(TooFewShares):
        recovered({p: releases[p] if p < 4 else releases[p][:-1] for p in range(6)})
    assert recovered(releases | {0: b"", 1: b"x" * 10_000}) == recovered(releases)


def test_lists_that_expose_somebody_are_not_recovered(releases, recovered):
    with pytest.raises(TooFewShares, match="nothing may be recovered: 4 clients survived"):
        recovered(releases, (0, 1, 2, 3))


def test_a_record_survives_its_bytes(work, releases, recovered):
    record = recovered(releases)
    hashes = work.seed_hashes(SURVIVORS)
    assert RecoveryRecord.parse(record.to_bytes(), work.graph, SHARERS, SURVIVORS, hashes) == record


@pytest.mark.parametrize(("index", "position"), [(0, 0), (3, 3), (5, 5), (6, 6), (7, 7)])
def test_a_flipped_bit_in_any_secret_names_the_client(work, releases, index, position, recovered):
    for bit in (0, 37, 255):
        data = bytearray(recovered(releases).to_bytes())
        data[40 + 32 * index + bit // 8] ^= 1 << bit % 8
        with pytest.raises(InvalidContent, match=f"client {CLIENT_OF[position]} "):
            RecoveryRecord.parse(bytes(data), work.graph, SHARERS, SURVIVORS, work.seed_hashes(SURVIVORS))


@pytest.mark.parametrize("byte", [0, 3, 4, 35])
def test_a_flipped_bit_in_the_header_is_found(work, releases, byte, recovered):
    data = bytearray(recovered(releases).to_bytes())
    data[byte] ^= 1
    with pytest.raises(InvalidContent, match="another round"):
        RecoveryRecord.parse(bytes(data), work.graph, SHARERS, SURVIVORS, work.seed_hashes(SURVIVORS))


@pytest.mark.parametrize("change", [lambda d: d[:-1], lambda d: d + b"\0", lambda d: d + bytes(32), lambda d: d[:40]])
def test_another_length_is_found(work, releases, change, recovered):
    data = change(recovered(releases).to_bytes())
    with pytest.raises(InvalidContent, match="bytes of secrets"):
        RecoveryRecord.parse(data, work.graph, SHARERS, SURVIVORS, work.seed_hashes(SURVIVORS))


@pytest.mark.parametrize(
    ("sharers", "survivors"), [(SHARERS, (0, 1, 2, 3, 4)), (SHARERS[:-1], SURVIVORS), (SHARERS, (0, 1))]
)
def test_a_record_for_other_lists_is_found(work, releases, sharers, survivors, recovered):
    data = recovered(releases).to_bytes()
    with pytest.raises(InvalidContent):
        RecoveryRecord.parse(data, work.graph, sharers, survivors, work.seed_hashes(survivors))


@pytest.mark.parametrize("cut", [0, 3, 36, 37, 39])
def test_a_record_that_ends_before_its_secrets_is_found(work, releases, recovered, cut):
    data = recovered(releases).to_bytes()[:cut]
    with pytest.raises(InvalidContent):
        RecoveryRecord.parse(data, work.graph, SHARERS, SURVIVORS, work.seed_hashes(SURVIVORS))


# --- updates that cannot be had ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [8, 60])
def test_an_update_counts_as_lost_only_if_most_of_its_witnesses_miss_it(n):
    """In the larger round only some holders are witnesses: what the others say does not matter."""
    work, everybody = Round.make(n), range(n)
    blobs = {2: work.blob(2)}
    witnesses = work.graph.witnesses(2)
    assert len(witnesses) == min(WITNESSES, n - 1)
    others = set(work.graph.holders[2]) - set(witnesses)
    reports = {p: work.released(p, blobs, everybody, everybody, unavailable=(2,)) for p in work.graph.holders[2]}

    def lost(reporters) -> tuple[int, ...]:
        return unavailable_updates(work.graph, everybody, everybody, {p: reports[p] for p in reporters})

    for count in range(len(witnesses) + 1):
        assert lost({*witnesses[:count], *others}) == ((2,) if 2 * count > len(witnesses) else ())


def test_nobody_reports_its_own_update_as_lost(work, blobs):
    """The owner is not one of its own holders, so its word does not count."""
    releases = {p: work.released(p, blobs, SURVIVORS, unavailable=(2,)) for p in (0, 1, 2, 3)}
    assert unavailable_updates(work.graph, SHARERS, SURVIVORS, releases) == ()
    assert unavailable_updates(work.graph, SHARERS, (0, 1), releases) == ()


def test_there_are_two_kinds_of_shares():
    assert [kind.name for kind in Kind] == ["SEED", "KEY"]
