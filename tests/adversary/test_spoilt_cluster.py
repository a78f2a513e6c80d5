"""A member that spoils its cluster's sum: with one word beyond the bound, a key that makes no masks, or too few bytes.

It wants the cluster's model to be worthless, the cluster to train no more, or honest members to be barred: where a
model is beyond the bound, nobody whose training starts from it can mask its own. What stops it: a sum that updates
within the bound cannot come to is none, and the model before stays; who sends what cannot be summed at all is named by
its bytes, and out; who cannot mask is in no sum; an honest member whose training leaves the bound sends what it began
with.
"""

import os
from collections.abc import Iterator

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Committed, RoundOpened
from fedgrove.node.base.tensors import dump, flatten, unflatten
from fedgrove.node.masking.ring import WORD
from fedgrove.node.methods.procfl import sums as cluster_sums
from fedgrove.node.methods.procfl.local_training import ClusterTraining
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.training.local_training import LocalTraining
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.client.joining import Draw
from fedgrove.node.roles.client.role import Duty
from tests.adversary import clustered
from tests.node.federation import Federation, with_phase

GROUPS = (0, 0, 0, 0, 1, 1, 1, 1, 1)
ATTACKER = 5
ITS_CLUSTER = {5, 6, 7, 8, 9}
FIRST = 2
"""Rounds before training, without committees."""


@pytest.fixture
def federation(tmp_path) -> Iterator[Federation]:
    with embedded() as network:
        made = clustered.found(network, tmp_path, GROUPS, FIRST + 3)
        made.register()
        yield made


def run(made: Federation, change) -> list[ClusterState]:
    """The attacker's uploads are changed from the second round of training on."""
    clients = made.clients()
    disclosure = clients[ATTACKER].context.disclosure
    honest = disclosure.mask

    def mask(current, client, update):
        data = honest(current, client, update)
        return change(data) if current.number >= FIRST + 2 and data else data

    disclosure.mask = mask
    made.run(clustered.coordinator(made), clients)
    return clustered.states(made)


def monster(data: bytes) -> bytes:
    """One word of the masked update is more by nearly half of the ring: twice the bound, in the mean of the group."""
    words = np.frombuffer(data, WORD).copy()
    words[:1] += np.uint32(2_000_000_000)
    return words.tobytes()


def models_of(state: ClusterState) -> dict[int, bytes]:
    """Of each cluster, by its first member."""
    return {members[0]: dump(state.model_of(k)) for k, members in enumerate(state.clusters) if members}


def idle(made: Federation) -> set[str]:
    """Accounts of which some opening says that nobody waits for them."""
    return {account for record in made.of(RoundOpened) for account in record.barred}


def of_the_last_round(made: Federation) -> set[int]:
    """Who trained in it."""
    committed = made.of(Committed)
    return {record.client for record in committed if record.round == committed[-1].round}


def test_a_sum_beyond_the_bound_is_no_model_and_bars_nobody(federation):
    states = run(federation, monster)
    before, last = next(state for state in states if state.trained == 1), states[-1]
    assert last.trained == 3 and [len(last.groups[k]) for k in last.spoilt] == [5]
    assert models_of(last)[5] == models_of(before)[5] and models_of(last)[1] != models_of(before)[1]
    assert not idle(federation) and federation.audit().verdict == "verified"
    bound = federation.config.masking.bound
    assert all(np.abs(flatten(model)).max() <= bound for model in last.models)


@pytest.fixture
def any_sum(monkeypatch):
    """As it was: whatever words come to is a model, and a member whose training leaves the bound sits out."""
    monkeypatch.setattr(cluster_sums, "_is_within", lambda *_: True)
    monkeypatch.setattr(np, "clip", lambda vector, *_, **__: vector)
    monkeypatch.setattr(ClusterTraining, "trained", LocalTraining.trained)


@pytest.mark.mutants
def test_if_any_sum_were_a_model_one_word_would_bar_the_cluster(federation, any_sum):
    states = run(federation, monster)
    bound = federation.config.masking.bound
    spoilt = next(state for state in states if state.trained == 2)
    assert max(np.abs(flatten(model)).max() for model in spoilt.models) > bound
    assert not ITS_CLUSTER & of_the_last_round(federation)


def test_where_there_are_committees_the_group_answers_for_it(tmp_path):
    """In the very round in which the sum was no model: nothing else says who made it so."""
    with embedded() as network:
        made = clustered.found(network, tmp_path, GROUPS, 3 + 4, seats=3, least_pool=0.3, shown="upload")
        made.register()
        states = run_watched(made)
        (case,) = next(state for state in states if state.cases).cases
        assert set(case.suspects) == ITS_CLUSTER
        judged = states[-1].cases[0]
        assert len(judged.members) == 2
        assert set(judged.expelled) == {ATTACKER} & set(judged.members)


def run_watched(made: Federation) -> list[ClusterState]:
    clients = made.clients()
    disclosure = clients[ATTACKER].context.disclosure
    honest = disclosure.mask

    def mask(current, client, update):
        data = honest(current, client, update)
        return monster(data) if current.number == 5 else data

    disclosure.mask = mask
    made.run(clustered.coordinator(made), clients)
    return clustered.states(made)


def test_who_sends_what_cannot_be_summed_is_out_and_its_cluster_trains_on(federation):
    states = run(federation, lambda data: data[:-4])
    last = states[-1]
    assert set(last.expelled) == {ATTACKER} and ITS_CLUSTER - {ATTACKER} in map(set, last.groups)
    assert not idle(federation)
    verdict = federation.audit()
    assert verdict.verdict == "verified" and {r.client for r in verdict.remarks} == {ATTACKER}


@pytest.mark.mutants
def test_if_it_stayed_its_cluster_would_never_train_again(federation, monkeypatch):
    monkeypatch.setattr("fedgrove.node.methods.procfl.suspicion.without", lambda state, expelled: state)
    states = run(federation, lambda data: data[:-4])
    before = next(state for state in states if state.trained == 1)
    assert not states[-1].expelled and models_of(states[-1])[5] == models_of(before)[5]


OFF_CURVE = bytes(32)  # no point has this x coordinate


class NoMasks(Draw):
    """Draws with a key by which nobody can mask."""

    def act(self, turn):
        ledger = self.context.ledger
        honest = ledger.draw
        if turn.client == ATTACKER and turn.current.number > FIRST:
            ledger.draw = lambda number, keys, alpha, mask_key, seal_key, samples: honest(
                number, keys, alpha, OFF_CURVE, seal_key, samples
            )
        try:
            return super().act(turn)
        finally:
            ledger.draw = honest


def no_masks(made: Federation) -> list[ClusterState]:
    """The attacker draws with a mask key off the curve, and shares and commits to whatever has the right size."""
    kind = with_phase(Client, Duty.DRAW, NoMasks)
    clients = {number: made.client(number, kind) for number in range(1, len(GROUPS) + 1)}
    clients[ATTACKER].context.duplicates.look = lambda *_: None  # it does not mind that its journal has something else
    disclosure, size = clients[ATTACKER].context.disclosure, 4 * clients[ATTACKER].context.parameters
    for name, junk in (("mask", bytes(size)), ("shares", os.urandom(100))):
        honest = getattr(disclosure, name)
        setattr(disclosure, name, _from_first(honest, junk))
    made.run(clustered.coordinator(made), clients)
    return clustered.states(made)


def _from_first(honest, junk: bytes):
    return lambda current, *rest: junk if current.number > FIRST else honest(current, *rest)


def test_who_cannot_mask_is_in_no_sum_and_its_cluster_trains(federation):
    states = no_masks(federation)
    assert ITS_CLUSTER - {ATTACKER} in map(set, states[-1].groups) and not states[-1].spoilt
    assert not idle(federation)


# --- the next attacker: just below the bound --------------------------------------------------------------------------


def test_an_honest_member_whose_training_leaves_the_bound_sends_what_it_began_with(federation):
    """Others may bring the model to the brink of it, and would have honest members taken for idle ones for that."""
    clients = federation.clients()
    for client in clients.values():
        clustered.poison(client, brink)
    federation.run(clustered.coordinator(federation), clients)
    states = clustered.states(federation)
    assert not idle(federation) and states[-1].trained == 3
    assert federation.audit().verdict == "verified"


def brink(trained, start, number):
    """The first round of training ends with a parameter at the bound, for all."""
    vector = flatten(trained)
    if number == 1:
        vector[0] = 8.0
    return unflatten(np.clip(vector, -8, 8), ClusterState.first(start).layout)
