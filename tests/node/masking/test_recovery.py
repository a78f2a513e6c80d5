"""From releases to the recovery record: hostile holders, hostile records."""

from random import Random

import pytest

from node.masking.recovery import InvalidRecovery, RecoveryRecord, TooFewShares, recover, unavailable_updates
from node.masking.release import Kind
from node.masking.shamir import PRIME
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


def recovered(work, releases, survivors=SURVIVORS):
    return recover(work.graph, SHARERS, survivors, work.seed_hashes(survivors), releases)


def corrupt(release: bytes, owner: int, seed: int = 0) -> bytes:
    """Replace the share of one owner by another element of the field."""
    data = bytearray(release)
    for start in range(48, len(data), 38):
        if int.from_bytes(data[start : start + 4]) == owner:
            data[start + 5 : start + 38] = Random(seed).randrange(PRIME).to_bytes(33)
    return bytes(data)


def test_the_record_holds_b_of_survivors_and_e_of_dropouts_and_nothing_else(work, releases):
    record = recovered(work, releases)
    assert record.self_seeds == {p: work.secrets[p].self_seed for p in SURVIVORS}
    assert record.mask_secrets == {p: work.secrets[p].mask_secret for p in (6, 7)}
    data = record.to_bytes()
    assert len(data) == 36 + 32 * 8
    for position in SHARERS:
        kept = work.secrets[position].mask_secret if position in SURVIVORS else work.secrets[position].self_seed
        assert kept not in data and work.secrets[position].seal_secret not in data


def test_any_enough_releases_give_the_same_record(work, releases):
    expected = recovered(work, releases)
    assert recovered(work, {p: releases[p] for p in SURVIVORS}) == expected
    assert recovered(work, {p: releases[p] for p in (7, 6, 5, 4, 3, 2)}) == expected


def test_too_few_releases_are_an_error_that_names_the_client(work, releases):
    with pytest.raises(TooFewShares, match="4 shares of client 2 were released, 5 are needed") as caught:
        recovered(work, {p: releases[p] for p in range(5)})
    assert caught.value.client == 2


def test_a_release_that_does_not_parse_counts_as_absent(work, releases):
    with pytest.raises(TooFewShares):
        recovered(work, {p: releases[p] if p < 4 else releases[p][:-1] for p in range(6)})
    assert recovered(work, releases | {0: b"", 1: b"x" * 10_000}) == recovered(work, releases)


@pytest.mark.parametrize("liars", [(0,), (1,), (5,), (7,), (0, 7)])
def test_holders_that_release_wrong_shares_are_found_out(work, releases, liars):
    wrong = dict(releases)
    for liar in liars:
        for owner in SHARERS:
            wrong[liar] = corrupt(wrong[liar], owner, liar)
    assert recovered(work, wrong) == recovered(work, releases)


def test_too_many_wrong_shares_are_an_error_that_names_the_client(work, releases):
    wrong = {p: corrupt(data, 4, p) if p < 4 else data for p, data in releases.items()}
    with pytest.raises(TooFewShares, match="too many of the 7 shares of client 14 are wrong") as caught:
        recovered(work, wrong)
    assert caught.value.client == 14


@pytest.mark.parametrize("liars", [0, 3, 5])
def test_a_large_round_corrects_half_of_the_spare_shares(liars):
    work = Round.make(34)
    blobs = {p: work.blob(p) for p in range(34)}
    survivors = tuple(range(34))
    releases = {p: work.released(p, blobs, survivors) for p in range(34)}
    for liar in range(liars):
        for owner in range(34):
            releases[liar] = corrupt(releases[liar], owner, liar)
    record = recover(work.graph, range(34), survivors, work.seed_hashes(survivors), releases)
    assert record.self_seeds[20] == work.secrets[20].self_seed


def test_an_owner_that_shared_garbage_is_named(work, blobs):
    """Its seed does not match the hash on the ledger, whatever the holders do."""
    hashes = work.seed_hashes(SURVIVORS) | {3: bytes(32)}
    releases = {p: work.released(p, blobs, SURVIVORS) for p in SHARERS}
    with pytest.raises(TooFewShares, match="client 11 are wrong"):
        recover(work.graph, SHARERS, SURVIVORS, hashes, releases)


def test_lists_that_expose_somebody_are_not_recovered(work, releases):
    with pytest.raises(TooFewShares, match="nothing may be recovered: 4 clients survived"):
        recovered(work, releases, (0, 1, 2, 3))


def test_a_record_survives_its_bytes(work, releases):
    record = recovered(work, releases)
    hashes = work.seed_hashes(SURVIVORS)
    assert RecoveryRecord.parse(record.to_bytes(), work.graph, SHARERS, SURVIVORS, hashes) == record


@pytest.mark.parametrize(("index", "position"), [(0, 0), (3, 3), (5, 5), (6, 6), (7, 7)])
def test_a_flipped_bit_in_any_secret_names_the_client(work, releases, index, position):
    for bit in (0, 37, 255):
        data = bytearray(recovered(work, releases).to_bytes())
        data[36 + 32 * index + bit // 8] ^= 1 << bit % 8
        with pytest.raises(InvalidRecovery, match=f"client {CLIENT_OF[position]} ") as caught:
            RecoveryRecord.parse(bytes(data), work.graph, SHARERS, SURVIVORS, work.seed_hashes(SURVIVORS))
        assert caught.value.client == CLIENT_OF[position]


@pytest.mark.parametrize("byte", [0, 3, 4, 35])
def test_a_flipped_bit_in_the_header_is_found(work, releases, byte):
    data = bytearray(recovered(work, releases).to_bytes())
    data[byte] ^= 1
    with pytest.raises(InvalidRecovery, match="another round"):
        RecoveryRecord.parse(bytes(data), work.graph, SHARERS, SURVIVORS, work.seed_hashes(SURVIVORS))


@pytest.mark.parametrize("change", [lambda d: d[:-1], lambda d: d + b"\0", lambda d: b"", lambda d: d[:36]])
def test_another_length_is_found(work, releases, change):
    data = change(recovered(work, releases).to_bytes())
    with pytest.raises(InvalidRecovery, match="bytes"):
        RecoveryRecord.parse(data, work.graph, SHARERS, SURVIVORS, work.seed_hashes(SURVIVORS))


@pytest.mark.parametrize(
    ("sharers", "survivors"), [(SHARERS, (0, 1, 2, 3, 4)), (SHARERS[:-1], SURVIVORS), (SHARERS, (0, 1))]
)
def test_a_record_for_other_lists_is_found(work, releases, sharers, survivors):
    data = recovered(work, releases).to_bytes()
    with pytest.raises(InvalidRecovery):
        RecoveryRecord.parse(data, work.graph, sharers, survivors, work.seed_hashes(survivors))


def test_an_update_counts_as_lost_only_if_most_of_its_holders_miss_it(work, blobs):
    for reports in range(N):
        releases = {
            p: work.released(p, blobs, SURVIVORS, unavailable=(2,) if p < reports + (reports > 2) and p != 2 else ())
            for p in SHARERS
        }
        lost = unavailable_updates(work.graph, SHARERS, SURVIVORS, releases)
        assert lost == ((2,) if reports >= 4 else ())


def test_nobody_reports_its_own_update_as_lost(work, blobs):
    """The owner is not one of its own holders, so its word does not count."""
    releases = {p: work.released(p, blobs, SURVIVORS, unavailable=(2,)) for p in (0, 1, 2, 3)}
    assert unavailable_updates(work.graph, SHARERS, SURVIVORS, releases) == ()
    assert unavailable_updates(work.graph, SHARERS, (0, 1), releases) == ()


def test_there_are_two_kinds_of_shares():
    assert [kind.name for kind in Kind] == ["SEED", "KEY"]
