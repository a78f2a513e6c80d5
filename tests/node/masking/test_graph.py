"""The mask graph: partners, share-holders, witnesses, the threshold, and what cannot be a graph."""

import dataclasses
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.chain.crypto import tree
from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.context import Participant, RoundContext
from fedgrove.node.masking.graph import MIN_CLIENTS, WITNESSES, Group, build_graph, random_regular
from fedgrove.node.masking.parameters import DEFAULT_ASSUMED, Sharing, sharing
from fedgrove.node.masking.x_only import point
from tests.node.masking.rounds import CONTEXT, Round, tree_partners


@cache
def mask_key(secret: int) -> bytes:
    return point(secret.to_bytes(32))[1:]


def people(n: int) -> list[Participant]:
    return [Participant(p, p + 1, 10 + p, mask_key(p + 1), (p + 3).to_bytes(2) * 16) for p in range(n)]


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
def test_random_partners_come_on_top_of_the_trees(n, degree):
    plain, more = build(n), build(n, degree=degree)
    for own, all_of_them in zip(plain.neighbours, more.neighbours, strict=True):
        assert set(own) <= set(all_of_them) and len(all_of_them) >= min(degree, n - 1)


def test_random_partners_depend_on_the_public_seed_only():
    assert build(40, degree=4) == build(40, degree=4)
    assert build(40, degree=4).neighbours != build(40, degree=4, seed=b"other").neighbours


def test_random_partners_and_holders_are_drawn_apart():
    """Of two graphs of the same degree; who knows one from the seed knows nothing else of the other."""
    graph = build(80, degree=40, shares=Sharing(40, 30))
    assert graph.neighbours != graph.holders
    assert build_graph(CONTEXT, people(80), [()] * 80, degree=40, seed=b"s").holders == build(80).holders


def test_with_all_others_for_random_partners_masks_are_those_of_every_pair():
    assert build(12, degree=11).neighbours == build(12, degree=50).neighbours == build(12, mode="pairwise").neighbours


@pytest.mark.parametrize("n", [100, 1000])
def test_partners_spread_over_all_positions(n):
    """Over many seeds a position's partners are no more often these or those than uniform sets would have them."""
    degree, seeds = 20, 40
    hits = [0] * n
    for seed in range(seeds):
        for partner in random_regular(n, degree, seed.to_bytes(4))[0]:
            hits[partner] += 1
    chance = degree / (n - 1)
    spread = (seeds * chance * (1 - chance)) ** 0.5
    assert hits[0] == 0 and sum(hits) == seeds * degree
    assert max(hits) < seeds * chance + 5 * spread


# --- holders ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 31, 32, 33, 34, 100, 256])
def test_share_holders_are_as_many_as_the_default_terms_ask_for(n):
    graph, needed = build(n), sharing(n, DEFAULT_ASSUMED)
    assert graph.threshold == needed.threshold and graph.min_survivors == max(MIN_CLIENTS, needed.threshold)
    for position, holders in enumerate(graph.holders):
        assert len(holders) == needed.holders and position not in holders
        assert holders == tuple(sorted(holders))
        assert all(position in graph.held_by[holder] for holder in holders)
    assert sum(map(len, graph.held_by)) == sum(map(len, graph.holders))


@pytest.mark.parametrize(("n", "holders"), [(40, 12), (41, 12), (300, 33)])
def test_share_holders_are_a_random_set_of_the_size_that_is_given(n, holders):
    graph, other = (build(n, shares=Sharing(holders, holders), seed=seed) for seed in (b"s", b"t"))
    assert {len(own) for own in graph.holders} == {holders} == {len(own) for own in graph.held_by}
    assert graph.holders != other.holders


@pytest.mark.parametrize("shares", [Sharing(7, 1), Sharing(7, 8), Sharing(8, 5), Sharing(0, 0), Sharing(7, 0)])
def test_a_threshold_that_does_not_fit_is_refused(shares):
    with pytest.raises(
        InvalidContent, match=f"a threshold of {shares.threshold} does not fit {shares.holders} holders"
    ):
        build(8, shares=shares)


def test_a_threshold_can_be_set_within_the_holders():
    assert build(8, shares=Sharing(7, 2)).min_survivors == 3
    assert build(8, shares=Sharing(4, 4)).threshold == 4


def test_holders_are_the_same_where_groups_are_summed_apart():
    """Else fewer shares, or none, would recover the secrets of a small group."""
    assert build(9, groups=(Group.of((0, 1, 2), 3), Group.of((3, 4, 5, 6), 3))).holders == build(9).holders


# --- witnesses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "shares"), [(3, None), (6, None), (8, None), (60, Sharing(20, 11)), (256, None)])
def test_witnesses_are_the_holders_that_follow_on_the_ring(n, shares):
    graph = build(n, shares=shares)
    for owner in range(n):
        found = graph.witnesses(owner)
        assert len(found) == min(WITNESSES, len(graph.holders[owner]))
        after = [p % n for p in range(owner + 1, owner + n) if p % n in graph.holders[owner]]
        assert list(found) == after[: len(found)]


def test_nobody_is_witness_of_many():
    """Each looks for as many updates as it has witnesses itself, give or take what the random graph brings."""
    graph = build(300)
    load = [sum(holder in graph.witnesses(owner) for owner in graph.held_by[holder]) for holder in range(300)]
    assert sum(load) == 300 * WITNESSES and max(load) <= 3 * WITNESSES


# --- what cannot be a graph -------------------------------------------------------------------------------------------


@given(st.integers(2, 40))
def test_sample_counts_are_added_up(n):
    assert build(n).total_samples == sum(10 + p for p in range(n))


def test_a_client_whose_mask_key_is_not_on_the_curve_has_no_partner():
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
        dataclasses.replace(base, threshold=4),
        dataclasses.replace(base, groups=(Group((0, 1, 2), 3, (0, 1, 2)),)),
        dataclasses.replace(base, groups=(Group((0, 1, 2), 4, (0, 1, 2)),)),
        dataclasses.replace(base, groups=(Group((0, 1, 2), 3, (0, 1)),)),
        dataclasses.replace(base, groups=(Group((0, 1), 3, (0, 1)), Group((2,), 3, (2,)))),
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
        ([*people(3), dataclasses.replace(people(4)[3], client=1)], tree_partners(4), "appears twice"),
        (people(4), tree_partners(3), "3 lists of partners for 4"),
        (people(3), [[1], [], [0]], "cannot be a partner"),
        (people(3), [[0], [], []], "cannot be a partner"),
        (people(3), [[7], [], []], "cannot be a partner"),
    ],
)
def test_what_is_no_graph_is_refused(participants, partners, fault):
    with pytest.raises(InvalidContent, match=fault):
        build_graph(CONTEXT, participants, partners, seed=b"s")


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
