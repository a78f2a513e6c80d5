"""Groups that are summed apart in one round: each exact by itself, none readable of which too few survived."""

import dataclasses
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.aggregate import Aggregate
from fedgrove.node.masking.graph import Group, encode_positions
from fedgrove.node.masking.parameters import Sharing
from fedgrove.node.masking.recovery import RecoveryRecord, TooFewShares, most_record_bytes, recover, unavailable_updates
from fedgrove.node.masking.release import parse_release
from fedgrove.node.masking.ring import WORD, encode
from fedgrove.node.masking.sealing import MaskingRefused
from fedgrove.node.masking.survivors import needed_secrets, opened_groups, summed_groups
from tests.node.masking.rounds import Round


def group_sum(work: Round, group: frozenset[int], sharers, survivors, record) -> np.ndarray:
    """The sum of a group, its masks off."""
    aggregate = Aggregate(
        work.graph, sharers, survivors, record, work.layout, work.bound, kappa=work.kappa, group=group
    )
    for position in group:
        aggregate.add(position, [work.masked(position, sharers).tobytes()])
    return aggregate.unmasked()


def plain(work: Round, group: frozenset[int]) -> np.ndarray:
    total, everything = np.zeros(work.layout.length, WORD), work.graph.total_samples
    for position in group:
        samples = work.graph.participants[position].samples
        total += encode(work.vectors[position], work.layout, samples, everything, work.bound)
    return total


@settings(max_examples=15, deadline=None)
@given(st.integers(9, 16), st.integers(0, 2**32), st.data())
def test_each_group_has_its_exact_sum_or_none(n, seed, data):
    order = list(range(n))
    Random(seed).shuffle(order)
    cut, end = data.draw(st.integers(3, 5)), data.draw(st.integers(8, n))
    groups = (tuple(sorted(order[:cut])), tuple(sorted(order[cut:end])))
    work = Round.make(n, seed, groups=groups, mode="pairwise")
    silent = set(data.draw(st.lists(st.sampled_from(order), max_size=2)))
    sharers = set(range(n))
    survivors = [p for p in range(n) if p not in silent]
    if len(survivors) < work.graph.min_survivors:
        return
    blobs = {p: work.blob(p) for p in sharers}
    if not any(summed_groups(work.graph, survivors)):
        with pytest.raises(MaskingRefused, match="of a group survived that mask with each other"):
            needed_secrets(work.graph, sharers, survivors)
        return
    record = work.record(blobs, survivors, survivors)
    for group, summed in zip(groups, summed_groups(work.graph, survivors), strict=True):
        left = set(group) - silent
        assert summed == (left if len(left) >= 3 and 2 * len(left) > len(group) else set())
        if summed:
            assert (group_sum(work, summed, sharers, survivors, record) == plain(work, summed)).all()
        else:
            assert not left & set(record.self_seeds) and not set(group) & set(record.mask_secrets)


def test_nothing_is_revealed_of_a_group_of_which_two_are_left():
    work = Round.make(8, groups=((0, 2, 4), (1, 3, 5, 6)), mode="pairwise")
    needed = needed_secrets(work.graph, range(8), [1, 2, 3, 4, 5, 6, 7])
    assert needed.seeds == (1, 3, 5, 6) and needed.keys == ()


def test_who_is_in_no_group_masks_nothing():
    work = Round.make(7, groups=((0, 1, 2), (3, 4, 5)), mode="pairwise")
    assert work.graph.neighbours[6] == ()
    with pytest.raises(MaskingRefused):
        work.masked(6, range(7))


def test_who_is_in_no_sum_stops_no_other_by_taking_its_upload_away():
    """Holders cannot fetch it, and say so of nobody who is to be summed."""
    work, everybody = Round.make(9, groups=((0, 1, 2, 3), (4, 5, 6)), mode="pairwise"), range(9)
    survivors = [0, 1, 2, 3, 5, 6, 7, 8]
    blobs = {p: work.blob(p) for p in everybody}
    releases = {p: work.released(p, blobs, survivors, unavailable=(2, 5, 8)) for p in survivors}
    assert unavailable_updates(work.graph, everybody, survivors, releases) == (2,)
    record = work.recovered(blobs, survivors, releases)
    assert tuple(record.self_seeds) == (0, 1, 2, 3)


@pytest.mark.parametrize("mode", ["bbtsa", "pairwise"])
def test_partners_are_all_others_of_the_own_group_and_nobody_else(mode):
    """Who is in which group may be known before the draw, so neither the tree nor random partners are enough."""
    work = Round.make(12, groups=(tuple(range(5)), tuple(range(5, 12))), degree=3, mode=mode)
    for group in work.graph.groups:
        assert all(set(work.graph.neighbours[p]) == set(group.positions) - {p} for p in group.positions)


# --- groups that are left out -----------------------------------------------------------------------------------------

GROUPS = ((0, 1, 2, 3), (4, 5, 6), (7, 8, 9, 10))
DROPPED = 3


@pytest.fixture(scope="module")
def grouped():
    """A round of three groups, one of whose members dropped out; its blobs and releases."""
    work = Round.make(11, groups=GROUPS, mode="pairwise")
    survivors = [p for p in range(11) if p != DROPPED]
    blobs = {p: work.blob(p) for p in range(11)}
    return work, blobs, survivors, {p: work.released(p, blobs, survivors) for p in survivors}


@pytest.mark.parametrize("left_out", [(), (0,), (1,), (0, 2), (1, 2)])
def test_a_record_opens_every_group_but_those_left_out(grouped, left_out):
    work, blobs, survivors, releases = grouped
    record = work.recovered(blobs, survivors, releases, left_out)
    assert record.left_out == left_out
    opened = opened_groups(work.graph, survivors, left_out)
    for number, (group, summed) in enumerate(zip(GROUPS, opened, strict=True)):
        assert summed == (set() if number in left_out else set(group) - {DROPPED})
        if summed:
            assert (group_sum(work, summed, blobs, survivors, record) == plain(work, summed)).all()
        else:
            assert not set(group) & {*record.self_seeds, *record.mask_secrets}


def test_of_a_group_left_out_no_secret_is_in_the_record(grouped):
    work, blobs, survivors, releases = grouped
    data = work.recovered(blobs, survivors, releases, (0,)).to_bytes()
    assert not any(work.secrets[p].self_seed in data or work.secrets[p].mask_secret in data for p in GROUPS[0])
    assert all(work.secrets[p].self_seed in data for p in GROUPS[1] + GROUPS[2])


def test_a_spoilt_group_is_left_out_and_the_others_summed(grouped):
    """A member's shares are gone: without leaving its group out nothing is recovered, with it all the rest is."""
    work, blobs, survivors, _ = grouped
    known = {p: blob for p, blob in blobs.items() if p != 5}
    releases = {p: work.released(p, known, survivors, sharers=blobs) for p in survivors}
    hashes = work.seed_hashes(survivors)
    with pytest.raises(TooFewShares) as lack:
        recover(work.graph, blobs, survivors, hashes, releases, known)
    assert lack.value.client == work.graph.client(5) and lack.value.owner_lied
    record = recover(work.graph, blobs, survivors, hashes, releases, known, (1,))
    assert set(record.self_seeds) == {0, 1, 2, 7, 8, 9, 10}


def test_all_groups_cannot_be_left_out(grouped):
    work, blobs, survivors, releases = grouped
    with pytest.raises(TooFewShares, match="every group is left out"):
        work.recovered(blobs, survivors, releases, (0, 1, 2))


@pytest.mark.parametrize("left_out", [(), (1,), (0, 2)])
def test_a_record_says_itself_what_it_leaves_out(grouped, left_out):
    work, blobs, survivors, releases = grouped
    record = work.recovered(blobs, survivors, releases, left_out)
    assert RecoveryRecord.parse(record.to_bytes(), work.graph, blobs, survivors, work.seed_hashes(survivors)) == record
    assert len(record.to_bytes()) <= most_record_bytes(work.graph)


@pytest.mark.parametrize("listed", [(1, 1), (2, 1), (3,), (2**32 - 1,), (0, 1, 2, 2), (0, 1, 2)])
def test_a_record_that_leaves_out_what_there_is_not_is_refused(grouped, listed):
    """Twice, out of order, beyond the groups; and one that leaves out everything."""
    work, blobs, survivors, releases = grouped
    data = work.recovered(blobs, survivors, releases, (0,)).to_bytes()
    wrong = data[:36] + encode_positions(listed) + data[44:]
    with pytest.raises(InvalidContent):
        RecoveryRecord.parse(wrong, work.graph, blobs, survivors, work.seed_hashes(survivors))


@pytest.mark.parametrize("count", [4, 1000, 2**32 - 1])
def test_a_count_of_groups_beyond_the_groups_is_refused_unread(grouped, count):
    work, blobs, survivors, releases = grouped
    data = work.recovered(blobs, survivors, releases).to_bytes()
    with pytest.raises(InvalidContent, match="is cut short, or lists more than"):
        wrong = data[:36] + count.to_bytes(4) + data[40:]
        RecoveryRecord.parse(wrong, work.graph, blobs, survivors, work.seed_hashes(survivors))


def test_where_all_are_summed_in_one_a_record_leaves_nothing_out():
    work = Round.make(6)
    blobs = {p: work.blob(p) for p in range(6)}
    data = work.record(blobs, range(6), range(6)).to_bytes()
    with pytest.raises(InvalidContent):
        wrong = data[:36] + encode_positions((0,)) + data[40:]
        RecoveryRecord.parse(wrong, work.graph, blobs, range(6), work.seed_hashes(range(6)))


# --- how many of a group must survive -------------------------------------------------------------------------------


@pytest.mark.parametrize("least", [0, 3, 5, 6, 8])
def test_a_group_counts_while_as_many_survive_as_it_takes(least):
    groups = (tuple(range(8)), tuple(range(8, 20)))
    work = Round.make(20, groups=groups, least=least, shares=Sharing(19, 3))
    for left in range(9):
        survivors = [*range(left), *range(8, 20)]
        counted = summed_groups(work.graph, survivors)
        assert counted == (set(range(left)) if left >= max(least, 5) else set(), set(groups[1]))
        seeds = set(needed_secrets(work.graph, range(20), survivors).seeds)
        assert seeds == counted[0] | counted[1]


def test_of_a_group_that_does_not_count_nothing_is_released():
    work = Round.make(9, groups=((0, 1, 2, 3), (4, 5, 6, 7, 8)), least=5)
    blobs, survivors = {p: work.blob(p) for p in range(9)}, [0, 1, 2, 4, 5, 6, 7, 8]
    for holder in survivors:
        parsed = parse_release(work.released(holder, blobs, survivors), work.graph, holder, range(9), survivors)
        assert set(parsed.shares) <= {4, 5, 6, 7, 8}


def test_where_no_group_counts_the_lists_are_unsafe():
    """It is no want of shares: the round fails for too few survivors, and nobody is to blame."""
    work = Round.make(9, groups=((0, 1, 2, 3), (4, 5, 6, 7, 8)), least=5)
    with pytest.raises(
        MaskingRefused, match="4 clients of a group survived that mask with each other, but 5 are needed"
    ):
        needed_secrets(work.graph, range(9), [0, 1, 2, 4, 5, 6, 7])


def test_the_graph_says_how_many_must_survive():
    groups = (tuple(range(6)),)
    assert Round.make(6, groups=groups, least=5).graph.digest != Round.make(6, groups=groups, least=6).graph.digest


@pytest.mark.parametrize(("left", "counts"), [(8, True), (5, True), (4, False), (3, False)])
def test_a_group_counts_while_more_than_half_of_it_survived(left, counts):
    """Whoever says who is summed apart, as in clusters: never less than a majority of them."""
    work = Round.make(20, groups=(tuple(range(8)), tuple(range(8, 20))), mode="pairwise")
    survivors = [*range(left), *range(8, 20)]
    assert bool(summed_groups(work.graph, survivors)[0]) is counts
    seeds = set(needed_secrets(work.graph, range(20), survivors).seeds)
    assert seeds & set(range(8)) == (set(range(left)) if counts else set())


@pytest.mark.parametrize("groups", [((0, 1, 2), (2, 3, 4)), ((0, 1, 7),)])
def test_groups_that_overlap_or_leave_the_order_are_refused(groups):
    with pytest.raises(InvalidContent):
        Round.make(7, groups=groups)


def test_a_graph_with_groups_is_another_graph():
    assert Round.make(9).graph.digest != Round.make(9, groups=((0, 1, 2, 3), (4, 5, 6, 7, 8))).graph.digest


# --- members that count, and those that came later --------------------------------------------------------------------


def test_who_came_after_the_cut_does_not_count_towards_the_quota():
    """An admin's puppets would fill a cell around one member."""
    graph = Round.make(12).graph
    puppets = Group.of(range(6), 3, counted=(0, 1, 2, 3))
    graph = dataclasses.replace(graph, groups=(puppets, Group.of(range(6, 12), 3)))
    assert puppets.quota == 3
    assert summed_groups(graph, [0, 1, 2, 4, 5, *range(6, 12)])[0] == {0, 1, 2, 4, 5}
    assert summed_groups(graph, [0, 1, 4, 5, *range(6, 12)])[0] == set()


@pytest.mark.parametrize(("size", "quota"), [(0, 3), (4, 3), (5, 3), (6, 4), (9, 5)])
def test_who_was_there_when_it_was_cut_counts_though_it_is_away(size, quota):
    assert Group.of(range(4), 3, size=size).quota == quota


# --- the largest part that masks connect ------------------------------------------------------------------------------


def test_who_is_not_connected_is_left_out_and_the_others_summed():
    """A member without partners, as by a mask key of zeros, stops nothing and is in no sum."""
    work = Round.make(8, mode="pairwise")
    alone = tuple(() if p == 3 else tuple(q for q in own if q != 3) for p, own in enumerate(work.graph.neighbours))
    graph = dataclasses.replace(work.graph, neighbours=alone)
    needed = needed_secrets(graph, range(8), range(8))
    assert needed.seeds == (0, 1, 2, 4, 5, 6, 7) and needed.keys == ()


def test_parts_of_which_none_has_the_majority_are_not_summed():
    work = Round.make(8, mode="pairwise")
    halves = tuple(tuple(q for q in range(8) if q != p and q // 4 == p // 4) for p in range(8))
    graph = dataclasses.replace(work.graph, neighbours=halves)
    with pytest.raises(MaskingRefused, match="but 5 are needed"):
        needed_secrets(graph, range(8), range(8))
