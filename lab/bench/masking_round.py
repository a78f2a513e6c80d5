"""A round as it is masked, for benchmarks: its clients, and a typical one of them."""

from dataclasses import dataclass
from functools import cached_property
from random import Random
from statistics import median_low

import numpy as np

from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.aggregate import Aggregate
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.survivors import needed_secrets
from fedgrove_lab.masked_round import MaskedRound

CLIENTS, DROPOUTS = 100, 10
SURVIVORS = range(CLIENTS - DROPOUTS)
BOUND = 8.0


@dataclass(frozen=True)
class MeasuredRound(MaskedRound):
    """A round up to recovery; of 100 clients the last 10 share and do not commit."""

    @classmethod
    def make(cls, clients: int = CLIENTS, degree: int = 0) -> "MeasuredRound":
        """Partners of the cooperation tree, and ``degree`` random ones; holders and threshold by the default terms."""
        return cls.draw([100] * clients, Random(0).randbytes, degree=degree)

    @cached_property
    def typical(self) -> int:
        """A client with a typical number of partners."""
        usual = median_low(len(own) for own in self.graph.neighbours)
        return next(p for p, own in enumerate(self.graph.neighbours) if len(own) == usual)

    @property
    def partners(self) -> int:
        """Of the typical client."""
        return len(self.graph.neighbours[self.typical])

    @cached_property
    def blobs(self) -> dict[int, bytes]:
        """The clients' sealed shares."""
        return self.sealed(Random(1).randbytes)

    def true_record(self) -> RecoveryRecord:
        """What ``recovered`` would return, from the secrets themselves."""
        needed = needed_secrets(self.graph, range(self.graph.n), SURVIVORS)
        seeds = {p: self.secrets[p].self_seed for p in needed.seeds}
        return RecoveryRecord(needed.transcript, seeds, {p: self.secrets[p].mask_secret for p in needed.keys})

    def aggregate(self, record: RecoveryRecord, layout: Layout) -> Aggregate:
        """The server's sum of the survivors' uploads."""
        return Aggregate(self.graph, range(self.graph.n), SURVIVORS, record, layout, BOUND)


def model(parameters: int) -> tuple[Layout, np.ndarray]:
    """A model of one tensor, and weights of it."""
    vector = np.random.default_rng(0).normal(0, 0.1, parameters).astype(np.float32)
    return Layout(("model",), ((parameters,),)), vector
