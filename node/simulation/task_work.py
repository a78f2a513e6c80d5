"""What a worker does with a task of the user's own: its code trains clients, or evaluates, in a sandbox.

A worker keeps one process of a sandbox warm, which forks for each client and round; nothing of the task's code runs in
the worker itself.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from fedgrove.node.learning.local_update import HeldOutSums, RoundPosition
from fedgrove.node.learning.settings import EvaluationSettings
from fedgrove.node.methods.training.task_data import Description, TaskData, TaskFailed, TaskProcess, TaskTerms
from fedgrove.node.methods.training.task_process import open_process
from fedgrove.node.simulation.held_out import held_out_by
from fedgrove.node.simulation.work import (
    ClientResult,
    ClientWork,
    EvaluationTask,
    RunTerms,
    SliceScore,
    TrainingTask,
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
class SandboxTerms(RunTerms):
    """The terms of a user's own task, trained in sandboxes; ``rounds`` and ``evaluation`` are those of the scenario."""

    place: TaskPlace
    task: TaskTerms
    rounds: int
    evaluation: EvaluationSettings | None = None

    @property
    def seed(self) -> int:
        return self.task.seed

    def train(
        self, task: TrainingTask, work: ClientWork, tensors: Mapping[str, np.ndarray], start: np.ndarray
    ) -> tuple[np.ndarray, ClientResult]:
        data = self._open(work)
        position: RoundPosition = {"number": task.round, "rounds": self.rounds, "seed": self.seed}
        position["sampling_rate"] = task.sampling_rate
        training = partial(data.train, dict(tensors), position, work.client, work.state)
        with _naming(f"client {work.client} in round {task.round}"):
            return trained_by(training, task.encoder, (work.client, len(data)), work.state, start)

    def measured(self, task: TrainingTask, work: ClientWork, tensors: Mapping[str, np.ndarray]) -> HeldOutSums:
        with _naming(f"client {work.client} in round {task.round}"):
            return self._open(work).held_out_sums(dict(tensors), work.state)

    def score(self, task: EvaluationTask, tensors: Mapping[str, np.ndarray]) -> SliceScore:
        data = task.part.open(self.place, self.task)
        with _naming(f"the evaluation of round {task.round}"):
            found = data.evaluate(dict(tensors))
        right = None if found.accuracy is None else (round(found.accuracy * found.samples),)
        return SliceScore(task.number, right, (found.samples,), found.loss * found.samples)

    def _open(self, work: ClientWork) -> TaskData:
        if self.evaluation is None:
            return work.samples.open(self.place, self.task)
        return work.samples.open_evaluating(self.place, self.task, self.evaluation, work.client)


@contextmanager
def _naming(what: str) -> Iterator[None]:
    """Say in whose work a task failed."""
    try:
        yield
    except TaskFailed as fault:
        raise TaskFailed(f"{what}: {fault}") from None


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
