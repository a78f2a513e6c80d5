"""A member that sends poison when nobody can be judged for it any more: in the last round, or while a pause lasts.

It wants the model that the federation ends with, or goes on from, to be worthless. A fall raised suspicion only, so the
model that fell stood until a vote, for which there was no round left, or no right in a pause. What stops it: a model
that fell does not go on. Which model is in force follows from a round's closing, whatever round comes after.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.node.base.tensors import dump
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.methods.procfl import suspicion
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.watching import Score, score
from tests.adversary import clustered
from tests.node.federation import Federation

GROUPS = (0, 0, 0, 1, 1, 1)
ATTACKER = 2
TRAININGS = 3
ROUNDS = 3 + TRAININGS


def made_in(network, directory, **terms: object) -> Federation:
    training = TrainingSettings(epochs=10, batch_size=6, learning_rate=0.1, momentum=0.5)
    made = clustered.found(network, directory, GROUPS, ROUNDS, seats=3, training=training, **terms)
    made.register()
    return made


@pytest.fixture
def federation(tmp_path) -> Iterator[Federation]:
    with embedded() as network:
        yield made_in(network, tmp_path)


def attack(made: Federation, rounds: tuple[int, ...]) -> list[ClusterState]:
    """Run to the end; the attacker reverses its update, eight times as long, in these rounds of training."""
    clients = made.clients()

    def send(trained, start, number):
        return clustered.reversed_update(trained, start, 8.0) if number in rounds else trained

    clustered.poison(clients[ATTACKER], send)
    made.run(clustered.coordinator(made), clients)
    return clustered.states(made)


def cluster_of(state: ClusterState, member: int) -> int:
    return next(k for k, members in enumerate(state.clusters) if member in members)


def of(state: ClusterState, member: int) -> bytes:
    """The model in force of a member's cluster."""
    return dump(state.model_of(cluster_of(state, member)))


def trained(states: list[ClusterState], number: int) -> ClusterState:
    """What the federation came to by a round of training."""
    return next(state for state in states if state.trained == number)


def test_poison_in_the_last_round_is_not_final(federation):
    states = attack(federation, rounds=(TRAININGS,))
    last, before = states[-1], trained(states, TRAININGS - 1)
    assert last.trained == TRAININGS and last.stage == "show"  # suspected, and no round is left to judge
    assert of(last, ATTACKER) == of(before, ATTACKER)
    assert of(last, 6) != of(before, 6)  # the other cluster trained
    assert federation.audit().verdict == "verified"


def test_what_is_published_of_the_last_round_is_of_the_models_in_force(federation):
    attack(federation, rounds=(TRAININGS,))
    before, last = clustered.stated(federation)[-2:]
    assert last.accuracy > 0.8 * before.accuracy


def test_poison_in_a_pause_does_not_go_on(tmp_path):
    """All of its cluster were judged, say, and nobody of them is for a while."""
    with embedded() as network:
        made = made_in(network, tmp_path, least_pool=0.9)
        states = attack(made, rounds=(2, 3))
        assert not any(state.cases for state in states) and states[-1].trained == TRAININGS
        assert of(states[-1], ATTACKER) == of(trained(states, 1), ATTACKER)


def as_it_fell(monkeypatch) -> None:
    """As it was: the model goes on, whoever is suspected for it."""
    watched = suspicion.watched

    def only_suspecting(terms, labels, state, stated):
        return replace(watched(terms, labels, state, stated), models=state.models)

    monkeypatch.setattr(suspicion, "watched", only_suspecting)


@pytest.mark.mutants
def test_if_fallen_models_went_on_the_last_poison_would_be_final(federation, monkeypatch):
    as_it_fell(monkeypatch)
    states = attack(federation, rounds=(TRAININGS,))
    assert of(states[-1], ATTACKER) != of(trained(states, TRAININGS - 1), ATTACKER)
    assert clustered.stated(federation)[-1].accuracy < 0.8 * clustered.stated(federation)[-2].accuracy


# --- the next attacker ------------------------------------------------------------------------------------------------


BEFORE = score((60, 90), (100, 100), (70, 30))


def drifted(rounds: int, reaches) -> Score:
    """What is left when an attacker gives a little of a rare label for the frequent one, round after round."""
    best, right, last = BEFORE, [60, 90], BEFORE
    for _ in range(rounds):
        tried = [min(100, right[0] + 4), max(0, right[1] - 8)]
        now = score(tuple(tried), (100, 100), (70, 30))
        if now.fell(best, Fraction(1, 10)):
            continue
        right, last = tried, now
        if reaches(now, best):
            best = now
    return last


def test_poison_in_small_doses_comes_no_further_than_the_tolerance_below_the_best():
    """Whatever it lowers is held against the best there was, not against the round before."""
    last = drifted(30, lambda now, best: now.reaches(best))
    assert not last.fell(BEFORE, Fraction(1, 10)) and last.even < BEFORE.even


@pytest.mark.mutants
def test_if_the_best_were_what_is_better_for_most_samples_it_would_come_all_the_way():
    last = drifted(30, lambda now, best: now.expected >= best.expected)
    assert last.even < BEFORE.even - Fraction(2, 10)
