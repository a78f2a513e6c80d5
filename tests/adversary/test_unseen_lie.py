"""A coordinator that closes a round with a wrong model and hopes that nobody looks.

If every member recomputed every round, a round of a hundred would cost a hundred times its uploads. So a lot decides
who looks, five members on average: a VRF under each member's own key, over the closing itself, whose output nobody else
can know, and which the coordinator cannot influence without making another closing. Whoever finds the lie judges
otherwise, and then everybody looks.
"""

import math
from collections.abc import Collection
from functools import partial
from types import SimpleNamespace

import pytest

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.records import Closed, Position
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.terms import method_of
from fedgrove.node.methods.training.terms import TrainingTerms
from fedgrove.node.protocol.closing import Closings
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.protocol.terms import FederationConfig, FederationSettings, ModelSpec
from fedgrove.node.roles.client.concluding import lot

MEMBERS, ROUNDS, CHECKERS = 100, 40, 5.0
MODEL = TaskSettings.of_network(ModelSpec("small-cnn", (1, 8, 8), 10))
TERMS = FederationConfig(TrainingTerms(), task=MODEL, federation=FederationSettings(checkers=CHECKERS))


def closing(number: int, against: Collection[int] = ()) -> SimpleNamespace:
    """A closed round in which everybody committed, and that some members judge to be wrong."""
    end = Closed(Position(1, bytes(32), 0), number, number.to_bytes(32, "big"), bytes(32))
    judged = {"judgements": lambda asked: dict.fromkeys(against), "overruled": lambda client: True}
    return SimpleNamespace(number=number, end=end, result=end, commits=dict.fromkeys(range(MEMBERS)), **judged)


def member(keys: Keys, seen: list[int], terms: FederationConfig = TERMS) -> Closings:
    """What a member does with closings; ``seen`` collects those that it recomputes."""
    closings = Closings(None, method_of(terms), None, 0.0, partial(lot, keys), bytes, Rounds)
    closings._recompute = lambda current, end: seen.append(current.number) or "it is a lie"
    return closings


@pytest.fixture(scope="module")
def everybody() -> list[Keys]:
    return [Keys.generate() for _ in range(MEMBERS)]


def looked_at(
    everybody: list[Keys], honest: int, terms: FederationConfig = TERMS, against: Collection[int] = ()
) -> list[int]:
    """How many honest members recompute each of the rounds."""
    seen: list[int] = []
    for keys in everybody[:honest]:
        looks = member(keys, seen, terms)
        for number in range(1, ROUNDS + 1):
            looks.fault(closing(number, against))
    return [seen.count(number) for number in range(1, ROUNDS + 1)]


def test_five_members_look_on_average(everybody):
    counts = looked_at(everybody, MEMBERS)
    mean = sum(counts) / ROUNDS
    # Five standard errors of a binomial mean: wrong once in a million runs.
    assert abs(mean - CHECKERS) < 5 * math.sqrt(CHECKERS / ROUNDS)


def test_a_lie_goes_unseen_as_often_as_the_threat_model_says(everybody):
    unseen = sum(count == 0 for count in looked_at(everybody, MEMBERS))
    # e⁻⁵ = 0.7 %: of 40 rounds 0.27, and more than four in one run of 7,000.
    assert unseen <= 4


def test_where_nobody_is_asked_to_look_every_lie_goes_unseen(everybody):
    blind = FederationConfig(TrainingTerms(), task=MODEL, federation=FederationSettings(checkers=0))
    assert looked_at(everybody[:10], 10, blind) == [0] * ROUNDS


def test_in_a_small_round_everybody_looks(everybody):
    seen: list[int] = []
    current = closing(1)
    current.commits = dict.fromkeys(range(5))
    member(everybody[0], seen).fault(current)
    assert seen == [1]


def test_one_judgement_makes_twice_as_many_look(everybody):
    mean = sum(looked_at(everybody, MEMBERS, against=(7,))) / ROUNDS
    assert abs(mean - 2 * CHECKERS) < 5 * math.sqrt(2 * CHECKERS / ROUNDS)


def test_a_member_that_starts_again_has_the_same_lot(everybody):
    ends = [closing(number).end for number in range(1, 6)]
    lots = [[lot(keys, end) for end in ends] for keys in everybody[:2]]
    assert lots[0] == [lot(everybody[0], end) for end in ends]
    assert lots[0] != lots[1]
