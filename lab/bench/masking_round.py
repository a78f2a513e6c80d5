"""A round as it is masked, for benchmarks: its clients, who masks with whom, and a typical one of them."""

from dataclasses import dataclass
from random import Random
from statistics import median_low

import numpy as np

from fedgrove.chain.crypto import tree
from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.aggregate import Aggregate
from fedgrove.node.masking.client import RoundSecrets, mask_update, seal_shares
from fedgrove.node.masking.context import Participant, RoundContext
from fedgrove.node.masking.graph import MaskGraph, build_graph
from fedgrove.node.masking.recovery import RecoveryRecord, recover
from fedgrove.node.masking.release import held_shares, release
from fedgrove.node.masking.survivors import needed_secrets

CLIENTS, DROPOUTS = 100, 10
_BOUND = 8.0


@dataclass(frozen=True)
class DrawnClients:
    """Clients of a round, who masks with whom, and one of them with a typical number of partners."""

    graph: MaskGraph
    secrets: list[RoundSecrets]
    typical: int

    @classmethod
    def make(cls, clients: int = CLIENTS, degree: int = 0) -> "DrawnClients":
        """Partners of the cooperation tree, and ``degree`` random ones; holders and threshold by the default terms."""
        random = Random(0).randbytes
        secrets = [RoundSecrets.generate(random) for _ in range(clients)]
        participants = [Participant(p, p + 1, 100, own.mask_key, own.seal_key) for p, own in enumerate(secrets)]
        tree_partners = [tree.partners(position, clients) for position in range(clients)]
        context = RoundContext(1, "0x" + "11" * 20, 1)
        graph = build_graph(context, participants, tree_partners, degree=degree, seed=bytes(32))
        usual = median_low(len(own) for own in graph.neighbours)
        return cls(graph, secrets, next(p for p, own in enumerate(graph.neighbours) if len(own) == usual))

    @property
    def partners(self) -> int:
        """Of the typical client."""
        return len(self.graph.neighbours[self.typical])

    def masked(self, position: int, vector: np.ndarray, layout: Layout) -> np.ndarray:
        everybody = range(self.graph.n)
        return mask_update(self.graph, position, self.secrets[position], everybody, vector, layout, bound=_BOUND)


@dataclass(frozen=True)
class MaskingRound:
    """One round up to recovery: 100 clients, of whom the last 10 share but do not commit.

    ``blobs`` are the clients' sealed shares, where they are needed.
    """

    drawn: DrawnClients
    layout: Layout
    vector: np.ndarray
    blobs: dict[int, bytes]

    @classmethod
    def make(cls, parameters: int) -> "MaskingRound":
        """With the partners that the cooperation tree gives, seven each."""
        drawn, random = DrawnClients.make(), Random(1).randbytes
        blobs = {p: seal_shares(drawn.graph, p, own, random) for p, own in enumerate(drawn.secrets)}
        return cls(drawn, *model(parameters), blobs)

    @property
    def graph(self) -> MaskGraph:
        return self.drawn.graph

    @property
    def secrets(self) -> list[RoundSecrets]:
        return self.drawn.secrets

    @property
    def typical(self) -> int:
        return self.drawn.typical

    @property
    def survivors(self) -> range:
        return range(CLIENTS - DROPOUTS)

    def masked(self, position: int) -> np.ndarray:
        return self.drawn.masked(position, self.vector, self.layout)

    def releases(self) -> dict[int, bytes]:
        held = {p: held_shares(self.graph, p, self.secrets[p], self.blobs) for p in self.survivors}
        return {p: release(self.graph, p, held[p], self.blobs, self.survivors, committed=True) for p in self.survivors}

    def recovered(self, releases: dict[int, bytes]) -> RecoveryRecord:
        hashes = {p: self.secrets[p].seed_hash for p in self.survivors}
        return recover(self.graph, self.blobs, self.survivors, hashes, releases, self.blobs)

    def true_record(self) -> RecoveryRecord:
        """What ``recovered`` would return, from the secrets themselves."""
        needed = needed_secrets(self.graph, range(CLIENTS), self.survivors)
        seeds = {p: self.secrets[p].self_seed for p in needed.seeds}
        return RecoveryRecord(needed.transcript, seeds, {p: self.secrets[p].mask_secret for p in needed.keys})

    def aggregate(self, record: RecoveryRecord) -> Aggregate:
        return Aggregate(self.graph, range(CLIENTS), self.survivors, record, self.layout, _BOUND)


def model(parameters: int) -> tuple[Layout, np.ndarray]:
    """A model of one tensor, and weights of it."""
    vector = np.random.default_rng(0).normal(0, 0.1, parameters).astype(np.float32)
    return Layout(("model",), ((parameters,),)), vector
