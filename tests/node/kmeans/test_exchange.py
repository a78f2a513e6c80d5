"""What a round's sum holds: computed from the ledger by everybody, whatever members ask for, and whoever is away."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.kmeans.client import Client
from node.kmeans.code import Code
from node.kmeans.counts import BinCounts
from node.kmeans.decoder import decode
from node.kmeans.exchange import Exchange, InvalidSum, Requests, exchange
from node.kmeans.settings import ClusteringSettings
from node.kmeans.state import Contribution, State

TERMS = ClusteringSettings(k=2, dimensions=2, step=0.25, restarts=2)
NOBODY = Requests({})
KEY = bytes(range(32))


def a_round(before: State, stated: dict[int, int], requests: Requests = NOBODY) -> Exchange:
    return exchange(TERMS, before, stated, requests, KEY)


def trained() -> State:
    counts = BinCounts.of(np.array([[0, 0], [1, 1], [2, 2]]), np.array([10, 20, 30]))
    return State(counts, {1: Contribution(1, 25), 2: Contribution(1, 35)}, np.zeros((2, 2)))


def test_whoever_is_new_is_summed_in_full():
    planned = a_round(State.empty(2), {1: 25, 4: 35})
    assert planned.expected == {1: 25, 4: 35} and not planned.fresh
    assert (planned.code.capacity, planned.code.limit, planned.code.signed) == (4, 60, False)


def test_nothing_is_expected_of_who_asked_for_nothing():
    planned = a_round(trained(), {1: 25, 2: 35})
    assert planned.expected == {} and planned.code.capacity == 1
    after = planned.finish(2, (1, 2), BinCounts.empty(2), np.random.default_rng(0))
    assert after.to_bytes() == trained().to_bytes()


def test_a_request_takes_its_points_out_of_the_count():
    planned = a_round(trained(), {1: 25, 2: 35}, Requests({2: 4}))
    assert planned.expected == {2: 31} and planned.code.signed
    assert (planned.code.capacity, planned.code.limit) == (4, 66)
    fewer = BinCounts.of(np.array([[1, 1]]), np.array([-4]))
    after = planned.finish(2, (1, 2), fewer, np.random.default_rng(0))
    assert after.contributions == {1: Contribution(1, 25), 2: Contribution(2, 31)} and after.samples == 56


def test_a_request_waits_for_who_is_away():
    planned = a_round(trained(), {1: 25, 2: 35}, Requests({2: 4}))
    after = planned.finish(2, (1,), BinCounts.empty(2), np.random.default_rng(0))
    assert after.contributions == trained().contributions


def test_when_somebody_leaves_all_others_are_summed_anew():
    for requests in (Requests({}, frozenset({2})), Requests({2: 35}), Requests({1: 5}, frozenset({2}))):
        planned = a_round(trained(), {1: 25, 2: 35, 3: 9}, requests)
        left = 25 - requests.points.get(1, 0)
        assert planned.fresh and planned.expected == {1: left, 3: 9} and not planned.code.signed
        assert len(planned.base.counts) == 0
        after = planned.finish(
            2, (1, 2, 3), BinCounts.of(np.array([[0, 0]]), np.array([left + 9])), np.random.default_rng(0)
        )
        assert after.contributions == {1: Contribution(2, left), 3: Contribution(2, 9)}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({(1, 1): -3}, "counts 57 points, its clients state 56"),
        ({(0, 0): -11, (1, 1): 7}, "more points were taken from a bin than it had"),
        ({(3, 3): -1, (1, 1): -3}, "more points were taken from a bin than it had"),
    ],
)
def test_a_sum_that_does_not_fit_is_refused(change, sentence):
    planned = a_round(trained(), {1: 25, 2: 35}, Requests({2: 4}))
    vector = BinCounts.of(np.array(list(change)), np.array(list(change.values())))
    with pytest.raises(InvalidSum, match=sentence):
        planned.finish(2, (1, 2), vector, np.random.default_rng(0))


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_any_run_of_requests_and_absences_leaves_the_sum_of_those_it_counts(data):
    """The oracle: the vectors themselves, added up. Nobody may ever be counted with points taken back."""
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    clients = {
        index: Client(rng.uniform(-1, 1, (int(rng.integers(3, 9)), 2)), TERMS.k, TERMS.grid, rng)
        for index in range(1, 5)
    }
    state, sent, points, leavers = State.empty(2), {}, {}, set()
    for number in range(1, 6):
        stated = {index: len(client) for index, client in clients.items() if index not in leavers}
        planned = a_round(state, stated, Requests(dict(points), frozenset(leavers)))
        away = data.draw(st.sampled_from([None, *stated]))
        survivors = [index for index in stated if index != away]
        summed = np.zeros(planned.code.length, np.uint64)
        vectors = {index: clients[index].vector() for index in planned.expected}
        for index in survivors:
            own = vectors.get(index, BinCounts.empty(2))
            if index in planned.base.contributions and index in vectors:
                own = own - sent[index]
            summed = (summed + planned.code.encode(own)) % ((1 << 61) - 1)
        state = planned.finish(number, survivors, decode(planned.code, summed), rng)
        for index in survivors:
            if index in vectors:
                sent[index] = vectors[index]
                points.pop(index, None)
        expected = BinCounts.empty(2)
        for index in state.contributions:
            expected = expected + sent[index]
        assert state.counts == expected and not leavers & state.contributions.keys()
        chosen = data.draw(st.sampled_from(sorted(stated)))
        if data.draw(st.booleans()) and len(stated) > 3:
            leavers.add(chosen)
        elif len(clients[chosen]) > 1:
            clients[chosen].forget(clients[chosen].rows[:1])
            if chosen in state.contributions:
                points[chosen] = points.get(chosen, 0) + 1


def test_the_key_of_the_round_is_used_where_the_grid_needs_one():
    wide = ClusteringSettings(k=2, dimensions=40, step=0.01)
    assert exchange(wide, State.empty(40), {1: 5}, NOBODY, KEY).code == Code(wide.grid, 2, 5, KEY)
