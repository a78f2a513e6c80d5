"""Federations with client-level privacy that tests of this folder share; no test may change them."""

from dataclasses import dataclass

import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed
from fedgrove.node.base.tensors import Tensors, load
from fedgrove.node.learning.local_update import DivergedTraining
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.privacy.settings import ClientLevelSettings
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.terms import MaskingSettings
from tests.node.federation import Federation, failing

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)
TERMS = {"training": QUICK, "masking": MaskingSettings(masked="delta")}
DIVERGES = 2
"""Client whose training diverges in round 2."""
FALLS_SILENT = 5
"""Client that drops out of round 2 when it has shared."""


@dataclass
class Run:
    """A federation that has ended, and what its clients trained: update by round and client."""

    federation: Federation
    updates: dict[tuple[int, int], Tensors]

    def closed(self) -> list[Closed]:
        return self.federation.of(Closed)

    def metrics(self) -> list[Metrics]:
        return [Metrics.from_bytes(self.federation.store.fetch(end.metrics_digest, 1 << 16)) for end in self.closed()]

    def model(self, digest: bytes) -> Tensors:
        return load(self.federation.store.fetch(digest, 1 << 24))


def watched(client, number, updates):
    """A client that notes what it trained; one of them diverges in round 2."""
    train = client.context.work.result

    def result(current, index, **more):
        update = train(current, index, **more)
        if update is not None and update.fault is None:
            updates[(current.number, number)] = update.tensors
        return update

    client.context.work.result = result
    return failing(client, DivergedTraining("the loss is not finite"), 2) if number == DIVERGES else client


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> Run:
    """Five clients, two rounds, a quantile tracked; in the second one diverges and one falls silent."""
    privacy = ClientLevelSettings(epsilon=20.0, delta=1e-3, clipping="quantile", clip=0.5, dropouts=0.2)
    with embedded() as network:
        made = Federation.found(network, tmp_path_factory.mktemp("run"), 5, 2, privacy=privacy, **TERMS)
        made.register()
        updates: dict[tuple[int, int], Tensors] = {}
        coordinator = made.coordinator()
        clients = {number: watched(client, number, updates) for number, client in made.clients().items()}
        while made.turn(coordinator, clients):
            if coordinator.round == 2 and made.said(f"client {FALLS_SILENT}")[-1:] == ["shared"]:
                clients.pop(FALLS_SILENT, None)
        yield Run(made, updates)
