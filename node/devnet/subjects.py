"""A shipped network on a data set as what a federation on this machine learns."""

import os
import time
from dataclasses import replace

import numpy as np

from fedgrove.chain.crypto.keys import Keys
from fedgrove.ipfs.store import ContentStore
from fedgrove.node.devnet.subject import ArraysSubject
from fedgrove.node.devnet.terms import terms_on
from fedgrove.node.learning import partition
from fedgrove.node.learning.local_update import RoundPosition
from fedgrove.node.learning.samples import Dataset, Samples
from fedgrove.node.learning.shared import shared_to_bytes
from fedgrove.node.methods.terms import method_of, with_first_model
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.scenario.scenario import Scenario

_PROBE_SAMPLES = 64


class DatasetSubject(ArraysSubject):
    """A shipped network on a data set, whose training samples are split among the clients.

    Attributes
    ----------
    shared : Samples
        d_share, which volunteers give out of the same samples; there once the federation is founded.
    """

    shared: Samples

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._parts: list[Samples] = []

    def found(self, scenario: Scenario, store: ContentStore, keys: Keys) -> tuple[FederationConfig, bytes]:
        """As ``Subject`` says."""
        training, cast = self.dataset.train(), scenario.cast
        seed = scenario.federation.seed
        parts, shared = partition.deal(training, cast.clients, scenario.partition, cast.shared_per_class, seed)
        assert shared is not None
        self._parts, self.shared = [training.take(part) for part in parts], shared
        digest = store.put(shared_to_bytes(shared)).digest
        config = with_first_model(terms_on(scenario, self.dataset, digest, keys.mailbox_public, keys.address))
        return config, method_of(config).first_model()

    def parts(self, config: FederationConfig) -> list[Samples]:
        """Each client's samples."""
        return self._parts

    def test(self, config: FederationConfig) -> Samples:
        """The data set's own test samples."""
        return self.dataset.test()

    def seconds(self, config: FederationConfig, first: bytes) -> float:
        """As ``Subject`` says."""
        return training_seconds(config, self._parts, self.shared)

    def workers(self, asked: int) -> int:
        """As ``Subject`` says: two or more pay off only when there is much to train."""
        most = min(os.cpu_count() or 1, 8) if len(self.dataset.train()) > 10_000 else 1
        return asked or most

    def arrays(self, data: Samples, use: str) -> dict[str, np.ndarray]:
        """Samples, as members' files have them."""
        return {f"x_{use}": data.x, f"y_{use}": data.y}


def training_seconds(config: FederationConfig, parts: list[Samples], shared: Samples) -> float:
    """Estimate, from a short trial, how long a round's training takes on this machine, all clients together."""
    # They need torch, which a testnet that clusters does without.
    from fedgrove.node.learning.networks import first_tensors, train
    from fedgrove.node.learning.strategies import make_strategy

    largest = max(parts, key=len)
    trial = largest.take(range(min(len(largest), _PROBE_SAMPLES)))
    spec, federation = config.network, config.federation
    strategy = make_strategy(config.strategy.name, config.strategy.options)
    model = first_tensors(spec, strategy, federation.seed)
    position: RoundPosition = {"number": 1, "rounds": federation.rounds, "seed": federation.seed}
    settings = replace(config.training, portable=False)  # only processes that are started for it train portably
    for _ in range(2):  # the first time loads libraries, too
        started = time.perf_counter()
        train(spec, model, trial, shared, strategy, settings, client=1, **position)
        spent = time.perf_counter() - started
    total = sum(map(len, parts)) / (os.cpu_count() or 1)
    return spent / len(trial) * max(total, len(largest))
