"""What a round sums: computed from the ledger by everybody, whatever members ask for, and whoever is away."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.common.errors import InvalidContent
from fedgrove.node.methods.kmeans import field as gf
from fedgrove.node.methods.kmeans.code import Code
from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.decoder import decode
from fedgrove.node.methods.kmeans.exchange import Exchange, exchange
from fedgrove.node.methods.kmeans.state import KMeansState
from fedgrove.node.methods.kmeans.terms import KMeansTerms
from fedgrove.node.methods.kmeans.vector import draw_vector

TERMS = KMeansTerms(k=2, dimensions=2, step=0.25, restarts=2)
KEY = bytes(range(32))
EVERYBODY = ((1, 2, 3, 4),)
STATED = {1: 64, 2: 64, 3: 128, 4: 64}


def a_round(before: KMeansState, stated=STATED, asked=(), groups=EVERYBODY) -> Exchange:
    return exchange(TERMS, before, groups, stated, asked, KEY)


def counts(bins: dict[tuple[int, int], int]) -> BinCounts:
    return BinCounts.of(np.array(list(bins)), np.array(list(bins.values())))


def trained(*clients: int) -> KMeansState:
    return KMeansState(counts({(0, 0): 10, (1, 1): 20, (2, 2): 30}), clients or (1, 2, 3, 4), np.zeros((2, 2)), 1, 1)


def finish(planned: Exchange, survivors, *decoded) -> KMeansState:
    return planned.finish(2, survivors, decoded, np.random.default_rng(0))


def test_whoever_is_there_is_summed_in_full_the_first_time():
    planned = a_round(KMeansState.empty(2))
    (whole,) = planned.sums
    assert whole.bounds == STATED
    assert (whole.code.capacity, whole.code.limit, whole.code.signed) == (8, 320, False)


def test_nothing_is_summed_when_nobody_wants_anything():
    assert a_round(trained()).sums == () and a_round(trained()).sum_of(1) is None


@pytest.mark.parametrize(
    ("before", "stated", "asked"),
    [
        (trained(), STATED, {2}),  # took points back, and is there
        (trained(), {1: 64, 3: 128, 4: 64}, {2}),  # took points back, or left, and is away
        (trained(1, 2, 3), STATED, ()),  # has joined, or is back
    ],
)
def test_when_anybody_wants_something_everybody_is_summed_anew(before, stated, asked):
    (whole,) = a_round(before, stated, asked).sums
    assert set(whole.bounds) == set(stated) and not whole.code.signed
    after = finish(a_round(before, stated, asked), stated, counts({(0, 0): 9}))
    assert after.counts.total == 9 and after.clients == tuple(stated) and (after.round, after.whole) == (2, 2)


def test_who_is_waited_for_and_does_not_come_moves_nothing():
    assert a_round(trained(1, 2, 3), {1: 64, 2: 64, 3: 128}).sums == ()


@pytest.mark.parametrize("stated", [{1: 64, 2: 64}, {1: 64}, {}])
def test_fewer_than_three_are_not_summed(stated):
    assert a_round(trained(), stated, {4}).sums == ()


def test_members_that_state_no_points_are_summed_like_others():
    planned = a_round(KMeansState.empty(2), dict.fromkeys((1, 2, 3), 0))
    assert planned.sums[0].code.limit == 1
    assert finish(planned, (1, 2, 3), BinCounts.empty(2)).counts.total == 0
    with pytest.raises(InvalidContent):
        finish(planned, (1, 2, 3), counts({(0, 0): 1}))


def test_a_client_in_no_group_is_not_summed():
    (group,) = a_round(trained(), asked={4}, groups=((1, 2, 3),)).sums
    assert set(group.bounds) == {1, 2, 3}


GROUPS = ((1, 2, 3), (4, 5, 6), (7, 8))
SIX = dict.fromkeys(range(1, 9), 64)


def test_a_group_that_is_too_small_is_left_out_and_the_sum_is_whole():
    planned = a_round(trained(), SIX, {1}, GROUPS)
    assert planned.sums[2] is None and planned.sum_of(7) is None and planned.sum_of(4) is planned.sums[1]
    after = finish(planned, SIX, counts({(0, 0): 9}), counts({(0, 0): 5, (1, 1): 4}), None)
    assert after.clients == (1, 2, 3, 4, 5, 6) and after.counts == counts({(0, 0): 14, (1, 1): 4})
    assert (after.whole, after.groups) == (2, 1)


@pytest.mark.parametrize(
    "spoilt", [None, counts({(0, 0): -1, (1, 1): 4}), counts({(0, 0): 193}), counts({(0, 0): 129})]
)
def test_a_group_without_a_sum_keeps_only_itself_out_of_the_state(spoilt):
    """129 points are more than those of the group state whose uploads are listed."""
    survivors = [1, 2, 3, 4, 5, 7, 8]
    after = finish(a_round(trained(), SIX, {1}, GROUPS), survivors, counts({(0, 0): 9}), spoilt, None)
    assert after.clients == (1, 2, 3) and after.counts.total == 9
    assert (after.round, after.whole, after.groups) == (2, 1, 3)


def test_when_no_group_has_a_sum_there_is_no_state():
    with pytest.raises(InvalidContent, match="none of the sums can come from honest members"):
        finish(a_round(trained(), SIX, {1}, GROUPS), SIX, None, None, None)
    with pytest.raises(InvalidContent):
        finish(a_round(trained(), asked={1}), STATED, counts({(0, 0): 321}))


def test_groups_together_count_no_more_than_can_be_clustered():
    """Each group's sum can, both cannot: the second is left out, and nothing raises."""
    fine = KMeansTerms(k=2, dimensions=2, step=1e-6, restarts=2)
    half = fine.grid.half
    stated = dict.fromkeys(range(1, 7), 1 << 12)
    planned = exchange(fine, KMeansState.empty(2), ((1, 2, 3), (4, 5, 6)), stated, (), KEY)
    assert 0 < fine.most_points < 3 << 12
    corner = BinCounts.of(np.full((1, 2), half), np.array([fine.most_points]))
    after = planned.finish(1, stated, [corner, corner], np.random.default_rng(0))
    assert after.clients == (1, 2, 3) and KMeansState.from_bytes(after.to_bytes(), fine) is not None


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_any_run_of_requests_and_absences_leaves_the_sum_of_what_those_drew_whom_it_counts(data):
    """The oracle: the vectors themselves, added up. Nobody may ever be counted with points taken back."""
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    points = {index: rng.uniform(-1, 1, (int(rng.integers(3, 9)), 2)) for index in range(1, 6)}
    state, gone, asked = KMeansState.empty(2), set(), set()
    for number in range(1, 6):
        stated = {index: 64 for index in points if index not in gone}
        order = rng.permutation(list(stated)).tolist()
        groups = data.draw(st.sampled_from([(order,), (order[:3], order[3:])]))
        planned = a_round(state, stated, asked & set(state.clients), groups)
        away = data.draw(st.sampled_from([None, *stated]))
        drawn = {index: draw_vector(points[index], TERMS, rng) for index in stated}
        decoded = []
        for each in planned.sums:
            own = [index for index in each.bounds if index != away] if each is not None else []
            encoded = np.zeros(each.code.length if each is not None else 0, gf.ELEMENT)
            for index in own:
                encoded = gf.add(encoded, each.code.encode(drawn[index]))
            decoded.append(decode(each.code, encoded) if own else None)
        if not planned.sums:
            continue
        state = planned.finish(number, set(stated) - {away}, decoded, rng)
        expected = BinCounts.empty(2)
        for index in state.clients:
            expected = expected + drawn[index]
        assert state.counts == expected and not gone & set(state.clients) and away not in state.clients
        assert KMeansState.from_bytes(state.to_bytes(), TERMS).counts == expected
        asked = set()
        chosen = data.draw(st.sampled_from(sorted(stated)))
        if data.draw(st.booleans()) and len(stated) > 3:
            gone.add(chosen)
            asked.add(chosen)
        elif len(points[chosen]) > 1:
            points[chosen] = points[chosen][1:]
            asked.add(chosen)


def test_the_key_of_the_round_is_used_where_the_grid_needs_one():
    wide = KMeansTerms(k=2, dimensions=40, step=0.01)
    (whole,) = exchange(wide, KMeansState.empty(40), ((1, 2, 3),), dict.fromkeys((1, 2, 3), 64), (), KEY).sums
    assert whole.code == Code(wide.grid, 6, 192, KEY)
