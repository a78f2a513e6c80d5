"""Groups that are summed apart in one round: each exact by itself, none readable of which too few survived."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.masking.aggregate import Aggregate
from node.masking.client import MaskingRefused
from node.masking.graph import InvalidGraph
from node.masking.recovery import recover, unavailable_updates
from node.masking.ring import WORD, encode
from node.masking.survivors import needed_secrets, summed_groups
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
    record = work.record(blobs, survivors, survivors)
    for group, summed in zip(groups, summed_groups(work.graph, survivors), strict=True):
        left = set(group) - silent
        assert summed == (left if len(left) >= 3 else set())
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
    record = recover(work.graph, everybody, survivors, work.seed_hashes(survivors), releases)
    assert tuple(record.self_seeds) == (0, 1, 2, 3)


def test_partners_are_of_the_own_group():
    work = Round.make(12, groups=(tuple(range(5)), tuple(range(5, 12))), extra_partners=3)
    for group in work.graph.groups:
        assert all(set(work.graph.neighbours[p]) <= set(group) - {p} for p in group)


@pytest.mark.parametrize("groups", [((0, 1, 2), (2, 3, 4)), ((0, 1, 7),)])
def test_groups_that_overlap_or_leave_the_order_are_refused(groups):
    with pytest.raises(InvalidGraph):
        Round.make(7, groups=groups)


def test_a_graph_with_groups_is_another_graph():
    assert Round.make(6).graph.digest != Round.make(6, groups=(tuple(range(6)),)).graph.digest
