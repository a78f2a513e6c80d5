"""Whose bytes count as available: words, votes, and how many liars it takes to bend them."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.bounds.affirmation import (
    Observation,
    Statements,
    attested,
    challenged,
    decode_affirmation,
    decode_votes,
    encode_affirmation,
    encode_votes,
    outvoted,
    present,
)
from fedgrove.node.masking.graph import MaskGraph
from fedgrove.node.masking.parameters import Sharing
from tests.node.masking.rounds import Round

YES, NO = Observation(True, True), Observation(False, False)
N = 20
GRAPH: MaskGraph = Round.make(N).graph
SPARSE: MaskGraph = Round.make(64, shares=Sharing(34, 20)).graph
VOUCHED = tuple(range(N))


def words(available, graph=GRAPH, vouched=VOUCHED, silent=(), lies=None):
    """What all witnesses say of who is available; ``lies`` maps (witness, owner) to what is said instead."""
    lies = lies or {}
    return {
        witness: encode_affirmation(
            graph,
            witness,
            vouched,
            {o: lies.get((witness, o), YES if o in available else NO) for o in attested(graph, witness, vouched)},
        )
        for witness in range(graph.n)
        if witness not in silent
    }


def votes(of, available, graph=GRAPH, silent=(), liars=()):
    """All holders' votes; liars say the opposite."""
    return {
        holder: encode_votes(graph, holder, of, set(of) - set(available) if holder in liars else available)
        for holder in range(graph.n)
        if holder not in silent
    }


@settings(deadline=None)
@given(st.data())
def test_words_and_votes_are_read_as_they_were_written(data):
    graph = data.draw(st.sampled_from([GRAPH, SPARSE]))
    vouched = tuple(sorted(data.draw(st.sets(st.integers(0, graph.n - 1)))))
    witness = data.draw(st.integers(0, graph.n - 1))
    owners = attested(graph, witness, vouched)
    said = {owner: data.draw(st.sampled_from([NO, YES, Observation(True, False)])) for owner in owners}
    assert decode_affirmation(encode_affirmation(graph, witness, vouched, said), graph, witness, vouched) == said
    available = data.draw(st.sets(st.sampled_from(vouched))) if vouched else set()
    written = encode_votes(graph, witness, vouched, available)
    assert decode_votes(written, graph, witness, vouched) == available.intersection(graph.held_by[witness])


@settings(deadline=None)
@given(st.binary(min_size=30, max_size=66), st.integers(0, N - 1))
def test_each_word_has_one_encoding(data, position):
    for decode, encode in ((decode_affirmation, encode_affirmation), (decode_votes, encode_votes)):
        try:
            said = decode(data, GRAPH, position, VOUCHED)
        except InvalidContent:
            continue
        assert encode(GRAPH, position, VOUCHED, said) == data


@pytest.mark.parametrize("word", [b"", bytes(31), bytes(33), b"\1" + bytes(31), bytes(31) + b"\2", b"\xff" * 32])
def test_other_words_are_refused(word):
    """Too short, too long, bits beyond the members it is witness of, and a proof verified that is not held."""
    with pytest.raises(InvalidContent):
        decode_affirmation(word, GRAPH, 0, VOUCHED)


def test_a_round_of_the_largest_size_votes_in_several_words():
    large = Round.make(300, shares=Sharing(298, 160)).graph
    held = large.held_by[7]
    assert len(held) > 256 and len(encode_votes(large, 7, range(300), held)) == 64


def test_nobody_votes_where_all_witnesses_agree():
    said = Statements(VOUCHED, words(VOUCHED), {})
    assert challenged(GRAPH, said) == () and present(GRAPH, said, {}) == frozenset(VOUCHED)


def test_a_member_that_did_not_vouch_is_never_present():
    vouched = VOUCHED[3:]
    said = Statements(vouched, words(VOUCHED, vouched=vouched), {})
    assert present(GRAPH, said, votes(VOUCHED, VOUCHED)) == frozenset(vouched)


@pytest.mark.parametrize("silent", range(8))
def test_a_majority_of_witnesses_must_speak(silent):
    quiet = GRAPH.witnesses(5)[:silent]
    said = Statements(VOUCHED, words(VOUCHED, silent=quiet), {})
    assert (5 in challenged(GRAPH, said)) == (silent > 3)
    assert 5 in present(GRAPH, said, votes(challenged(GRAPH, said), VOUCHED))


def test_one_witness_that_denies_makes_all_holders_vote_and_is_outvoted():
    liar = GRAPH.witnesses(5)[2]
    said = Statements(VOUCHED, words(VOUCHED, lies={(liar, 5): NO}), {})
    assert challenged(GRAPH, said) == (5,)
    cast = votes((5,), VOUCHED)
    assert present(GRAPH, said, cast) == frozenset(VOUCHED)
    assert outvoted(GRAPH, said, cast) == (liar,)


def test_whoever_was_outvoted_once_neither_denies_nor_challenges_again():
    liar = GRAPH.witnesses(5)[2]
    said = Statements(VOUCHED, words(VOUCHED, lies={(liar, 5): NO}), {liar: 9}, frozenset({liar}))
    assert challenged(GRAPH, said) == ()


def test_without_discredit_one_member_could_make_holders_download_in_each_round():
    liar = GRAPH.witnesses(5)[2]
    said = Statements(VOUCHED, words(VOUCHED, lies={(liar, 5): NO}), {liar: 9})
    assert challenged(GRAPH, said) == (5, 9)


def test_colluding_witnesses_hide_that_nobody_has_the_bytes_until_somebody_challenges():
    gang = set(GRAPH.witnesses(5))
    lies = {(witness, 5): YES for witness in gang}
    hidden = Statements(VOUCHED, words(set(VOUCHED) - {5}, lies=lies), {})
    assert 5 in present(GRAPH, hidden, {})
    challenger = next(iter(set(VOUCHED) - gang - {5}))
    said = Statements(VOUCHED, hidden.affirmations, {challenger: 5})
    cast = votes((5,), set(VOUCHED) - {5}, liars=gang)
    assert 5 not in present(GRAPH, said, cast) and outvoted(GRAPH, said, cast) == ()


def test_words_that_do_not_decode_are_silence():
    witness = GRAPH.witnesses(5)[0]
    said = Statements(VOUCHED, words(VOUCHED) | {witness: b"\xff" * 32}, {})
    assert challenged(GRAPH, said) == ()
    said = Statements(VOUCHED, words(VOUCHED, lies={(GRAPH.witnesses(5)[1], 5): NO}), {})
    cast = votes((5,), VOUCHED)
    assert present(GRAPH, said, cast | {GRAPH.holders[5][0]: b"junk"}) == frozenset(VOUCHED)


@pytest.mark.parametrize("graph", [GRAPH, SPARSE], ids=["20", "64"])
def test_fewer_liars_than_the_threshold_neither_push_out_nor_keep_in(graph):
    """With a threshold of honest holders that speak. One liar or one silent holder more, and each bends it."""
    vouched = tuple(range(graph.n))
    holders, t = graph.holders[5], graph.threshold
    denied = {(graph.witnesses(5)[0], 5): NO}
    published = Statements(vouched, words(vouched, graph, vouched, lies=denied), {})
    for honest in (t, t - 1):
        cast = votes((5,), vouched, graph, liars=set(holders[honest:]))
        assert (5 in present(graph, published, cast)) == (honest == t)
    withheld = Statements(vouched, words(set(vouched) - {5}, graph, vouched), {})
    for liars in (t - 1, t):
        cast = votes((5,), set(vouched) - {5}, graph, liars=set(holders[:liars]))
        assert (5 in present(graph, withheld, cast)) == (liars == t)


def test_each_combination_of_witnesses_words():
    """A plain count next to the rule: seven witnesses that say yes, no or nothing."""
    witnesses = GRAPH.witnesses(5)
    for said_by in product((YES, NO, None), repeat=len(witnesses)):
        lies = {(w, 5): word for w, word in zip(witnesses, said_by, strict=True) if word}
        silent = {w for w, word in zip(witnesses, said_by, strict=True) if word is None}
        said = Statements((5,), words({5}, vouched=(5,), silent=silent, lies=lies), {})
        expected = NO in said_by or said_by.count(YES) < 4
        assert bool(challenged(GRAPH, said)) == expected


def test_colluders_that_are_most_witnesses_of_an_honest_member_do_not_push_it_out():
    """At a third of colluders one honest member in six has four of them among its seven witnesses."""
    gang = GRAPH.witnesses(5)[:4]
    said = Statements(VOUCHED, words(VOUCHED, lies={(w, 5): NO for w in gang}), {})
    cast = votes((5,), VOUCHED, liars=gang)
    assert 5 in present(GRAPH, said, cast) and outvoted(GRAPH, said, cast) == gang
    assert 5 not in present(GRAPH, said, {})  # by the witnesses' word alone
