"""The verdict: who is out and why, from lists that everybody has; depositions, and bytes that are not there."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.common.curve import G
from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.bounds import verdict
from fedgrove.node.masking.bounds.affirmation import Vote, Votes, encode_vote
from fedgrove.node.masking.bounds.deposition import (
    Deposition,
    contradicted,
    depose,
    may_miss,
    most_deposition_bytes,
    pair_keys,
)
from fedgrove.node.masking.bounds.verdict import Listed, Verdict, judge, proven_liars
from fedgrove.node.masking.bounds.vouching import Voucher, valid_vouchers
from fedgrove.node.masking.sealing import MaskingRefused
from tests.node.masking.bounds.games import Game, small_sketch

__all__ = ["small_sketch"]
pytestmark = pytest.mark.usefixtures("small_sketch")

MANY = range(12)


class Disputed:
    """A round whose vouchers are valid by decree, so that edges can be set at will."""

    def __init__(self, monkeypatch, seed: int = 1) -> None:
        self.game = Game(seed)
        self.setting = self.game.setting
        self.vouchers = {p: Voucher.parse(self.game.vouched(p), self.setting, p) for p in self.game.honest}
        self.invalid: set[int] = set()
        monkeypatch.setattr(verdict, "valid_vouchers", self.valid)

    def valid(self, _, blobs) -> dict[int, Voucher]:
        return {position: self.vouchers[position] for position in blobs if position not in self.invalid}

    def lies(self, position: int, partner: int) -> None:
        own = self.vouchers[position]
        self.vouchers[position] = replace(own, pairs={**own.pairs, partner: own.pairs[partner] + G})

    def reveals(self, position: int, missing=()) -> bytes:
        said = depose(
            self.setting, position, self.game.round.secrets[position], self.vouchers, missing, self.game.random
        )
        return said.to_bytes(self.setting)

    def votes(self, available=MANY, at: int = 100) -> Votes:
        graph = self.setting.graph
        return Votes(graph, {h: Vote(at, encode_vote(graph, h, available)) for h in range(graph.n)})

    def judged(self, depositions=None, votes=None) -> Verdict:
        listed = {position: Listed(1, b"") for position in self.vouchers}
        found = {position: Listed(50, data) for position, data in (depositions or {}).items()}
        return judge(self.setting, listed, found, votes or self.votes())


@pytest.fixture
def round_(monkeypatch, small_sketch):
    return Disputed(monkeypatch)


def test_all_who_agree_are_summed(round_):
    found = round_.judged()
    assert found == Verdict(tuple(round_.game.honest), (), (), (), ())
    assert found.needed(round_.setting).seeds == found.survivors


@pytest.mark.parametrize("revealer", ["liar", "victim", "both"])
def test_whoever_published_another_commitment_is_named_whoever_reveals(round_, revealer):
    liar, victim = round_.game.honest[2], round_.game.honest[4]
    round_.lies(liar, victim)
    who = {"liar": [liar], "victim": [victim], "both": [liar, victim]}[revealer]
    found = round_.judged({position: round_.reveals(position) for position in who})
    assert found.named == (liar,) and found.unresolved == ()
    assert found.survivors == tuple(p for p in round_.game.honest if p != liar)


def test_if_both_lie_and_differ_both_are_named(round_):
    first, second = round_.game.honest[:2]
    round_.lies(first, second)
    round_.lies(second, first)
    round_.vouchers[first] = replace(round_.vouchers[first], pairs={**round_.vouchers[first].pairs, second: G * 9})
    assert round_.judged({first: round_.reveals(first)}).named == tuple(sorted((first, second)))


def test_if_both_lie_alike_nothing_is_disputed(round_):
    first, second = round_.game.honest[:2]
    round_.lies(first, second)
    round_.lies(second, first)
    assert round_.judged().survivors == tuple(round_.game.honest)


def test_nobody_reveals_and_both_are_out(round_):
    first, second = round_.game.honest[:2]
    round_.lies(first, second)
    found = round_.judged()
    assert found.unresolved == ((first, second),) and not found.named
    assert found.survivors == tuple(round_.game.honest[2:])


def test_a_partner_of_somebody_who_is_named_stays_though_it_did_not_reveal(round_):
    liar, victim, silent = round_.game.honest[:3]
    round_.lies(liar, victim)
    round_.lies(liar, silent)
    found = round_.judged({victim: round_.reveals(victim)})
    assert found.named == (liar,) and silent in found.survivors and not found.unresolved


@pytest.mark.parametrize("votes_at", [10, 100])
def test_a_deposition_that_holders_voted_before_does_not_count(round_, votes_at):
    liar, victim = round_.game.honest[:2]
    round_.lies(liar, victim)
    found = round_.judged({victim: round_.reveals(victim)}, round_.votes(at=votes_at))
    assert (found.named == (liar,)) == (votes_at == 100)


def test_absent_and_invalid_members_are_out_and_their_edges_are_nobodys_matter(round_):
    absent, invalid, third = round_.game.honest[:3]
    round_.lies(absent, third)
    round_.lies(invalid, third)
    round_.invalid.add(invalid)
    found = round_.judged(votes=round_.votes(set(MANY) - {absent}))
    assert (found.absent, found.invalid, found.unresolved) == ((absent,), (invalid,), ())
    assert found.survivors == tuple(round_.game.honest[2:])


def test_nobody_judges_without_a_voucher_that_counts(round_):
    """Others may have it, and come to another verdict."""
    position = round_.game.honest[0]
    listed = {p: Listed(1, None if p == position else b"") for p in round_.vouchers}
    with pytest.raises(MaskingRefused, match="could not be fetched"):
        judge(round_.setting, listed, {}, round_.votes())
    found = judge(round_.setting, listed, {}, round_.votes(set(MANY) - {position}))
    assert found.absent == (position,)


def test_nobody_judges_without_a_deposition_that_counts(round_):
    liar, victim, other = round_.game.honest[:3]
    round_.lies(liar, victim)
    with pytest.raises(MaskingRefused, match="could not be fetched"):
        round_.judged({victim: None})
    assert round_.judged({victim: None}, round_.votes(at=10)).unresolved
    assert round_.judged({victim: round_.reveals(victim), other: None}).named == (liar,)


def test_too_few_survivors_release_nothing(round_):
    for first, second in zip(round_.game.honest[::2], round_.game.honest[1::2], strict=False):
        round_.lies(first, second)
    with pytest.raises(MaskingRefused):
        round_.judged().needed(round_.setting)


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_the_verdict_is_that_of_a_plain_rule(data):
    """Next to a rule written with sets of pairs; nobody who told the truth is ever named."""
    with pytest.MonkeyPatch.context() as patch:
        small = Disputed(patch)
        honest = small.game.honest
        pairs = [(a, b) for a in honest for b in honest if a != b]
        lies = data.draw(st.sets(st.sampled_from(pairs), max_size=8))
        speakers = data.draw(st.sets(st.sampled_from(honest)))
        for liar, partner in lies:
            small.lies(liar, partner)
        differing = {frozenset(pair) for pair in lies if pair[::-1] not in lies}
        speaking = {p for p in speakers if any(p in edge for edge in differing)}
        found = small.judged({p: small.reveals(p) for p in speaking})
        named = {liar for liar, other in lies if frozenset((liar, other)) in differing and {liar, other} & speaking}
        left = {edge for edge in differing if not edge & named}
        assert set(found.named) == named
        assert {frozenset(edge) for edge in found.unresolved} == left
        assert set(found.survivors) == set(honest) - named - set().union(*left)


# --- depositions ------------------------------------------------------------------------------------------------------


def test_a_deposition_is_read_as_it_was_written_and_reveals_the_edges_that_are_disputed_only(round_):
    liar, victim, other = round_.game.honest[:3]
    round_.lies(liar, victim)
    round_.lies(other, victim)
    witnessed = [p for p in MANY if victim in round_.setting.graph.witnesses(p)][:2]
    data = round_.reveals(victim, witnessed)
    assert len(data) <= most_deposition_bytes(round_.setting, victim)
    parsed = Deposition.parse(data, round_.setting, victim)
    assert parsed.to_bytes(round_.setting) == data and parsed.missing == tuple(witnessed)
    assert set(parsed.reveals) == {liar, other}
    assert set(pair_keys(round_.setting, parsed)) == {tuple(sorted((victim, p))) for p in (liar, other)}


def test_whoever_has_nothing_to_say_says_nothing(round_):
    position = round_.game.honest[0]
    secrets = round_.game.round.secrets[position]
    assert depose(round_.setting, position, secrets, round_.vouchers, (), round_.game.random) is None


def test_depositions_of_another_form_are_refused(round_):
    liar, victim, other = round_.game.honest[:3]
    round_.lies(liar, victim)
    round_.lies(other, victim)
    data = round_.reveals(victim)
    first, second = data[40:141], data[141:]
    for wrong in (b"", data[:-1], data + b"\0", data[:40] + second + first, data[:40] + first + first):
        with pytest.raises(InvalidContent):
            Deposition.parse(wrong, round_.setting, victim)
    for setting, position in (
        (round_.setting, other),
        (replace(round_.setting, sketch=replace(round_.setting.sketch, seed=bytes(32))), victim),
    ):
        with pytest.raises(InvalidContent):
            Deposition.parse(data, setting, position)
    not_an_edge = data[:40] + victim.to_bytes(4) + first[4:]
    with pytest.raises(InvalidContent):
        Deposition.parse(not_an_edge, round_.setting, victim)


def test_a_reveal_that_proves_nothing_names_nobody(round_):
    liar, victim = round_.game.honest[:2]
    round_.lies(liar, victim)
    parsed = Deposition.parse(round_.reveals(victim), round_.setting, victim)
    shared = parsed.reveals[liar]
    for wrong in (replace(shared, point=shared.point + G), replace(shared, response=shared.response ^ 1)):
        assert not proven_liars(round_.setting, round_.vouchers, [replace(parsed, reveals={liar: wrong})])
    assert not proven_liars(round_.setting, round_.vouchers, [replace(parsed, position=round_.game.honest[2])])
    assert proven_liars(round_.setting, round_.vouchers, [parsed]) == {liar}


def test_a_reveal_of_an_edge_that_nobody_disputes_names_nobody(round_):
    liar, victim = round_.game.honest[:2]
    round_.lies(liar, victim)
    parsed = Deposition.parse(round_.reveals(victim), round_.setting, victim)
    undisputed = valid_vouchers(round_.setting, round_.game.honest_vouchers())
    assert not contradicted(round_.setting, undisputed)
    assert not proven_liars(round_.setting, undisputed, [parsed])


def test_a_member_objects_to_those_it_is_a_witness_of_and_to_one_other():
    graph = Game(1).round.graph
    mine = [p for p in MANY if 3 in graph.witnesses(p)]
    others = [p for p in MANY if p not in mine]
    assert may_miss(graph, 3, mine) and may_miss(graph, 3, [*mine, others[0]])
    assert not may_miss(graph, 3, [*mine, *others[:2]]) and not may_miss(graph, 3, [graph.n])
