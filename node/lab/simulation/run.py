"""The loop over the rounds: draw, train, add up, evaluate, keep.

A round's model is evaluated in slices that are queued behind the next round's training, so that they fill workers which
have nothing left to train. Its checkpoint is written before that; an evaluation that was cut off is done again.
"""

import hashlib
import math
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from fedgrove.node.base.files import exclusive
from fedgrove.node.base.tensors import Layout, Tensors, dump, flatten, unflatten
from fedgrove.node.lab.simulation.checkpoint import RunDirectory
from fedgrove.node.lab.simulation.data import Dealt, deal_data
from fedgrove.node.lab.simulation.draws import draws, last_round
from fedgrove.node.lab.simulation.executors import reach
from fedgrove.node.lab.simulation.mechanisms import Uploads, mechanism_of
from fedgrove.node.lab.simulation.plan import InvalidPlan, Plan
from fedgrove.node.lab.simulation.record import Released, RoundResult, RunRecord
from fedgrove.node.lab.simulation.tasks import TaskMaker
from fedgrove.node.lab.simulation.uploads import Encoder, Measured
from fedgrove.node.lab.simulation.work import (
    ClientResult,
    EvaluationTask,
    ModelReference,
    PartialSum,
    RunTerms,
    SliceScore,
    TrainingTask,
    perform,
)
from fedgrove.node.learning.models import initial_tensors
from fedgrove.node.learning.samples import Dataset
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.learning.training import DivergedTraining
from fedgrove.node.masking.ring import WORD

SCRATCH = "scratch"

Task = TrainingTask | EvaluationTask


class SimulationFailed(RuntimeError):
    """A worker was lost; the message says in which round and whose work it had. The run can be resumed."""


class Simulation:
    """Federated learning of many clients, without chain and store.

    Parameters
    ----------
    plan : Plan
        What is simulated.
    dataset : Dataset
        The plan's data.
    executor : Executor
        Where tasks run.
    workers : int
        How many it runs at once.
    directory : Path, optional
        Keeps checkpoints and, at the end, ``record.json``; without it nothing is left.
    resume : bool
        Go on from the directory's checkpoint, if there is one.

    Raises
    ------
    InvalidPlan
        Unknown options of the strategy, data that do not suit the plan, or a privacy budget for not even one round.
    """

    def __init__(
        self,
        plan: Plan,
        dataset: Dataset,
        executor: Executor,
        workers: int,
        directory: Path | None = None,
        resume: bool = False,
    ) -> None:
        if plan.clustering is not None:
            raise InvalidPlan("a plan with clustering is simulated by fedgrove.node.lab.simulation.clustered")
        self._plan = plan
        self._executor = executor
        self._workers = workers
        self._directory = directory
        self._resume = resume
        try:
            strategy = make_strategy(plan.strategy, plan.options)
            self._data = deal_data(plan, dataset, strategy.needs_shared)
            spec = self._data.spec
            weights = initial_tensors(spec.name, spec.input_shape, spec.classes, plan.seed)
            self._tensors: Tensors = {**weights, **strategy.initial_extras(weights)}
            self._layout = Layout.of(self._tensors)
            self._mechanism = mechanism_of(plan, self._layout.length)
        except ValueError as fault:
            raise InvalidPlan(str(fault)) from None
        self._last = last_round(plan)
        if not self._last:
            raise InvalidPlan(
                "the privacy budget does not afford a single round: ask for more noise, or a larger ε or δ"
            )
        self._terms = RunTerms(self._data.digest(), spec, strategy, plan.training, plan.rounds, plan.seed, plan.device)
        self._rounds: list[RoundResult] = []

    @property
    def data(self) -> Dealt:
        """The data as they are dealt."""
        return self._data

    @property
    def record(self) -> RunRecord:
        """The rounds so far."""
        return RunRecord(self._plan, tuple(self._rounds), hashlib.sha256(dump(self._tensors)).hexdigest())

    @property
    def tensors(self) -> Tensors:
        """The global model after the last round."""
        return self._tensors

    def run(self) -> Generator[RoundResult, None, None]:
        """Run to the end; give each round's result when its checkpoint is on disk and its model evaluated.

        Raises
        ------
        InvalidCheckpoint
            The directory's checkpoint is damaged or another run's.
        DivergedTraining
            A client's model left the finite numbers or the bound.
        SimulationFailed
            A worker was lost.
        AlreadyInUse
            Another process runs in the directory.
        """
        with own_directory(self._directory) as (directory, scratch):
            files = RunDirectory(directory, self._plan, self._terms.data)
            checkpoint = files.load(self._resume, self._layout)
            if checkpoint is not None:
                self._rounds, self._tensors = list(checkpoint.record.rounds), checkpoint.tensors
                self._mechanism.resume(self._rounds)
            tasks = TaskMaker(self._plan, self._terms, self._data, reach(self._executor), scratch)
            yield from self._loop(files, tasks)

    def _loop(self, files: RunDirectory, tasks: TaskMaker) -> Iterator[RoundResult]:
        model = tasks.model(self._tensors)
        for drawn in islice(draws(self._plan), len(self._rounds), None):
            sums = RoundSum(self._mechanism.encoder(len(self._rounds) + 1, len(drawn)), self._layout, drawn)
            yield from self._round(files, tasks, model, sums)
            if isinstance(sums.encoder, Measured):
                encoder = self._mechanism.encoder(len(self._rounds) + 1, len(drawn), sums.results)
                sums = RoundSum(encoder, self._layout, drawn)
                yield from self._round(files, tasks, model, sums)
            self._close(sums)
            files.save(self.record, self._tensors)
            tasks.discard(model)
            model = tasks.model(self._tensors)
            if not self._evaluation_is_due:
                yield self._rounds[-1]
        if not self._evaluation_is_due:
            files.finish(self.record)
            return
        for result in self._work(tasks.evaluation(self._last, model), Scores(tasks.slices), None, files):
            files.save(self.record, self._tensors)
            files.finish(self.record)
            yield result

    @property
    def _evaluation_is_due(self) -> bool:
        last = self._rounds[-1] if self._rounds else None
        if last is None or last.accuracy is not None:
            return False
        return last.round == self._last or self._plan.evaluates(last.round)

    def _round(
        self, files: RunDirectory, tasks: TaskMaker, model: ModelReference, sums: "RoundSum"
    ) -> Iterator[RoundResult]:
        """Train a round's clients on ``model`` and evaluate it, if that is due; give the round before when it is."""
        number = len(self._rounds) + 1
        upload = sums.clients, sums.encoder
        training = tasks.training(number, model, *upload, self._workers, 4 * self._layout.length, files.state)
        if not self._evaluation_is_due:
            yield from self._work(training, None, sums, files)
            return
        evaluation = tasks.evaluation(number - 1, model)
        # With a single worker there is nothing to fill, so the result comes as early as it can.
        order: Iterable[Task] = chain(training, evaluation) if self._workers > 1 else chain(evaluation, training)
        try:
            yield from self._work(order, Scores(tasks.slices), sums, files)
        except DivergedTraining:
            # What the record holds of a run that ends here must not depend on which tasks came first.
            if self._evaluation_is_due:
                yield from self._work(tasks.evaluation(number - 1, model), Scores(tasks.slices), None, files)
            raise

    def _work(
        self, tasks: Iterable[Task], scores: "Scores | None", sums: "RoundSum | None", files: RunDirectory
    ) -> Iterator[RoundResult]:
        for result in windowed(self._executor, tasks, 2 * self._workers):
            if isinstance(result, PartialSum):
                for client in result.results:
                    files.keep_state(client.client, len(self._rounds) + 1, client.state)
                if sums is not None:
                    sums.add(result)
            elif scores is not None and scores.add(result):
                accuracy, loss = scores.mean()
                self._rounds[-1] = replace(self._rounds[-1], accuracy=accuracy, loss=loss)
                yield self._rounds[-1]

    def _close(self, sums: "RoundSum") -> None:
        number = len(self._rounds) + 1
        vector, released = self._mechanism.close(Uploads(number, sums.words, sums.results, flatten(self._tensors)))
        self._tensors = unflatten(vector, self._layout)
        self._rounds.append(sums.result(number, released))


@contextmanager
def own_directory(directory: Path | None) -> Iterator[tuple[Path, Path]]:
    """A run's directory (None takes one that is removed at the end), and an empty one in it for what workers read.

    Raises
    ------
    AlreadyInUse
        Another process runs in the directory.
    """
    with ExitStack() as stack:
        if directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedgrove-")))
        stack.enter_context(exclusive(directory))
        scratch = directory / SCRATCH
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        yield directory, scratch


class RoundSum:
    """Σ of a round's uploads, and what is told of its clients; the order of arrival leaves no trace."""

    def __init__(self, encoder: Encoder, layout: Layout, clients: tuple[int, ...]) -> None:
        self.encoder = encoder
        self.clients = clients
        self.words = np.zeros(encoder.length(layout), WORD)
        self._results: dict[int, ClientResult] = {}

    def add(self, partial: PartialSum) -> None:
        """Take in a task's result."""
        np.add(self.words, partial.words, out=self.words)
        self._results.update((result.client, replace(result, state={})) for result in partial.results)

    @property
    def results(self) -> list[ClientResult]:
        """Of all clients, ascending."""
        return [self._results[client] for client in self.clients]

    def result(self, number: int, released: Released | None) -> RoundResult:
        """The round's result, not yet evaluated."""
        return replace(round_result(number, self.results), privacy=released)


def round_result(number: int, results: Sequence[ClientResult]) -> RoundResult:
    """What is told of a round's clients, ascending; not yet evaluated."""
    trained = [(result.loss, result.samples) for result in results if result.loss is not None]
    samples = sum(count for _, count in trained)
    loss = math.fsum(each * count for each, count in trained) / samples if trained else None
    probed = [result.ood_accuracy for result in results if result.ood_accuracy is not None]
    ood = math.fsum(probed) / len(probed) if probed else None
    total = sum(result.samples for result in results)
    return RoundResult(number, None, None, loss, tuple(result.client for result in results), total, ood)


class Scores:
    """The slices of one evaluation."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._slices: dict[int, SliceScore] = {}

    def add(self, score: SliceScore) -> bool:
        """Take in a slice; whether it was the last."""
        self._slices[score.number] = score
        return len(self._slices) == self._count

    def mean(self) -> tuple[float, float]:
        """Accuracy and mean cross-entropy."""
        slices = self._slices.values()
        samples = sum(part.samples for part in slices)
        return sum(part.right for part in slices) / samples, math.fsum(part.loss for part in slices) / samples


def windowed(
    executor: Executor, tasks: Iterable[Any], limit: int, work: Callable[[Any], Any] | None = None
) -> Iterator[Any]:
    """Run tasks with at most ``limit`` of them in flight; give results as they come.

    Parameters
    ----------
    work : callable, optional
        Does a task in a worker; ``perform`` unless there are tasks of other kinds.

    Raises
    ------
    SimulationFailed
        The executor lost a worker.
    """
    running: dict[Future, Any] = {}
    handed_in: list = []
    try:
        for task in tasks:
            while len(running) >= limit:
                yield from _finished(running)
            handed_in = [task]
            running[executor.submit(work or perform, task)] = task
        while running:
            yield from _finished(running)
    except Exception as fault:
        if not _is_loss(fault):
            raise
        # Where a worker was lost while nothing ran, it is the task handed in that finds out.
        raise SimulationFailed(_lost(running.values() or handed_in, fault)) from fault
    finally:
        for future in running:
            future.cancel()


def _finished(running: dict[Future, Any]) -> Iterator[Any]:
    done, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        result = future.result()
        del running[future]
        yield result


def _is_loss(fault: Exception) -> bool:
    """Whether it is the executor's, or the file system's, and not the task's."""
    return isinstance(fault, BrokenExecutor | CancelledError | OSError) or type(fault).__module__.startswith(
        "distributed"
    )


def _lost(tasks: Iterable[Any], fault: Exception) -> str:
    work = list(tasks)
    clients = sorted(client.client for task in work if isinstance(task, TrainingTask) for client in task.clients)
    rounds = [task.round for task in work]
    named = ", ".join(map(str, clients[:10])) + (f" and {len(clients) - 10} more" if len(clients) > 10 else "")
    where = f"training client{'s' * (len(clients) > 1)} {named}" if clients else work[0].doing
    reason = str(fault) or type(fault).__name__
    return f"a worker was lost in round {max(rounds, default=0)} while {where}: {reason}"
