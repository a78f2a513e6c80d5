"""Colluders hide monsters under their masks, with 27 plans of what to say about them, and none gets into a sum.

In each round three of twelve collude. Whatever they do, the round closes with all honest members in it, nobody honest
is named, and whoever lied about what opened keys or a reveal disprove is. Each check is then taken out, and the plan
that it stops wins.
"""

import numpy as np
import pytest

from fedgrove.node.masking.bounds import equation, proof, sketch, testimony, verdict, vouching
from fedgrove.node.masking.bounds.sketch import Sketch, words_needed
from fedgrove.node.masking.ring import WORD
from tests.adversary import monsters
from tests.adversary.bounded_rounds import Game, Outcome, Played, play
from tests.adversary.monsters import PLANS, VECTORS

SHORT = [(number % len(VECTORS), number) for number in range(2)]
FULL = [(vector, 1000 * seed + vector) for vector in range(len(VECTORS)) for seed in range(1, 7)]
REFUSED = {"obeys", "replayed", "copied", "copied_commitment", "too_long", "fractions"}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """A sketch with fewer buckets in its first stage, for short vectors, and without stretching."""
    monkeypatch.setattr(sketch, "_BUCKETS_1", 256)
    monkeypatch.setattr(sketch, "STRETCHING", 1)


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
