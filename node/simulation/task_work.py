"""What a worker does with a task of the user's own: its code trains clients, or evaluates, in a sandbox.

A worker keeps one process of a sandbox warm, which forks for each client and round; nothing of the task's code runs in
the worker itself.
"""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.local_update import HeldOutSums, RoundPosition
from fedgrove.node.learning.settings import EvaluationSettings
from fedgrove.node.methods.training.task_data import Description, TaskData, TaskFailed, TaskProcess, TaskTerms
from fedgrove.node.methods.training.task_process import open_process
from fedgrove.node.simulation.held_out import held_out_by
from fedgrove.node.simulation.uploads import Encoder
from fedgrove.node.simulation.work import (
    ClientResult,
    ModelReference,
    PartialSum,
    SliceScore,
    train_clients,
    trained_by,
)
from fedgrove.node.tasks.sandbox.settings import Mode, Visible


@dataclass(frozen=True)
class TaskPlace:
    """Paths of a packed task, of the data and of bases by name, and how the task's code is contained and trains."""

    folder: str
    source: str
    mode: Mode
    bases: tuple[tuple[str, str], ...] = ()
    portable: bool = False


@dataclass(frozen=True)
class TaskRound:
    """What is the same for all clients of a round; ``rounds`` and ``evaluation`` are those of the plan.

    ``sampling_rate`` is the share of all clients that the round draws.
    """

    place: TaskPlace
    terms: TaskTerms
    rounds: int
    round: int
    model: ModelReference
    evaluation: EvaluationSettings | None = None
    sampling_rate: float = 1.0


@dataclass(frozen=True)
class OwnSource:
    """Which of the data are a client's: a part of what all share, as (index, clients), or a source in their folder."""

    description: Description = field(repr=False)
    part: tuple[int, int] | None = None
    inside: str = ""

    def open(self, place: TaskPlace, terms: TaskTerms) -> TaskData:
        """The task on these data, in this process's sandbox."""
        return TaskData(terms, process_of(place), self.part, self.inside, self.description)

    def open_evaluating(
        self, place: TaskPlace, terms: TaskTerms, settings: EvaluationSettings, client: int
    ) -> TaskData:
        """The same, of a client that evaluates each round's model before it trains."""
        count = settings.samples_of(self.description.samples)
        described = self.description if count is None else replace(self.description, held_out=count)
        return self.open(place, terms).evaluating(held_out_by(settings, terms.seed, client), described)


@dataclass(frozen=True)
class TaskClient:
    """A drawn client, its data, and what it kept from its last round."""

    client: int
    data: OwnSource
    state: Tensors = field(repr=False)


@dataclass(frozen=True)
class TaskTraining:
    """Some of a round's clients; ``total`` samples have all that were drawn."""

    doing: ClassVar[str] = "training"

    common: TaskRound
    total: int
    encoder: Encoder
    clients: tuple[TaskClient, ...]

    @property
    def round(self) -> int:
        return self.common.round

    @property
    def model(self) -> ModelReference:
        return self.common.model

    @property
    def seed(self) -> int:
        return self.common.terms.seed

    def perform(self) -> PartialSum:
        return train_clients(self)

    def trained(
        self, tensors: Mapping[str, np.ndarray], start: np.ndarray
    ) -> Iterator[tuple[np.ndarray, ClientResult]]:
        for work in self.clients:
            yield self._train(work, dict(tensors), start)

    def measured(self, tensors: Mapping[str, np.ndarray]) -> Iterator[tuple[int, HeldOutSums]]:
        for work in self.clients:
            try:
                yield work.client, self._open(work).held_out_sums(dict(tensors), work.state)
            except TaskFailed as fault:
                raise self._named(work, fault) from None

    def _train(self, work: TaskClient, tensors: Tensors, start: np.ndarray) -> tuple[np.ndarray, ClientResult]:
        common, data = self.common, self._open(work)
        position: RoundPosition = {"number": self.round, "rounds": common.rounds, "seed": self.seed}
        position["sampling_rate"] = common.sampling_rate
        training = partial(data.train, tensors, position, work.client, work.state)
        try:
            return trained_by(training, self.encoder, (work.client, len(data)), work.state, start)
        except TaskFailed as fault:
            raise self._named(work, fault) from None

    def _named(self, work: TaskClient, fault: TaskFailed) -> TaskFailed:
        return TaskFailed(f"client {work.client} in round {self.round}: {fault}")

    def _open(self, work: TaskClient) -> TaskData:
        place, terms, settings = self.common.place, self.common.terms, self.common.evaluation
        if settings is None:
            return work.data.open(place, terms)
        return work.data.open_evaluating(place, terms, settings, work.client)


@dataclass(frozen=True)
class TaskEvaluation:
    """A test of a round's model on what a source holds out; ``number`` orders the sources."""

    doing: ClassVar[str] = "evaluating"

    common: TaskRound
    number: int
    data: OwnSource

    @property
    def round(self) -> int:
        return self.common.round

    def perform(self) -> SliceScore:
        data = self.data.open(self.common.place, self.common.terms)
        try:
            found = data.evaluate(dict(self.common.model.tensors()))
        except TaskFailed as fault:
            raise TaskFailed(f"the evaluation of round {self.round}: {fault}") from None
        right = None if found.accuracy is None else round(found.accuracy * found.samples)
        return SliceScore(self.number, right, found.loss * found.samples, found.samples)


_lock = threading.Lock()
_warm: dict[TaskPlace, TaskProcess] = {}


def process_of(place: TaskPlace) -> TaskProcess:
    """This process's sandbox for a task and its data; one is kept, until another is asked for."""
    with _lock:
        if place not in _warm:
            _end_all()
            bases = {name: Path(path) for name, path in place.bases}
            visible = Visible(Path(place.folder), Path(place.source), bases)
            _warm[place] = open_process(place.mode, visible, portable=place.portable)
        return _warm[place]


def end_process() -> None:
    """End the sandbox that this process keeps, if there is one; the next use starts another."""
    with _lock:
        _end_all()


def _end_all() -> None:
    for process in _warm.values():
        process.close()
    _warm.clear()
