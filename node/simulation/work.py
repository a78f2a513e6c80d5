"""What a worker does: train a few clients and add their models up, or evaluate a slice of the test set.

A task says all that the work depends on, so its result is the same in any process. What is common to many tasks (the
data, the global model, the strategy's preparation of a round) is read or computed once a process and kept.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from fedgrove.node.base.tensors import Layout, Tensors, flatten, load
from fedgrove.node.learning.held_out import marks_of, split
from fedgrove.node.learning.local_update import DivergedTraining, HeldOutSums, LocalUpdate
from fedgrove.node.learning.networks import evaluate, held_out_sums, prepare, train
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.settings import EvaluationSettings, ModelSpec, TrainingSettings
from fedgrove.node.learning.strategies import Strategy
from fedgrove.node.learning.together import train_together
from fedgrove.node.learning.training import diverged
from fedgrove.node.masking.ring import WORD, InvalidVector
from fedgrove.node.privacy.clipping import l2_norm
from fedgrove.node.simulation.data import OnDisk, opened
from fedgrove.node.simulation.held_out import held_out_by
from fedgrove.node.simulation.uploads import ClientPart, Encoder, Measured


@dataclass(frozen=True)
class RunTerms:
    """What is the same in all rounds (see ``Scenario``); ``data`` is the digest of the data."""

    data: str
    spec: ModelSpec
    strategy: Strategy
    training: TrainingSettings
    rounds: int
    seed: int
    device: str = "cpu"
    evaluation: EvaluationSettings | None = None
    together: int = 1


class WorkUnit(Protocol):
    """What a worker is given to do."""

    doing: ClassVar[str]

    @property
    def round(self) -> int: ...

    def perform(self) -> Any: ...


class ClientTraining(WorkUnit, Protocol):
    """A task that trains clients, whose uploads are added up."""

    @property
    def model(self) -> "ModelReference": ...

    @property
    def total(self) -> int: ...

    @property
    def encoder(self) -> Encoder: ...

    @property
    def seed(self) -> int: ...

    def trained(
        self, tensors: Mapping[str, np.ndarray], start: np.ndarray
    ) -> "Iterator[tuple[np.ndarray, ClientResult]]":
        """Each client's trained parameters as a vector, and what else is kept; ``start`` is the model as a vector.

        The trained vector may be written over, the start not.
        """
        ...

    def measured(self, tensors: Mapping[str, np.ndarray]) -> Iterator[tuple[int, HeldOutSums]]:
        """Each client, and its evaluation of a model, where the plan asks for one; nobody trains."""
        ...


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
    """A drawn client: its samples, or their indices into the training samples; what its strategy kept."""

    client: int
    samples: Samples | np.ndarray = field(repr=False)
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
    training, shared : Samples, OnDisk or None
        The samples that indices point into; d_share.
    probe : Samples, OnDisk or None
        Test samples for the accuracy out of distribution; None where it is not asked for.
    sampling_rate : float
        Share of all clients that the round draws.
    """

    doing: ClassVar[str] = "training"

    terms: RunTerms
    model: ModelReference
    round: int
    total: int
    encoder: Encoder
    training: Samples | OnDisk | None = field(repr=False)
    shared: Samples | OnDisk | None = field(repr=False)
    probe: Samples | OnDisk | None = field(repr=False)
    clients: tuple[ClientWork, ...]
    sampling_rate: float = 1.0

    @property
    def seed(self) -> int:
        return self.terms.seed

    def perform(self) -> "PartialSum":
        return train_clients(self)

    def trained(
        self, tensors: Mapping[str, np.ndarray], start: np.ndarray
    ) -> "Iterator[tuple[np.ndarray, ClientResult]]":
        if self.terms.together > 1:
            yield from train_group(self, tensors, start)
        else:
            yield from (train_client(self, work, tensors, start) for work in self.clients)

    def measured(self, tensors: Mapping[str, np.ndarray]) -> Iterator[tuple[int, HeldOutSums]]:
        for work in self.clients:
            _, held_out = split_samples(self.terms, work.client, _samples_of(self, work))
            assert held_out is not None
            yield work.client, held_out_sums(self.terms.spec, tensors, held_out, self.terms.device)


@dataclass(frozen=True)
class MembersEvaluation:
    """Some clients' evaluation of the last model: what they would do before they trained, without the training."""

    doing: ClassVar[str] = "evaluating"

    clients: ClientTraining

    @property
    def round(self) -> int:
        return self.clients.round

    def perform(self) -> tuple[tuple[int, HeldOutSums], ...]:
        return tuple(self.clients.measured(self.clients.model.tensors()))


@dataclass(frozen=True)
class ClientResult:
    """What is kept of a client's round in addition to its share of the sum.

    ``loss`` is that of its last local epoch, ``norm`` the length of its update; the loss is None, and the update zero,
    where a mechanism passes over a training that diverged. ``measured`` is what its evaluation came to before the
    training, where the plan asks for one. ``cut_off`` counts the values that its upload has at the bound instead.
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
    """Test samples ``start`` … ``stop`` − 1 of those given; ``number`` orders the slices."""

    doing: ClassVar[str] = "evaluating"

    terms: RunTerms
    model: ModelReference
    round: int
    number: int
    test: Samples | OnDisk = field(repr=False)
    start: int
    stop: int

    def perform(self) -> "SliceScore":
        return evaluate_slice(self)


@dataclass(frozen=True)
class SliceScore:
    """Right answers, None where a task counts none, and summed loss (cross-entropy in nats) of a slice."""

    number: int
    right: int | None
    loss: float
    samples: int


def perform(task: WorkUnit) -> Any:
    """Do a task.

    Raises
    ------
    DivergedTraining
        A client's training left the finite numbers, or its parameters the bound; it names client and round.
    """
    return task.perform()


def train_clients(task: ClientTraining) -> PartialSum:
    """Train the task's clients one after the other, and sum their models; memory is that of one client and the sum."""
    tensors = task.model.tensors()
    layout, start = Layout.of(tensors), flatten(tensors)
    total = np.zeros(task.encoder.length(layout), WORD)
    results = []
    for vector, result in task.trained(tensors, start):
        turn = ClientPart(result.client, task.round, task.seed, result.samples, task.total, result.measured)
        try:
            cut_off = task.encoder.cut_off(vector, start, layout)
            words = task.encoder.encode(vector, start, layout, turn)
        except InvalidVector as fault:
            raise DivergedTraining(f"client {result.client} in round {task.round}: {fault}") from None
        np.add(total, words, out=total)
        results.append(replace(result, cut_off=cut_off))
    return PartialSum(total, tuple(results))


def evaluate_slice(task: EvaluationTask) -> SliceScore:
    """Test the global model on some of the test samples."""
    test = opened(task.test)
    samples = Samples(np.array(test.x[task.start : task.stop]), np.array(test.y[task.start : task.stop]))
    score = evaluate(task.terms.spec, task.model.tensors(), samples, task.terms.device)
    return SliceScore(task.number, round(score.accuracy * score.samples), score.loss * score.samples, score.samples)


def out_of_distribution_accuracy(counts: np.ndarray, accuracy: np.ndarray) -> float:
    """How well a local model does on the classes that its client has few samples of (FedAom 4.5).

    The paper multiplies each class's accuracy by the inverse of the class's share in the local data, and averages.
    The inverse of a share of zero is undefined, so the share is read as (n_c + 1) / (n + C), and the average as the
    weighted mean Σ w_c·acc_c / Σ w_c with w_c = (n + C) / (n_c + 1), so that it lies in [0, 1].

    Parameters
    ----------
    counts : ndarray
        (C,) the client's samples n_c of each class.
    accuracy : ndarray
        (C,) the model's accuracy on the test samples of each class; NaN leaves out a class that has none.
    """
    present = ~np.isnan(accuracy)
    weights = (counts.sum() + len(counts)) / (counts[present] + 1)
    return float((weights * accuracy[present]).sum() / weights.sum())


def train_client(
    task: TrainingTask, work: ClientWork, tensors: Mapping[str, np.ndarray], start: np.ndarray
) -> tuple[np.ndarray, ClientResult]:
    """One client's trained parameters as a vector, and what else is kept."""
    terms = task.terms
    samples = _samples_of(task, work)
    own, held_out = split_samples(terms, work.client, samples)
    common = (own, _shared(task.shared), terms.strategy, terms.training)

    def training() -> LocalUpdate:
        return train(
            terms.spec,
            tensors,
            *common,
            number=task.round,
            rounds=terms.rounds,
            client=work.client,
            seed=terms.seed,
            state=work.state,
            prepared=_prepared(Preparation(terms, task.round, task.model.digest, task.model, task.shared)),
            held_out=held_out,
            device=terms.device,
            sampling_rate=task.sampling_rate,
        )

    def probe(trained: Tensors) -> float | None:
        return None if task.probe is None else _probe(terms, trained, samples, opened(task.probe))

    return trained_by(training, task.encoder, (work.client, len(samples)), work.state, start, probe)


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


def train_group(
    task: TrainingTask, tensors: Mapping[str, np.ndarray], start: np.ndarray
) -> Iterator[tuple[np.ndarray, ClientResult]]:
    """The task's clients trained together: as ``train_client`` gives each of them."""
    terms, clients = task.terms, [work.client for work in task.clients]
    samples = [_samples_of(task, work) for work in task.clients]
    seeds = {"number": task.round, "seed": terms.seed}
    update = train_together(terms.spec, tensors, samples, clients, terms.strategy, terms.training, **seeds)
    for client, own, vector, loss in zip(clients, samples, update.vectors, update.losses.tolist(), strict=True):
        if math.isfinite(loss):
            norm = l2_norm(vector - start) if task.encoder.private else 0.0
            yield vector, ClientResult(client, len(own), loss, norm, None, {})
        elif task.encoder.private:
            yield start.copy(), ClientResult(client, len(own), None, 0.0, None, {})
        else:
            raise DivergedTraining(diverged(client, task.round, terms.training))


def _samples_of(task: TrainingTask, work: ClientWork) -> Samples:
    return work.samples if isinstance(work.samples, Samples) else opened(task.training).take(work.samples)


def split_samples(terms: RunTerms, client: int, samples: Samples) -> tuple[Samples, Samples | None]:
    """The samples to train on, and those to evaluate on; all, and None, where the plan asks for no evaluation."""
    if terms.evaluation is None:
        return samples, None
    rule = held_out_by(terms.evaluation, terms.seed, client).rule
    found = split(marks_of(samples, rule), rule)
    return samples.take(found.train), samples.take(found.held_out)


def _probe(terms: RunTerms, tensors: Tensors, samples: Samples, test: Samples) -> float:
    """Test a local model class by class."""
    accuracy = np.full(terms.spec.classes, np.nan)
    for label in np.unique(test.y):
        of_label = test.take(np.flatnonzero(test.y == label))
        accuracy[label] = evaluate(terms.spec, tensors, of_label, terms.device).accuracy
    return out_of_distribution_accuracy(np.bincount(samples.y, minlength=terms.spec.classes), accuracy)


@dataclass(frozen=True)
class Preparation:
    """A round's common work; two are the same when terms, round and model are."""

    terms: RunTerms
    round: int
    digest: str
    model: ModelReference = field(compare=False, repr=False)
    shared: Samples | OnDisk | None = field(compare=False, repr=False)


@lru_cache(maxsize=1)
def _prepared(wanted: Preparation) -> object:
    terms = wanted.terms
    shared = _shared(wanted.shared)
    tensors = wanted.model.tensors()
    position = {"number": wanted.round, "rounds": terms.rounds, "device": terms.device}
    return prepare(terms.spec, tensors, shared, terms.strategy, **position)


def _shared(source: Samples | OnDisk | None) -> Samples | None:
    return _copied(source) if isinstance(source, OnDisk) else source


@lru_cache(maxsize=1)
def _copied(place: OnDisk) -> Samples:
    """The shared set; strategies make tensors of it, which torch allows only of arrays that can be written to."""
    samples = opened(place)
    return Samples(np.array(samples.x), np.array(samples.y))


@lru_cache(maxsize=2)
def _loaded(path: str, digest: str) -> Tensors:
    """The model of this round, and that of the round before while its evaluation goes on."""
    return load(Path(path).read_bytes())
