"""What a worker does: train a few clients and add their models up, or evaluate a slice of the test set.

A task says all that the work depends on, so its result is the same in any process. How a client trains and a model is
tested is what its terms know: those of a shipped network (``network_work``), or of a user's own task (``task_work``).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.tensors import Layout, Tensors, flatten, load
from fedgrove.node.learning.local_update import DivergedTraining, HeldOutSums, LocalUpdate
from fedgrove.node.learning.samples import Samples
from fedgrove.node.masking.ring import WORD
from fedgrove.node.privacy.clipping import l2_norm
from fedgrove.node.simulation.data import OnDisk
from fedgrove.node.simulation.uploads import ClientPart, Encoder, Measured


class RunTerms(ABC):
    """What is the same in all rounds of a run, and how a worker trains and tests with it."""

    seed: int

    def trained(
        self, task: "TrainingTask", tensors: Mapping[str, np.ndarray], start: np.ndarray
    ) -> "Iterator[tuple[np.ndarray, ClientResult]]":
        """Each client's trained parameters as a vector, and what else is kept; ``start`` is the model as a vector.

        The trained vector may be written over, the start not.
        """
        return (self.train(task, work, tensors, start) for work in task.clients)

    @abstractmethod
    def train(
        self, task: "TrainingTask", work: "ClientWork", tensors: Mapping[str, np.ndarray], start: np.ndarray
    ) -> "tuple[np.ndarray, ClientResult]":
        """One client's trained parameters as a vector, and what else is kept."""

    @abstractmethod
    def measured(self, task: "TrainingTask", work: "ClientWork", tensors: Mapping[str, np.ndarray]) -> HeldOutSums:
        """One client's evaluation of a model, where the scenario asks for one; it does not train."""

    @abstractmethod
    def score(self, task: "EvaluationTask", tensors: Mapping[str, np.ndarray]) -> "SliceScore":
        """Test a model on a part of what there is to test on."""


class WorkUnit(Protocol):
    """What a worker is given to do."""

    doing: ClassVar[str]

    @property
    def round(self) -> int: ...

    def perform(self) -> Any: ...


@dataclass(frozen=True)
class ModelReference:
    """A global model on its way to the workers: the tensors, or the path of their safetensors bytes."""

    digest: str
    content: Mapping[str, np.ndarray] | str = field(repr=False)

    def tensors(self) -> Mapping[str, np.ndarray]:
        """The model; read once a process where it is on disk."""
        return _loaded(self.content, self.digest) if isinstance(self.content, str) else self.content


@dataclass(frozen=True)
class ClientWork:
    """A drawn client, its samples as the terms read them, and what its strategy kept.

    ``samples`` are samples or their indices into the training samples, with a task an ``OwnSource``.
    """

    client: int
    samples: Any = field(repr=False)
    state: Tensors = field(repr=False)


@dataclass(frozen=True)
class TrainingTask:
    """Some of a round's clients.

    Attributes
    ----------
    total : int
        N, samples of all clients that were drawn.
    encoder : Encoder
        How clients upload.
    sampling_rate : float
        Share of all clients that the round draws.
    training, shared : Samples, OnDisk or None
        The samples that indices point into; d_share.
    probe : Samples, OnDisk or None
        Test samples for the accuracy out of distribution; None where it is not asked for.
    """

    doing: ClassVar[str] = "training"

    terms: RunTerms
    model: ModelReference
    round: int
    total: int
    encoder: Encoder
    clients: tuple[ClientWork, ...]
    sampling_rate: float = 1.0
    training: Samples | OnDisk | None = field(default=None, repr=False)
    shared: Samples | OnDisk | None = field(default=None, repr=False)
    probe: Samples | OnDisk | None = field(default=None, repr=False)

    def perform(self) -> "PartialSum":
        return train_clients(self)


@dataclass(frozen=True)
class MembersEvaluation:
    """Some clients' evaluation of the last model: what they would do before they trained, without the training."""

    doing: ClassVar[str] = "evaluating"

    clients: TrainingTask

    @property
    def round(self) -> int:
        return self.clients.round

    def perform(self) -> tuple[tuple[int, HeldOutSums], ...]:
        task, tensors = self.clients, self.clients.model.tensors()
        return tuple((work.client, task.terms.measured(task, work, tensors)) for work in task.clients)


@dataclass(frozen=True)
class ClientResult:
    """What is kept of a client's round in addition to its share of the sum.

    ``loss`` is that of its last local epoch, ``norm`` the length of its update; the loss is None, and the update zero,
    where a mechanism passes over a training that diverged. ``measured`` is what its evaluation came to before the
    training, where the scenario asks for one. ``cut_off`` counts the values that its upload has at the bound instead.
    """

    client: int
    samples: int
    loss: float | None
    norm: float
    ood_accuracy: float | None
    state: Tensors = field(repr=False)
    measured: HeldOutSums | None = None
    cut_off: int = 0


@dataclass(frozen=True)
class PartialSum:
    """Σ of some clients' uploads: uint32, as many words as the encoder makes, modulo 2³²."""

    words: np.ndarray = field(repr=False)
    results: tuple[ClientResult, ...]


@dataclass(frozen=True)
class EvaluationTask:
    """A test of a round's model ``number`` on a part, a ``Slice``, or with a task an ``OwnSource``."""

    doing: ClassVar[str] = "evaluating"

    terms: RunTerms
    model: ModelReference
    round: int
    number: int
    part: Any = field(repr=False)

    def perform(self) -> "SliceScore":
        return self.terms.score(self, self.model.tensors())


@dataclass(frozen=True)
class SliceScore:
    """Right answers and samples of each label, and the summed loss (cross-entropy in nats), of model ``number``.

    A task's are those of all labels together, and its right answers None where it counts none.
    """

    number: int
    right: tuple[int, ...] | None
    tested: tuple[int, ...]
    loss: float


def perform(task: WorkUnit) -> Any:
    """Do a task.

    Raises
    ------
    DivergedTraining
        A client's training left the finite numbers, or its parameters the bound; it names client and round.
    """
    return task.perform()


def train_clients(task: TrainingTask) -> PartialSum:
    """Train the task's clients one after the other, and sum their models; memory is that of one client and the sum."""
    tensors = task.model.tensors()
    layout, start = Layout.of(tensors), flatten(tensors)
    total = np.zeros(task.encoder.length(layout), WORD)
    results = []
    for vector, result in task.terms.trained(task, tensors, start):
        turn = ClientPart(result.client, task.round, task.terms.seed, result.samples, task.total, result.measured)
        try:
            cut_off = task.encoder.cut_off(vector, start, layout)
            words = task.encoder.encode(vector, start, layout, turn)
        except InvalidContent as fault:
            raise DivergedTraining(f"client {result.client} in round {task.round}: {fault}") from None
        np.add(total, words, out=total)
        results.append(replace(result, cut_off=cut_off) if cut_off else result)
    return PartialSum(total, tuple(results))


def trained_by(
    training: Callable[[], LocalUpdate],
    encoder: Encoder,
    client: tuple[int, int],
    state: Tensors,
    start: np.ndarray,
    probe: Callable[[Tensors], float | None] = lambda trained: None,
) -> tuple[np.ndarray, ClientResult]:
    """What a client's training comes to, whatever is trained.

    Parameters
    ----------
    client : (int, int)
        Its number, and how many samples it has.
    state : Tensors
        What it kept before.
    start : ndarray
        The global model as a vector.
    probe : callable
        Tests the trained model out of distribution, where that is asked for.
    """
    try:
        update = training()
    except DivergedTraining:
        if not encoder.private:
            raise
        # To leave the client out would tell others that its training diverged.
        return start.copy(), ClientResult(*client, None, 0.0, None, state)
    trained = flatten(update.tensors)
    norm = l2_norm(trained - start) if encoder.private else 0.0
    kept = {} if isinstance(encoder, Measured) else update.state  # the client will train again in this round
    return trained, ClientResult(*client, update.loss, norm, probe(update.tensors), kept, update.measured)


@lru_cache(maxsize=2)
def _loaded(path: str, digest: str) -> Tensors:
    """The model of this round, and that of the round before while its evaluation goes on."""
    return load(Path(path).read_bytes())
