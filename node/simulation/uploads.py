"""What a drawn client hands in: words that are added modulo 2³², so that neither order nor grouping leaves a trace.

One encoder a mechanism (``node.privacy.settings``). A task carries it to the worker.

A simulation's noise is drawn from the plan's seed, so that a run can be repeated: whoever knows the plan can subtract
it. **It protects nobody.** It shows what a mechanism costs in accuracy; federations draw theirs from ``os.urandom``.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from random import Random

import numpy as np
from fedgrove.node.base.tensors import Layout
from fedgrove.node.learning.local_update import HeldOutSums
from fedgrove.node.learning.settings import EvaluationSettings
from fedgrove.node.masking import keys
from fedgrove.node.masking.ring import WORD, encode
from fedgrove.node.methods.training.metric_sums import rates_of, sums_of
from fedgrove.node.privacy import local, signds
from fedgrove.node.privacy.client_level import Rates, quantise
from fedgrove.node.privacy.grid import Grid
from fedgrove.node.privacy.settings import LocalSettings, SignDsSettings


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
            The client's model, and the global model that it began with.

        Returns
        -------
        uint32 array (length,)
        """


@dataclass(frozen=True)
class Weighted(Encoder):
    """The model itself in fixed point, times the client's share of the samples: what federations mask."""

    bound: float

    @property
    def private(self) -> bool:
        return False

    def encode(self, trained: np.ndarray, start: np.ndarray, layout: Layout, turn: ClientPart) -> np.ndarray:
        return encode(trained, layout, turn.samples, turn.total, self.bound)


@dataclass(frozen=True)
class Clipped(Encoder):
    """The clipped update on the round's grid (client-level privacy), and the rates that ``evaluation`` asks for.

    The noise of all clients is added to their sum.
    """

    grid: Grid
    evaluation: EvaluationSettings | None = None

    def length(self, layout: Layout) -> int:
        return self.grid.length

    def encode(self, trained: np.ndarray, start: np.ndarray, layout: Layout, turn: ClientPart) -> np.ndarray:
        random = seeded("rounding", turn.seed, turn.round, turn.client)
        return quantise(self.grid, trained - start, random, measured_rates(turn.measured, self.evaluation))


@dataclass(frozen=True)
class Noisy(Encoder):
    """The model with the client's own noise (local privacy), kept within the bound, and then like ``Weighted``."""

    settings: LocalSettings
    bound: float

    def encode(self, trained: np.ndarray, start: np.ndarray, layout: Layout, turn: ClientPart) -> np.ndarray:
        mechanism = local.mechanism_for(self.settings, layout.length)
        random = seeded("local", turn.seed, turn.round, turn.client)
        model = local.noisy_model(mechanism, start, trained - start, self.bound, random)
        return encode(model, layout, turn.samples, turn.total, self.bound)


@dataclass(frozen=True)
class Selected(Encoder):
    """A sign at a few dimensions (SignDS): a vote for or against each, as int32."""

    settings: SignDsSettings

    def encode(self, trained: np.ndarray, start: np.ndarray, layout: Layout, turn: ClientPart) -> np.ndarray:
        mechanism = signds.mechanism_for(self.settings, layout.length)
        chosen = signds.select(mechanism, trained - start, seeded("signds", turn.seed, turn.round, turn.client))
        words = np.zeros(layout.length, WORD)
        signds.add_vote(words.view("<i4"), chosen)
        return words


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
    """Randomness that follows from the plan: to repeat a run with, and no secret."""
    return Random(f"fedgrove simulated {purpose} {seed} {number} {client}").randbytes
