"""Whose bytes count as available: words, votes, and how many liars it takes to bend them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.bounds.affirmation import Vote, Votes, decode_vote, encode_vote, votes_on
from fedgrove.node.masking.parameters import Sharing
from tests.node.masking.rounds import Round

GRAPH = Round.make(20).graph
SPARSE = Round.make(64, shares=Sharing(34, 20)).graph
LARGE = Round.make(300, shares=Sharing(298, 160)).graph
OWNER = 5


def cast(graph, available, liars=(), silent=(), at=lambda holder: holder):
    """All votes on who is available; liars say the opposite."""
    found = {}
    for holder in set(range(graph.n)) - set(silent):
        said = set(range(graph.n)) - set(available) if holder in liars else available
        found[holder] = Vote(at(holder), encode_vote(graph, holder, said))
    return Votes(graph, found)


@settings(deadline=None)
@given(st.data())
def test_a_word_is_read_as_it_was_written(data):
    graph = data.draw(st.sampled_from([GRAPH, SPARSE, LARGE]))
    holder = data.draw(st.integers(0, graph.n - 1))
    available = data.draw(st.sets(st.integers(0, graph.n - 1)))
    word = encode_vote(graph, holder, available)
    assert decode_vote(word, graph, holder) == available.intersection(votes_on(graph, holder))


@settings(deadline=None)
@given(st.one_of(st.binary(max_size=40), st.integers(0, 2**21).map(lambda bits: bits.to_bytes(32))), st.integers(0, 19))
def test_each_vote_has_one_word(data, holder):
    try:
        said = decode_vote(data, GRAPH, holder)
    except InvalidContent:
        return
    assert encode_vote(GRAPH, holder, said) == data


@pytest.mark.parametrize("word", [b"", bytes(31), bytes(33), b"\1" + bytes(31), b"\xff" * 32])
def test_other_words_are_refused_and_count_for_nobody(word):
    with pytest.raises(InvalidContent):
        decode_vote(word, GRAPH, 0) if len(word) != 32 or any(word) else None
    assert not Votes(GRAPH, {holder: Vote(0, word) for holder in range(20)}).present(range(20))


def test_a_word_has_room_for_256_members():
    assert len(LARGE.held_by[7]) > 256 == len(votes_on(LARGE, 7))


def test_a_member_that_did_not_vouch_is_never_present():
    assert cast(GRAPH, range(20)).present(range(3, 20)) == frozenset(range(3, 20))


@pytest.mark.parametrize("graph", [GRAPH, SPARSE], ids=["20", "64"])
def test_fewer_liars_than_the_threshold_neither_push_out_nor_keep_in(graph):
    """As long as a threshold of honest holders speaks. With one less, or one liar more, they bend it."""
    holders, t, everybody = graph.holders[OWNER], graph.threshold, range(graph.n)
    for honest in (t, t - 1):
        votes = cast(graph, everybody, liars=holders[honest:])
        assert (OWNER in votes.present(everybody)) == (honest == t)
        votes = cast(graph, everybody, silent=holders[honest:])
        assert (OWNER in votes.present(everybody)) == (honest == t)
    withheld = set(everybody) - {OWNER}
    for liars in (t - 1, t):
        votes = cast(graph, withheld, liars=holders[:liars])
        assert (OWNER in votes.present(everybody)) == (liars == t)


def test_most_witnesses_of_an_honest_member_do_not_push_it_out():
    """At a third of colluders one honest member in six has four of them among its seven witnesses."""
    assert OWNER in cast(GRAPH, range(20), liars=GRAPH.witnesses(OWNER)[:4]).present(range(20))


@pytest.mark.parametrize("late", range(20))
def test_a_deposition_counts_if_a_threshold_voted_after_it(late):
    """Votes that came before say nothing of it."""
    holders = GRAPH.holders[OWNER]
    votes = cast(GRAPH, range(20), at=lambda holder: 100 if holder in holders[:late] else 1)
    assert votes.has(OWNER, 1) == votes.has(OWNER, 99) == (late >= GRAPH.threshold)
    assert votes.has(OWNER, 0) and votes.has(OWNER) and not votes.has(OWNER, 100)
