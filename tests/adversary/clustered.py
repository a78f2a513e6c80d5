"""Small federations with clusters for attackers: a real EVM and store, members of few samples, quick training."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from chain.networks import Network
from node.clustering.settings import ClusterTerms
from node.clustering.state import ClusterState
from node.config import FederationSettings
from node.content import Metrics
from node.coordinator import Coordinator
from node.evaluation import coordinator_tasks, initial_model
from node.learning.datasets import load_dataset
from node.learning.samples import Samples
from node.learning.settings import TrainingSettings
from tests.node.federation import Federation

QUICK = TrainingSettings(epochs=3, batch_size=10, learning_rate=0.1, momentum=0.5)
LABELS = ((0, 1, 2), (3, 4, 5), (6, 7, 8))
"""Main labels of the groups; a quarter of the samples is of any label."""
SAMPLES = 48


def found(network: Network, directory: Path, groups: Sequence[int], rounds: int, **terms: object) -> Federation:
    """A federation with a member for each entry of ``groups``, which says whose labels it has."""
    settings = FederationSettings(rounds=rounds, seed=5)
    made = Federation.found(network, directory, len(groups), federation=settings, training=QUICK)
    keys = made.coordinator_keys
    given = {"alpha": 0.5, "global_share": 0.0, "public_samples": 300, **terms}
    clusters = ClusterTerms(**given, counter=keys.mailbox_public.hex(), signer=keys.address)
    made.config = replace(made.config, clusters=clusters)
    made.samples = dealt(groups)
    return made


def dealt(groups: Sequence[int]) -> list[Samples]:
    """Three in four of a member's samples have the labels of its group."""
    data, rng = load_dataset("digits").train(), np.random.default_rng(1)
    free = rng.permutation(len(data.y))
    parts = []
    for group in groups:
        main = [place for place in free if data.y[place] in LABELS[group]][: SAMPLES * 3 // 4]
        rest = [place for place in free if place not in set(main)][: SAMPLES - len(main)]
        free = np.array([place for place in free if place not in {*main, *rest}])
        parts.append(data.take(np.array([*main, *rest])))
    return parts


def coordinator(made: Federation, kind: type[Coordinator] = Coordinator) -> Coordinator:
    """A coordinator that states what it must."""
    tasks = coordinator_tasks(made.config, made.coordinator_keys, made.test)
    ledger = made.ledger(made.coordinator_keys)
    return kind(ledger, made.store, made.config, initial_model(made.config), members=len(made.keys), **tasks)


def states(made: Federation) -> list[ClusterState]:
    """What each closed round that stands left, without what was stated of it."""
    rounds = _rounds(made)
    ends = [entry.end for entry in rounds.rounds.values() if entry.stands]
    return [ClusterState.from_bytes(made.store.fetch(end.model_digest, 1 << 26)) for end in ends]


def stated(made: Federation) -> list[Metrics]:
    """What was stated of them."""
    ends = [entry.end for entry in _rounds(made).rounds.values() if entry.stands]
    return [Metrics.from_bytes(made.store.fetch(end.metrics_digest, 1 << 20)) for end in ends]


def _rounds(made: Federation):
    observer = made.client(1)
    observer.view.refresh()
    return observer.view.rounds
