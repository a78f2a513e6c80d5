"""What a worker does with a shipped network: train clients one by one or together, test, probe.

What is common to many tasks (the data, the strategy's preparation of a round) is read or computed once a process.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.held_out import marks_of, split
from fedgrove.node.learning.local_update import DivergedTraining, HeldOutSums, LocalUpdate
from fedgrove.node.learning.networks import evaluate, held_out_sums, prepare, train
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.settings import EvaluationSettings, ModelSpec, TrainingSettings
from fedgrove.node.learning.strategies import Strategy
from fedgrove.node.learning.together import train_together
from fedgrove.node.learning.training import diverged
from fedgrove.node.privacy.clipping import l2_norm
from fedgrove.node.simulation.data import OnDisk, opened
from fedgrove.node.simulation.held_out import held_out_by
from fedgrove.node.simulation.work import (
    ClientResult,
    ClientWork,
    EvaluationTask,
    ModelReference,
    RunTerms,
    SliceScore,
    TrainingTask,
    trained_by,
)


@dataclass(frozen=True)
class NetworkTerms(RunTerms):
    """The terms of a shipped network (see ``Scenario``); ``data`` is the digest of the data."""

    data: str
    spec: ModelSpec
    strategy: Strategy
    training: TrainingSettings
    rounds: int
    seed: int
    device: str = "cpu"
    evaluation: EvaluationSettings | None = None
    together: int = 1

    def trained(
        self, task: TrainingTask, tensors: Mapping[str, np.ndarray], start: np.ndarray
    ) -> Iterator[tuple[np.ndarray, ClientResult]]:
        return super().trained(task, tensors, start) if self.together == 1 else self._group(task, tensors, start)

    def train(
        self, task: TrainingTask, work: ClientWork, tensors: Mapping[str, np.ndarray], start: np.ndarray
    ) -> tuple[np.ndarray, ClientResult]:
        samples = own_samples(work.samples, task.training)
        own, held_out = self.split(work.client, samples)
        common = (own, _shared(task.shared), self.strategy, self.training)

        def training() -> LocalUpdate:
            return train(
                self.spec,
                tensors,
                *common,
                number=task.round,
                rounds=self.rounds,
                client=work.client,
                seed=self.seed,
                state=work.state,
                prepared=_prepared(Preparation(self, task.round, task.model.digest, task.model, task.shared)),
                held_out=held_out,
                device=self.device,
                sampling_rate=task.sampling_rate,
            )

        def probe(trained: Tensors) -> float | None:
            return None if task.probe is None else self._probe(trained, samples, opened(task.probe))

        return trained_by(training, task.encoder, (work.client, len(samples)), work.state, start, probe)

    def measured(self, task: TrainingTask, work: ClientWork, tensors: Mapping[str, np.ndarray]) -> HeldOutSums:
        _, held_out = self.split(work.client, own_samples(work.samples, task.training))
        assert held_out is not None
        return held_out_sums(self.spec, tensors, held_out, self.device)

    def score(self, task: EvaluationTask, tensors: Mapping[str, np.ndarray]) -> SliceScore:
        score = evaluate(self.spec, tensors, task.part.read(), self.device)
        return SliceScore(task.number, score.right, score.per_label, score.loss * score.samples)

    def split(self, client: int, samples: Samples) -> tuple[Samples, Samples | None]:
        """The samples to train on, and those to evaluate on; all, and None, where there is no evaluation."""
        if self.evaluation is None:
            return samples, None
        rule = held_out_by(self.evaluation, self.seed, client).rule
        found = split(marks_of(samples, rule), rule)
        return samples.take(found.train), samples.take(found.held_out)

    def _group(
        self, task: TrainingTask, tensors: Mapping[str, np.ndarray], start: np.ndarray
    ) -> Iterator[tuple[np.ndarray, ClientResult]]:
        """The task's clients trained together: as ``train`` gives each of them."""
        clients = [work.client for work in task.clients]
        samples = [own_samples(work.samples, task.training) for work in task.clients]
        seeds = {"number": task.round, "seed": self.seed}
        update = train_together(self.spec, tensors, samples, clients, self.strategy, self.training, **seeds)
        for client, own, vector, loss in zip(clients, samples, update.vectors, update.losses.tolist(), strict=True):
            if math.isfinite(loss):
                norm = l2_norm(vector - start) if task.encoder.private else 0.0
                yield vector, ClientResult(client, len(own), loss, norm, None, {})
            elif task.encoder.private:
                yield start.copy(), ClientResult(client, len(own), None, 0.0, None, {})
            else:
                raise DivergedTraining(diverged(client, task.round, self.training))

    def _probe(self, tensors: Tensors, samples: Samples, test: Samples) -> float:
        """Test a local model class by class."""
        accuracy = np.full(self.spec.classes, np.nan)
        for label in np.unique(test.y):
            of_label = test.take(np.flatnonzero(test.y == label))
            accuracy[label] = evaluate(self.spec, tensors, of_label, self.device).accuracy
        return out_of_distribution_accuracy(np.bincount(samples.y, minlength=self.spec.classes), accuracy)


def terms_of(task: TrainingTask | EvaluationTask) -> NetworkTerms:
    """The terms of a task of a shipped network."""
    assert isinstance(task.terms, NetworkTerms)
    return task.terms


def own_samples(samples: Samples | np.ndarray, training: Samples | OnDisk | None) -> Samples:
    """The samples of a client, that come with the work or are named in it by their indices."""
    return samples if isinstance(samples, Samples) else opened(training).take(samples)


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


@dataclass(frozen=True)
class Preparation:
    """A round's common work; two are the same when terms, round and model are."""

    terms: NetworkTerms
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
