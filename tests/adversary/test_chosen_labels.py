"""A member that chooses what its cluster is watched on, and poisons all else.

It claims many samples of one label, where others have a few dozen in all, and sends what makes the model always
say that label: on the labels that its cluster seems to have that is no fall. What stops it: each member's label shares
weigh the same; a model is also scored with all labels of its cluster alike; and members that see others' labels gone
from the sum of the shares, taken out under masks, say so when they draw, and the sum is not believed.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.methods.procfl import codec as cluster_uploads
from fedgrove.node.methods.procfl import course, suspicion
from fedgrove.node.methods.procfl.aides import public_test
from fedgrove.node.methods.procfl.labels import SHARE, label_shares
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.watching import Score
from fedgrove.node.roles.client import Client
from tests.adversary import clustered
from tests.node.federation import Federation

GROUPS = (0, 0, 0, 1, 1, 1)
ATTACKER, LABEL = 3, 0
ROUNDS = 3 + 3
"""Compare, count labels, and three of training; it sends poison from the second on."""
CLAIMS = 800
"""With twice as many it would be in a cluster of its own."""


@pytest.fixture
def federation(tmp_path) -> Iterator[Federation]:
    with embedded() as network:
        training = TrainingSettings(epochs=10, batch_size=6, learning_rate=0.1, momentum=0.5)
        terms = {"seats": 3, "alpha": 0.3, "least_pool": 0.9, "training": training}  # so that nobody is ever judged
        made = clustered.found(network, tmp_path, GROUPS, ROUNDS, **terms)
        made.register()
        yield made


def attack(
    made: Federation, claims: int = 0, shares: Callable[[Client], np.ndarray] | None = None
) -> list[ClusterState]:
    """Run to the end; the attacker claims so many samples more, or sends these label shares, and then poison."""
    clients = made.clients()
    attacker = clients[ATTACKER]
    data = attacker.context.work._data
    own = data._samples
    more = np.resize(np.flatnonzero(own.y == LABEL), claims)
    data._samples = own.take(np.concatenate([np.arange(len(own)), more]))

    def send(trained, start, number):
        data._samples = own  # what it would train on the others from now on, it would throw away
        return trained if number < 2 else clustered.says_only(LABEL, start, 3)

    clustered.poison(attacker, send)
    if shares is not None:
        result = attacker.context.work.result
        attacker.context.work.result = lambda current, *rest, **last: (
            shares(attacker)
            if attacker.context.inputs(current).previous.stage == "labels"
            else result(current, *rest, **last)
        )
    made.run(clustered.coordinator(made), clients)
    return clustered.states(made)


def accuracy(made: Federation, state: ClusterState) -> float:
    """Of its victims' model, on the labels that they have."""
    k = next(k for k, members in enumerate(state.clusters) if ATTACKER in members)
    right, tested = public_test(made.config, made.test)(state.model_of(k))
    return sum(right[:3]) / sum(tested[:3])


def kept(made: Federation, states: list[ClusterState]) -> float:
    """How much of the accuracy that was reached before the poison is left, after the worst round."""
    before, *after = (accuracy(made, state) for state in states if state.trained)
    return min(after) / before


def test_who_claims_many_samples_of_a_label_weighs_as_much_as_others_or_is_not_believed(federation):
    states = attack(federation, CLAIMS)
    k = next(k for k, members in enumerate(states[-1].clusters) if ATTACKER in members)
    counted = next(state for state in states if state.labels)
    assert sum(counted.labels[k]) == 3 * SHARE and counted.labels[k][LABEL] < 2 * SHARE
    assert states[-1].labels[k] in (counted.labels[k], ())
    assert kept(federation, states) > 0.9 and federation.audit().verdict == "verified"


def by_claims(counts: np.ndarray, whole: int = SHARE) -> np.ndarray:
    """As it was: samples as they are claimed; sets are compared at the size that was stated."""
    return counts.astype(np.int64) if whole == SHARE else label_shares(counts, whole)


@pytest.fixture
def weighed_by_claims(monkeypatch):
    """As it was: sums of samples, and one score only, weighed by them."""
    monkeypatch.setattr("fedgrove.node.methods.procfl.client_work.label_shares", by_claims)
    monkeypatch.setattr(cluster_uploads, "is_sum_of_shares", lambda found, members: sum(found) > 0)
    monkeypatch.setattr(course.Course, "_doubts", lambda *_: False)
    _one_score(monkeypatch)


def _one_score(monkeypatch) -> None:
    scored = suspicion.score

    def expected_only(right, tested, labels):
        found = scored(right, tested, labels)
        return Score(found.expected, found.expected)

    monkeypatch.setattr(suspicion, "score", expected_only)


@pytest.mark.mutants
def test_if_claimed_samples_weigh_the_poison_stays(federation, weighed_by_claims):
    states = attack(federation, CLAIMS)
    assert kept(federation, states) < 0.5 and not any(state.cases for state in states)


# --- the next attackers -----------------------------------------------------------------------------------------------


def taken_out(client: Client) -> np.ndarray:
    """Less than nothing, under masks, of what the others of its cluster have most; it guesses well how much that is."""
    lie = np.zeros(10, np.int64)
    lie[[1, 2]] = -int(0.45 * SHARE), -int(0.3 * SHARE)
    lie[LABEL] = SHARE - lie.sum()
    return lie


def test_who_takes_others_labels_out_of_the_sum_is_not_believed(federation):
    states = attack(federation, shares=taken_out)
    k = next(k for k, members in enumerate(states[-1].clusters) if ATTACKER in members)
    counted = next(state for state in states if state.labels)
    assert sum(counted.labels[k]) == 3 * SHARE and counted.labels[k][LABEL] > 2 * SHARE  # as it wanted
    draws = clustered.rounds_of(federation).rounds[4].draws
    doubting = {client for client, draw in draws.items() if draw.samples > 2}
    assert doubting >= {1, 2} and states[-1].labels[k] == ()
    assert kept(federation, states) > 0.9 and federation.audit().verdict == "verified"


@pytest.mark.mutants
def test_if_nobody_looked_at_the_sum_the_poison_would_stay(federation, monkeypatch):
    monkeypatch.setattr(course.Course, "_doubts", lambda *_: False)
    states = attack(federation, shares=taken_out)
    assert kept(federation, states) < 0.5 and not any(state.cases for state in states)


def test_who_doubts_for_no_reason_harms_its_own_cluster_only(federation):
    """As long as labels weigh alike there, a model that specialises may count as one that fell."""
    clients = federation.clients()
    clients[ATTACKER].context.work._course = Doubting(clients[ATTACKER].context.work._course)
    federation.run(clustered.coordinator(federation), clients)
    last = clustered.states(federation)[-1]
    k = next(k for k, members in enumerate(last.clusters) if ATTACKER in members)
    assert last.labels[k] == () and all(labels for j, labels in enumerate(last.labels) if j != k)
    assert federation.audit().verdict == "verified"


class Doubting:
    """A course by which a member always doubts."""

    def __init__(self, honest: course.Course) -> None:
        self._honest = honest

    def __getattr__(self, name: str) -> object:
        return getattr(self._honest, name)

    def number_of(self, state, client, choice, shares) -> int:
        found = self._honest.number_of(state, client, choice, shares)
        return found + len(state.clusters) * (state.trained == 0)


def test_what_is_left_to_one_member_is_its_own_share():
    """Of four alike, all it can do unseen is claim that all of its own are of one label, and take out a little more."""
    counts = np.array([20, 20, 20, 0])
    own, honest = label_shares(counts), 3 * label_shares(counts)
    seen = []
    for taken in np.linspace(0, 1, 101):
        total = honest - (taken * honest).astype(np.int64)
        total[0] += 4 * SHARE - total.sum()
        alike = [Fraction(1)] * 3 + [Fraction(1, 3)]
        if course.contradicts(own.tolist(), total.tolist(), alike):
            break
        seen.append(total[0] / total.sum())
    assert max(seen) == pytest.approx(0.5, abs=0.01)  # its own quarter, and a quarter of the others' three
