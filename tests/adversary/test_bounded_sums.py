"""Colluders hide monsters under their masks, with 27 plans of what to say about them, and none gets into a sum.

In each round three of twelve collude. Whatever they do, the round closes with all honest members in it, nobody honest
is named, and whoever lied about what opened keys or a reveal disprove is. Each check is then taken out, and the plan
that it stops wins.
"""

import numpy as np
import pytest

from fedgrove.node.masking.bounds import deposition, equation, proof, verdict, vouching
from fedgrove.node.masking.bounds.sketch import Sketch, words_needed
from fedgrove.node.masking.bounds.vouching import valid_vouchers
from fedgrove.node.masking.ring import WORD
from fedgrove.node.masking.sealing import MaskingRefused
from tests.adversary import bounded_rounds, monsters
from tests.adversary.bounded_rounds import Lies, Outcome, Played, play
from tests.adversary.monsters import PLANS, VECTORS
from tests.node.masking.bounds.games import MEMBERS, Game, small_sketch

__all__ = ["small_sketch"]

REFUSED = {"obeys", "replayed", "copied", "copied_commitment", "too_long", "fractions"}


pytestmark = pytest.mark.usefixtures("small_sketch")


def attempt(plan: str, vector: str, seed: int) -> tuple[Game, Played, Outcome]:
    game = Game(seed)
    game.hide(VECTORS[vector](game))
    played = PLANS[plan](game)
    return game, played, play(game, played)


def check(plan: str, vector: str, seed: int) -> None:
    """One try: no monster in the sum, the honest all in it, and exactly the liars named."""
    game, played, outcome = attempt(plan, vector, seed)
    assert not outcome.passed
    assert outcome.named == played.liars
    assert outcome.summed >= set(game.honest)
    assert set(outcome.verdict.invalid) == ({game.colluders[0]} if plan in REFUSED - {"obeys"} else set())


@pytest.mark.parametrize("plan", PLANS)
def test_no_monster_passes_and_nobody_honest_is_named(plan):
    """Two vectors for each plan, and over all plans each vector."""
    first = list(PLANS).index(plan)
    for turn in range(2):
        vector = list(VECTORS)[(2 * first + turn) % len(VECTORS)]
        check(plan, vector, 100 * first + turn)


@pytest.mark.statistics
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("vector", VECTORS)
def test_more_than_two_thousand_monsters(plan, vector):
    for seed in range(6):
        check(plan, vector, 10_000 + 100 * list(PLANS).index(plan) + seed)


# --- other ways -------------------------------------------------------------------------------------------------------


def test_a_member_that_does_not_know_the_secret_of_its_mask_key_is_not_summed():
    """A key made from another's would make the point that it agrees on with a third one of the other's."""
    game = Game(1)
    a, b, c = game.colluders
    secret = game.round.secrets[b].mask_secret
    mine = monsters.with_forgery(game, game.innocent[a], prover=proof.prove, secret=secret).vouchers[a]
    outcome = play(game, Played({a: mine, b: game.vouched(b), c: game.vouched(c)}))
    assert outcome.verdict.invalid == (a,) and not outcome.named
    assert outcome.summed == {*game.honest, b, c}


def test_a_partner_that_hangs_is_out_with_the_liar_and_neither_is_named():
    game = Game(3)
    game.hide(VECTORS["one_word"](game))
    victim = game.honest[2]
    lies, a = Lies(game), game.colluders[0]
    lies.fill(a, victim)
    game.silent = {victim}
    outcome = play(game, Played(lies.vouchers()))
    assert outcome.verdict.unresolved == ((min(a, victim), max(a, victim)),)
    assert outcome.summed == set(range(MEMBERS)) - {game.never, game.late, a, victim}
    assert not outcome.named and not outcome.passed


def test_a_reveal_after_the_verdict_names_the_liar():
    game = Game(3)
    game.hide(VECTORS["one_word"](game))
    victim = game.honest[2]
    lies, a = Lies(game), game.colluders[0]
    lies.fill(a, victim)
    vouchers = valid_vouchers(game.setting, game.honest_vouchers() | lies.vouchers())
    late = deposition.depose(game.setting, victim, game.round.secrets[victim], vouchers, (), game.random)
    assert late is not None and verdict.proven_liars(game.setting, vouchers, [late]) == {a}


def test_colluders_who_fall_silent_once_they_know_the_sketch_find_no_set_that_vanishes():
    """Each puts 2³¹ on a word of its own: sketches are 2³¹ times a vector of bits, which linear algebra can cancel."""
    assert vanishing(words=32, colluders=40)
    for colluders in (10, 60, 130):
        assert not vanishing(words_needed(colluders), colluders)


def vanishing(words: int, colluders: int) -> list[int]:
    """Some of the colluders whose monsters add up to the sketch zero; empty if there are none."""
    drawn, length = Sketch(bytes(32), 400, words), 400
    rows: dict[int, tuple[int, int]] = {}
    for colluder in range(colluders):
        monster = np.zeros(length, WORD)
        monster[colluder] = 1 << 31
        bits = int.from_bytes(np.packbits(drawn.of(monster) != 0).tobytes())
        chosen = 1 << colluder
        while bits and bits.bit_length() in rows:
            other, theirs = rows[bits.bit_length()]
            bits, chosen = bits ^ other, chosen ^ theirs
        if not bits:
            total = np.zeros(length, WORD)
            total[[c for c in range(colluders) if chosen >> c & 1]] = 1 << 31
            assert not drawn.of(total).any()
            return [c for c in range(colluders) if chosen >> c & 1]
        rows[bits.bit_length()] = bits, chosen
    return []


def test_a_chain_of_more_liars_than_stages_stops_the_round_and_all_who_are_found_are_named(monkeypatch):
    monkeypatch.setattr(bounded_rounds, "STAGES", 2)
    game, _, outcome = attempt("chain_that_ends_at_an_upload", "dense", 5)
    assert not outcome.summed and not outcome.passed
    assert outcome.named == set(game.colluders)


# --- the checks taken out ---------------------------------------------------------------------------------------------


def passes(plan: str, vector: str) -> bool:
    return attempt(plan, vector, 77)[2].passed


@pytest.mark.mutants
@pytest.mark.parametrize("plan", [plan for plan in PLANS if plan.startswith(("about_the", "about_an_edge_to_one"))])
def test_without_the_equation_a_lie_about_what_opens_later_passes(plan, monkeypatch):
    monkeypatch.setattr(equation, "equation_holds", lambda *_: True)
    assert passes(plan, "one_word") and passes(plan, "replacement") and passes(plan, "large_metric")


@pytest.mark.mutants
@pytest.mark.parametrize("plan", ["about_an_edge_to_a_survivor", "about_edges_to_all_survivors"])
def test_without_the_comparison_of_edges_a_lie_to_a_survivor_passes(plan, monkeypatch):
    for module in (deposition, verdict):
        monkeypatch.setattr(module, "contradicted", lambda *_: ())
    assert passes(plan, "one_word") and passes(plan, "dense")


@pytest.mark.mutants
def test_without_projections_carries_may_be_fractions(monkeypatch):
    monkeypatch.setattr(proof, "_projections_hold", lambda *_: True)
    assert passes("fractions", "one_word") and passes("fractions", "replacement")


@pytest.mark.mutants
def test_without_the_conditions_of_squares_an_update_may_be_of_any_length(monkeypatch):
    monkeypatch.setattr(proof, "_conditions", lambda *_: 0)
    monkeypatch.setattr(proof, "_projections_hold", lambda *_: True)  # roots of a monster's conditions do not exist
    assert passes("too_long", "tenfold_word") and passes("too_long", "negative_metric")


@pytest.mark.mutants
def test_without_commitments_in_the_equation_the_coordinator_may_state_any_outer_masks(monkeypatch):
    monkeypatch.setattr(equation, "commitments_agree", lambda *_: True)
    assert passes("misstated_sum", "one_word")


@pytest.mark.mutants
def test_without_proofs_of_knowledge_a_member_need_not_know_its_mask_secret(monkeypatch):
    monkeypatch.setattr(vouching, "_knows", lambda *_: True)
    game = Game(1)
    a, b, c = game.colluders
    secret = game.round.secrets[b].mask_secret
    mine = monsters.with_forgery(game, game.innocent[a], prover=proof.prove, secret=secret).vouchers[a]
    outcome = play(game, Played({a: mine, b: game.vouched(b), c: game.vouched(c)}))
    assert a in outcome.summed


@pytest.mark.mutants
def test_if_both_ends_of_a_contradicted_edge_were_out_a_liar_would_take_out_all_partners_of_a_victim(monkeypatch):
    """What reveals are for: the slandered stay, and without reveals all of them would be gone."""
    monkeypatch.setattr(verdict, "proven_liars", lambda *_: frozenset())
    game = Game(77)
    with pytest.raises(MaskingRefused):
        play(game, PLANS["with_slander"](game))


@pytest.mark.mutants
def test_without_the_context_a_voucher_for_a_block_that_was_replaced_would_make_an_honest_member_a_liar(monkeypatch):
    """Its words are right under a sketch that is no longer in force: it is absent, not named."""
    game, _, outcome = attempt("replayed", "one_word", 77)
    assert outcome.verdict.invalid == (game.colluders[0],) and not outcome.named
    monkeypatch.setattr(vouching, "context_of", lambda *_: b"")
    game, _, outcome = attempt("replayed", "one_word", 77)
    assert outcome.named == {game.colluders[0]}
