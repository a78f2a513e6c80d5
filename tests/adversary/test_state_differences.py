"""Members that read a victim's vector out of public states of a federation that does K-means.

States are public: counts over bins, and whose. The attackers are members that know their own vectors. They make two
sums that differ in little but the victim: by leaving while it is away, by joining just before or after it, by spoiling
a round that is repeated without it, by asking together with it. Or they know how many points the victim has, and look
in one sum for counts that add up to it.

What stops them: every sum holds whole vectors only, each drawn afresh from a random part of its client's points; a
round that would sum fewer than three members, or is opened before the terms allow, sums nothing.
"""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.node.masking.aggregate import left_over
from fedgrove.node.methods.kmeans import field as gf
from fedgrove.node.methods.kmeans import round_inputs as kmeans_rounds
from fedgrove.node.methods.kmeans.code import MAX_LIMIT
from fedgrove.node.methods.kmeans.codec import _lay, _uploads
from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.decoder import decode
from fedgrove.node.methods.kmeans.terms import KMeansTerms
from fedgrove.node.methods.kmeans.vector import draw_vector
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.aggregation import recovered, released_shares
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from tests.node.devnet.kmeans_members import TERMS, Federation, keep_seedings

VICTIM = 2
ATTACKER = 1


def leaving_while_the_victim_is_away(directory: Path) -> tuple[BinCounts, BinCounts]:
    """What the attacker computes, and the victim's vector."""
    with embedded() as network:
        one = Federation.found(network, directory)
        one.register()
        one.run()
        before = one.state().counts
        one.ask(ATTACKER, None)
        one.hold({1, 3, 4, 5})
        after = one.state()
        assert after.clients == (3, 4, 5) and one.audit().verdict == "verified"
        return before - after.counts - one.sent[ATTACKER, 1], one.sent[VICTIM, 1]


def watching_the_victim_join(directory: Path) -> tuple[BinCounts, BinCounts]:
    victim = 5
    with embedded() as network:
        one = Federation.found(network, directory)
        one.register(1, 2, 3, 4)
        one.run({1, 2, 3, 4})
        before = one.state()
        one.register(victim)
        one.run()
        after = one.state()
        assert after.clients == (*before.clients, victim)
        return after.counts - before.counts, one.sent[victim, after.round]


def joining_with_the_victim_to_make_up_three(directory: Path) -> tuple[BinCounts, BinCounts]:
    """Two sybils join with it."""
    victim, sybils = 4, (5, 6)
    with embedded() as network:
        one = Federation.found(network, directory, clients=6, quorum=3, releases=2, judges=2)
        one.register(1, 2, 3)
        one.run({1, 2, 3})
        before = one.state()
        one.register(victim, *sybils)
        one.run()
        after = one.state()
        assert after.clients == (*before.clients, victim, *sybils)
        return after.counts - before.counts - one.sum_of(after.round, *sybils), one.sent[victim, after.round]


def asking_together_with_the_victim(directory: Path) -> tuple[BinCounts, BinCounts]:
    """Two colluders and the victim take points back: three members change, two of which know how they did."""
    colluders = (1, 3)
    with embedded() as network:
        one = Federation.found(network, directory)
        one.register()
        one.run()
        before = one.state().counts
        for number in (*colluders, VICTIM):
            one.ask(number, [0, 1, 2])
        one.run()
        own = one.sum_of(2, *colluders) - one.sum_of(1, *colluders)
        return one.state().counts - before - own, one.sent[VICTIM, 2] - one.sent[VICTIM, 1]


def spoiling_a_round_that_is_repeated_without_the_victim(directory: Path) -> tuple[BinCounts, BinCounts]:
    with embedded() as network:
        one = Federation.found(network, directory)
        one.register()
        one.lies[ATTACKER] = lambda vector, current: -vector
        spoilt = one.hold()
        assert len(one.failures()) == 1
        own = one.sent[ATTACKER, 1]
        first = what_the_spoiler_decodes(one, spoilt, -own) - own
        assert first == one.sum_of(1, 2, 3, 4, 5)
        one.lies.clear()
        one.hold({1, 3, 4, 5})
        second = one.state().counts - one.sent[ATTACKER, 2]
        return first - second, one.sent[VICTIM, 1]


def what_the_spoiler_decodes(one: Federation, current: RoundRecords, lie: BinCounts) -> BinCounts:
    """The sum of a failed round with the spoiler's own vector in the place of its lie, from what is public."""
    rounds, ledger = one.rounds(), (one.ledger(1).chain_id, one.ledger(1).address)
    inputs = method_of(one.config).inputs(rounds, rounds.rounds[current.number], ledger, one.store)
    record = recovered(inputs, released_shares(inputs))
    code = kmeans_rounds.exchange_of(inputs).sums[0].code
    total = replace(code, signed=True, limit=MAX_LIMIT).encode(-lie - lie)
    for _, elements in _uploads(inputs, inputs.survivors, code.upload_bytes):
        total = gf.add(total, elements)
    return decode(code, _lay(total, list(left_over(inputs.graph, inputs.survivors, record))))


ATTACKS = [
    leaving_while_the_victim_is_away,
    watching_the_victim_join,
    joining_with_the_victim_to_make_up_three,
    asking_together_with_the_victim,
    spoiling_a_round_that_is_repeated_without_the_victim,
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_difference_of_two_sums_is_not_one_members(attack, tmp_path):
    """At least two honest members were in both sums, and drew other vectors for each."""
    difference, vector = attack(tmp_path)
    assert difference != vector
    others = difference - vector
    assert len(others) >= 4 and (others.counts > 0).any() and (others.counts < 0).any()


@pytest.mark.mutants
@pytest.mark.parametrize("attack", ATTACKS)
def test_it_would_be_if_seedings_were_kept(attack, tmp_path, monkeypatch):
    keep_seedings(monkeypatch)
    difference, vector = attack(tmp_path)
    assert difference == vector and len(vector)


# --- one sum alone ----------------------------------------------------------------------------------------------------

MEMBERS, EACH = 5, 1000


def fitting(terms: KMeansTerms, rng: np.random.Generator) -> tuple[int, bool]:
    """An attacker knows how many points the victim has: which sets of K bins fit, and is the victim's among them?"""
    centres = rng.uniform(-0.8, 0.8, (terms.k, 2))
    sizes = rng.integers(7 * EACH // 10, 13 * EACH // 10, MEMBERS)
    parts = [np.clip(centres[rng.integers(terms.k, size=n)] + rng.normal(0, 0.15, (n, 2)), -1, 1) for n in sizes]
    vectors = [draw_vector(part, terms, rng) for part in parts]
    total = vectors[0]
    for vector in vectors[1:]:
        total = total + vector
    number = int(sizes[0])
    slack = 0 if terms.least_share == 1 else 2 * np.sqrt(number)
    fits = [
        bins
        for bins in combinations(range(len(total)), terms.k)
        if terms.least_share * number - slack <= total.counts[list(bins)].sum() <= number
    ]
    own = {row.tobytes() for row in vectors[0].levels}
    found = any({total.levels[place].tobytes() for place in bins} == own for bins in fits)
    return len(fits), found


@pytest.mark.parametrize("samples", [20, pytest.param(400, marks=pytest.mark.statistics)])
def test_counts_that_add_up_to_a_known_number_of_points_are_not_found(samples):
    """How often a member's bins are guessed: of five members with a thousand points each, in two clusters."""
    rng = np.random.default_rng(0)

    def guessed(least_share: float) -> float:
        terms = replace(TERMS, least_share=least_share)
        fits = [fitting(terms, rng) for _ in range(samples)]
        return float(np.mean([found / count if count else 0 for count, found in fits]))

    assert guessed(1) > 0.85
    assert guessed(KMeansTerms(k=2, dimensions=2, step=0.05).least_share) < 0.08


def test_the_ledger_does_not_help_to_know_how_many_points_somebody_has(tmp_path):
    """Nor do the totals of two states: here the victim left out a third of its points, there it was away."""
    with embedded() as network:
        one = Federation.found(network, tmp_path)
        one.register()
        one.run()
        assert {draw.samples for draw in one.rounds().rounds[1].draws.values()} == {64}
        totals = {one.state().counts.total}
        for row in range(3):
            one.ask(ATTACKER, [row])
            one.run()
            totals.add(one.state().counts.total)
        assert len(totals) > 1


# --- rounds that no member wants --------------------------------------------------------------------------------------


def test_a_leaver_that_stays_makes_no_sum_over_two(tmp_path):
    """Of three members one leaves, and would take part nevertheless, with nothing: its draw does not count."""
    with embedded() as network:
        one = Federation.found(network, tmp_path, clients=3)
        one.register()
        one.run()
        one.ask(3, None)
        one.lies[3] = lambda vector, current: BinCounts.empty(2)
        make = one.client

        def stays(number):
            client = make(number)
            if number == 3:
                view = client.view
                rules = view.law
                rules.barred = lambda *_: ""
                rules.why_barred = lambda member, *_: "it left" if Rounds.left(view.rounds, member.client) else ""
                view.rounds.left = lambda *_: False
            return client

        one.client = stays
        one.hold()
        assert (one.state().round, len(one.state().clients)) == (1, 3)
        assert set(one.rounds().rounds[2].draws) == {1, 2}
        assert one.log[-1][1].acted == "skipped the round: too few drawn"


def opening_rounds_as_fast_as_it_can(directory: Path) -> int:
    """A coordinator lets a member of its own ask for a point at a time; how many sums it was shown."""
    with embedded() as network:
        one = Federation.found(network, directory, replace(TERMS, gather_blocks=500))
        one.register()
        shown = set()
        for row in range(3):
            one.hold()
            shown.add(one.state().round)
            one.ask(ATTACKER, [row])
        assert one.audit().verdict == "verified"
        return len(shown)


def test_rounds_that_are_opened_early_show_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("fedgrove.node.methods.kmeans.schedule.OnRequest.due", lambda *_: 0)
    assert opening_rounds_as_fast_as_it_can(tmp_path / "now") == 1
    monkeypatch.setattr("fedgrove.node.methods.kmeans.round_inputs.first_block", lambda *_: 0)
    assert opening_rounds_as_fast_as_it_can(tmp_path / "mutant") == 3
