"""The mask graph: partners, share-holders, thresholds, and what cannot be a graph."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain import tree
from node.masking.context import Participant, RoundContext
from node.masking.graph import InvalidGraph, build_graph, nearest, random_regular
from tests.node.masking.rounds import CONTEXT, Round, tree_partners


def people(n: int) -> list[Participant]:
    return [Participant(p, p + 1, 10 + p, bytes([p + 2]) * 32, bytes([p + 3]) * 32) for p in range(n)]


def build(n: int, **options):
    return build_graph(CONTEXT, people(n), tree_partners(n), **{"seed": b"s"} | options)


@pytest.mark.parametrize("n", [2, 3, 7, 8, 40, 100])
def test_neighbours_are_the_partners_of_the_cooperation_tree(n):
    partners = tuple(tree.partners(p, n) for p in range(n))
    assert tree_partners(n) == partners
    assert build(n).neighbours == partners


@pytest.mark.parametrize("n", [2, 5, 33])
def test_pairwise_is_the_complete_graph(n):
    assert build(n, mode="pairwise").neighbours == tuple(tuple(q for q in range(n) if q != p) for p in range(n))


@given(st.integers(2, 60), st.integers(0, 70), st.binary(max_size=8))
def test_random_graphs_are_symmetric_and_regular(n, degree, seed):
    graph = random_regular(n, degree, seed)
    assert all(p in graph[q] and p != q for p, own in enumerate(graph) for q in own)
    degrees = {len(own) for own in graph}
    assert degrees == {min(degree, n - 1)} or (n % 2 and degree % 2 and degrees <= {degree, degree + 1})


@given(st.integers(3, 40), st.integers(0, 12))
def test_extra_partners_come_on_top_of_the_trees(n, extra):
    plain, more = build(n), build(n, extra_partners=extra)
    for own, all_of_them in zip(plain.neighbours, more.neighbours, strict=True):
        assert set(own) <= set(all_of_them) and len(all_of_them) >= min(extra, n - 1)


def test_extra_partners_depend_on_the_public_seed_only():
    assert build(40, extra_partners=4) == build(40, extra_partners=4)
    assert build(40, extra_partners=4).neighbours != build(40, extra_partners=4, seed=b"other").neighbours


@pytest.mark.parametrize("n", [3, 31, 32, 33, 34, 50])
def test_share_holders_are_all_others_or_the_32_nearest_on_the_ring(n):
    graph = build(n)
    for position, holders in enumerate(graph.holders):
        distance = {q: min((q - position) % n, (position - q) % n) for q in range(n) if q != position}
        if n <= 32:
            assert set(holders) == set(distance)
        else:
            assert len(holders) == 32 and max(distance[q] for q in holders) <= 16
        assert holders == tuple(sorted(holders))
        assert all(position in graph.held_by[holder] for holder in holders)
    assert sum(map(len, graph.held_by)) == sum(map(len, graph.holders))


@pytest.mark.parametrize(("n", "threshold"), [(3, 2), (4, 3), (5, 3), (8, 5), (32, 21), (33, 22), (100, 22)])
def test_the_threshold_is_two_thirds_of_the_holders_and_one(n, threshold):
    graph = build(n)
    assert set(graph.thresholds) == {threshold}
    assert graph.min_survivors == max(3, threshold)


def test_a_threshold_can_be_set_within_the_holders():
    assert set(build(8, threshold=7).thresholds) == {7}
    for wrong in (1, 8, 0, -1):
        with pytest.raises(InvalidGraph, match="set it from 2 to 7"):
            build(8, threshold=wrong)


@given(st.integers(2, 40))
def test_sample_counts_are_added_up(n):
    assert build(n).total_samples == sum(10 + p for p in range(n))


def test_a_client_with_a_mask_key_of_low_order_has_no_partner():
    participants = people(8)
    participants[3] = dataclasses.replace(participants[3], mask_key=bytes(32))
    graph = build_graph(CONTEXT, participants, tree_partners(8), seed=b"s")
    assert graph.neighbours[3] == () and all(3 not in own for own in graph.neighbours)
    assert 3 in graph.holders[2]


def test_the_digest_depends_on_everything():
    base = Round.make(8).graph
    first = base.participants[0]
    others = [
        dataclasses.replace(base, context=RoundContext(CONTEXT.chain_id, CONTEXT.ledger, CONTEXT.round + 1)),
        dataclasses.replace(base, thresholds=(4, *base.thresholds[1:])),
        dataclasses.replace(base, neighbours=((1,), *base.neighbours[1:])),
        dataclasses.replace(base, holders=((1,), *base.holders[1:])),
    ]
    for change in ({"client": 999}, {"samples": 7}, {"mask_key": bytes(32)}, {"seal_key": bytes(32)}):
        changed = (dataclasses.replace(first, **change), *base.participants[1:])
        others.append(dataclasses.replace(base, participants=changed))
    assert len({base.digest, *(graph.digest for graph in others)}) == len(others) + 1


@pytest.mark.parametrize(
    ("participants", "partners", "fault"),
    [
        (people(4)[::-1], tree_partners(4), "not listed in the order"),
        (people(4)[1:], tree_partners(3), "not listed in the order"),
        (people(1), [[]], "cannot mask"),
        ([], [], "cannot mask"),
        ([*people(3), dataclasses.replace(people(4)[3], client=1)], tree_partners(4), "takes part twice"),
        (people(4), tree_partners(3), "3 lists of partners for 4"),
        (people(3), [[1], [], [0]], "is no partner"),
        (people(3), [[0], [], []], "is no partner"),
        (people(3), [[7], [], []], "is no partner"),
    ],
)
def test_what_is_no_graph_is_refused(participants, partners, fault):
    with pytest.raises(InvalidGraph, match=fault):
        build_graph(CONTEXT, participants, partners, seed=b"s")


@pytest.mark.parametrize("n", [33, 200])
def test_nearest_wraps_around_the_ring(n):
    assert nearest(0, n) == tuple(sorted([*range(1, 17), *range(n - 16, n)]))


@pytest.mark.parametrize(
    ("chain_id", "ledger", "number"),
    [
        (-1, "0x" + "0" * 40, 1),
        (1 << 256, "0x" + "0" * 40, 1),
        (1, "0x" + "0" * 39, 1),
        (1, "0" * 42, 1),
        (1, "0x" + "g" * 40, 1),
        (1, "0x" + "0" * 40, 0),
        (1, "0x" + "0" * 40, 1 << 64),
    ],
)
def test_a_context_out_of_range_is_refused(chain_id, ledger, number):
    with pytest.raises(ValueError):
        RoundContext(chain_id, ledger, number)


@pytest.mark.parametrize(
    "change",
    [
        {"client": 0},
        {"client": 1 << 32},
        {"samples": 0},
        {"samples": 1 << 32},
        {"mask_key": b""},
        {"seal_key": bytes(33)},
    ],
)
def test_a_participant_out_of_range_is_refused(change):
    with pytest.raises(ValueError):
        dataclasses.replace(people(1)[0], **change)
