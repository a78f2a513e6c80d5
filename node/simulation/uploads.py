"""What a drawn client hands in: words that are added modulo 2³², so that neither order nor grouping leaves a trace.

A task carries an encoder to the worker. What it computes is the mechanism's (``node.privacy.mechanism``), as in a
federation.

A simulation's noise is drawn from the scenario's seed, so that a run can be repeated: whoever knows the scenario can
subtract it. **It protects nobody.** It shows what a mechanism costs in accuracy; federations draw theirs from
``os.urandom``.
"""

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from random import Random

import numpy as np

from fedgrove.node.base.tensors import Layout, unflatten
from fedgrove.node.learning.local_update import HeldOutSums
from fedgrove.node.learning.settings import EvaluationSettings
from fedgrove.node.masking import keys
from fedgrove.node.masking.ring import WORD
from fedgrove.node.methods.training.metric_sums import rates_of, sums_of
from fedgrove.node.privacy.mechanism import Mechanism, Rates, Weight
from fedgrove.node.privacy.weighted import WeightedMean


@dataclass(frozen=True)
class ClientPart:
    """A client's part in a round: it has ``samples`` of the ``total`` of all that were drawn.

    ``measured`` is its evaluation of the model that the round began with, where it made one.
    """

    client: int
    round: int
    seed: int
    samples: int
    total: int
    measured: HeldOutSums | None = None


class Encoder(ABC):
    """Makes a client's upload. A frozen value: it is sent to other processes."""

    @property
    def private(self) -> bool:
        """Whether a training that left the finite numbers counts as no update; elsewhere it ends the run."""
        return True

    def length(self, layout: Layout) -> int:
        """Words of an upload."""
        return layout.length

    @abstractmethod
    def encode(self, trained: np.ndarray, start: np.ndarray, layout: Layout, turn: ClientPart) -> np.ndarray:
        """The upload.

        Parameters
        ----------
        trained, start : float32 arrays (parameters,)
            The client's model, which is overwritten, and the global model that it began with.

        Returns
        -------
        uint32 array (length,)
        """

    def cut_off(self, trained: np.ndarray, start: np.ndarray, layout: Layout) -> int:
        """How many of the client's values the upload has at the bound instead."""
        return 0


@dataclass(frozen=True)
class Upload(Encoder):
    """An upload of a mechanism, and the rates that ``evaluation`` asks for where the mechanism tells rates.

    ``purpose`` names the randomness.
    """

    mechanism: Mechanism
    purpose: str = ""
    evaluation: EvaluationSettings | None = None

    @property
    def private(self) -> bool:
        return self.mechanism.hides_divergence

    def length(self, layout: Layout) -> int:
        return self.mechanism.length

    def encode(self, trained: np.ndarray, start: np.ndarray, layout: Layout, turn: ClientPart) -> np.ndarray:
        # Without a purpose nothing is drawn; to seed a generator takes longer than to encode a small model.
        random = seeded(self.purpose, turn.seed, turn.round, turn.client) if self.purpose else os.urandom
        rates = measured_rates(turn.measured, self.evaluation)
        weight = Weight(turn.samples, turn.total)
        return self.mechanism.encode(trained, partial(unflatten, start, layout), weight, random, rates)

    def cut_off(self, trained: np.ndarray, start: np.ndarray, layout: Layout) -> int:
        if self.private or not isinstance(self.mechanism, WeightedMean):
            return 0
        own = trained.copy() if self.mechanism.masked == "delta" else trained
        return self.mechanism.cut_off(own, partial(unflatten, start, layout))


@dataclass(frozen=True)
class Measured(Encoder):
    """Nothing: only the norms of the updates are wanted, to find the paper's S before anything is clipped to it."""

    def length(self, layout: Layout) -> int:
        return 0

    def encode(self, trained: np.ndarray, start: np.ndarray, layout: Layout, turn: ClientPart) -> np.ndarray:
        return np.zeros(0, WORD)


def measured_rates(found: HeldOutSums | None, evaluation: EvaluationSettings | None) -> Rates:
    """What a client measured, as the rates of an upload; none where it made no evaluation."""
    if found is None or evaluation is None:
        return ()
    return rates_of(sums_of(found, evaluation), evaluation.metrics)


def seeded(purpose: str, seed: int, number: int, client: int = 0) -> keys.Random:
    """Randomness that follows from the scenario: to repeat a run with, and no secret."""
    return Random(f"fedgrove simulated {purpose} {seed} {number} {client}").randbytes
