"""The loop over the rounds: draw, train, keep, test."""

import hashlib
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.base.files import exclusive
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import Layout, Tensors, dump
from fedgrove.node.learning.local_update import DivergedTraining
from fedgrove.node.learning.samples import Dataset
from fedgrove.node.methods.training.task_data import TaskFailed
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.checkpoint import RunDirectory
from fedgrove.node.simulation.checks import check_simulated
from fedgrove.node.simulation.draws import draw_of, draws, last_round
from fedgrove.node.simulation.record import Released, RoundResult, RunRecord, ending_of
from fedgrove.node.simulation.subjects import subject_of
from fedgrove.node.simulation.task_folder import OpenedTask
from fedgrove.node.simulation.tasks import RoundTasks
from fedgrove.node.simulation.workers import PendingTest, Workforce

SCRATCH = "scratch"

Progress = Callable[[int, int], None]
"""Is told how many comparisons of how many are done."""


class SimulationRun(ABC):
    """Federated learning of many clients, without chain and store; subclasses say what a round trains.

    Parameters
    ----------
    scenario : Scenario
        What is simulated.
    subject : Dataset or OpenedTask
        The data that are split among the clients, or the scenario's task.
    executor : Executor
        Where tasks run.
    workers : int
        How many it runs at once.
    directory : Path, optional
        Keeps checkpoints and, at the end, ``record.json``; without it nothing is left.
    resume : bool
        Go on from the directory's checkpoint, if there is one.
    progress : callable, optional
        Is told how many private comparisons of how many are done, where there are any.

    Attributes
    ----------
    keep : callable or None
        Is given each round's number and the model that the round left.

    Raises
    ------
    InvalidConfig
        Unknown options of the strategy, data that do not suit the scenario, or a privacy budget for not even one round.
    TaskFailed
        A task of the user's own failed.
    """

    def __init__(
        self,
        scenario: Scenario,
        subject: Dataset | OpenedTask,
        executor: Executor,
        workers: int,
        directory: Path | None = None,
        resume: bool = False,
        progress: Progress | None = None,
    ) -> None:
        check_simulated(scenario)
        self._scenario, self._directory, self._resume, self._progress = scenario, directory, resume, progress
        self.keep: Callable[[int, Tensors], None] | None = None
        self._workforce = Workforce(executor, workers)
        self._models: list[Tensors] = []
        self._rounds: list[RoundResult] = []
        self._last_model: Released | None = None
        self._last = last_round(scenario)
        if not self._last:
            raise InvalidConfig(
                "the privacy budget does not afford a single round: ask for more noise, or a larger ε or δ"
            )
        try:
            self._check_scenario()
            self._subject = subject_of(scenario, subject, self._workforce.reach)
            self._models = [self._subject.first_model(seed) for seed in self._model_seeds()]
            self._layout = Layout.of(self._models[0])
            self._prepare()
        except (InvalidInput, InvalidContent) as fault:
            raise InvalidConfig(str(fault)) from None

    @classmethod
    def draw(cls, out: Path, records: Sequence[RunRecord]) -> None:
        """Draw, into ``out``, what runs from several seeds measured in addition to accuracy and loss."""
        return

    @classmethod
    def summary(cls, record: RunRecord) -> str:
        """What else a run came to, in one sentence for people; empty for nothing."""
        return ""

    @property
    def record(self) -> RunRecord:
        """The rounds so far."""
        digest = hashlib.sha256(dump(self.tensors)).hexdigest()
        return RunRecord(self._scenario, tuple(self._rounds), digest, self._last_model)

    @property
    def tensors(self) -> Tensors:
        """What was trained, after the last round."""
        return self._models[0]

    def run(self) -> Generator[RoundResult, None, None]:
        """Run to the end; give each round's result when its checkpoint is on disk and its models are tested.

        Raises
        ------
        InvalidContent
            The directory's checkpoint is damaged or another run's.
        DivergedTraining
            A client's model left the finite numbers or the bound.
        TaskFailed
            A task of the user's own failed; the message names client, round, and the task's file and line.
        SimulationFailed
            A worker was lost.
        AlreadyInUse
            Another process runs in the directory.
        """
        with own_directory(self._directory) as (directory, scratch):
            self._files = RunDirectory(directory, self._scenario, self._subject.digest)
            checkpoint = self._files.load(self._resume)
            self._tasks = self._begin(directory, scratch)
            if checkpoint is not None:
                self._rounds, self._last_model = list(checkpoint.record.rounds), checkpoint.record.last_model
                first = Layout.of(self._models[0])
                self._restore(checkpoint.tensors)
                if any(Layout.of(model) != first for model in self._models):
                    raise InvalidContent(f"the model in {directory} is of another kind: give another directory")
                self._queue_test()
            yield from self._loop()

    def _loop(self) -> Iterator[RoundResult]:
        for drawn in islice(draws(self._scenario), len(self._rounds), None):
            if self._has_ended:
                break
            if self._workforce.count == 1:  # there is nothing to fill, so the result comes as early as it can
                yield from self._tested()
            try:
                result = self._round(len(self._rounds) + 1, drawn)
            except (DivergedTraining, TaskFailed):
                # What the record holds of a run that ends here must not depend on which tasks came first.
                yield from self._tested()
                raise
            yield from self._tested()
            self._rounds.append(result)
            if self.keep is not None:
                self.keep(result.round, self.tensors)
            self._files.save(self.record, self._kept)
            self._tasks.retire()
            if not self._queue_test():
                yield result
        tested = self._tested()
        evaluated = self._evaluate_last_model()
        if tested or evaluated:
            self._files.save(self.record, self._kept)
        self._files.finish(self.record)
        yield from tested

    @property
    def _has_ended(self) -> bool:
        """Whether the scenario's patience is over."""
        return bool(ending_of(self._scenario, self._rounds))

    def _evaluate_last_model(self) -> bool:
        """Have the clients evaluate the last model, once, as in a federation's last round."""
        if self._last_model is not None or self._scenario.evaluation is None:
            return False
        number = len(self._rounds) + 1
        drawn = draw_of(self._scenario, number)
        if drawn is None:
            return False
        self._last_model = self._of_last_model(number, drawn)
        self._tasks.retire()
        return self._last_model is not None

    def _queue_test(self) -> bool:
        """Have the last round's models tested behind the next training, if that is due."""
        last = self._rounds[-1] if self._rounds else None
        if last is None or last.loss is not None:
            return False
        if last.round != self._last and not self._has_ended and not self._scenario.evaluates(last.round):
            return False
        self._workforce.pending = self._test(last)
        return self._workforce.pending is not None

    def _tested(self) -> list[RoundResult]:
        """The last round's result, if it has been tested since the last call or is yet to be."""
        tested = self._workforce.tested()
        self._rounds[len(self._rounds) - len(tested) :] = tested
        return tested

    # --- what a scenario trains -------------------------------------------------------------------------------------

    @abstractmethod
    def _check_scenario(self) -> None:
        """Raise ValueError if such a scenario is not for this class."""

    def _model_seeds(self) -> list[int]:
        """Seeds of the initial weights, one a model."""
        return [self._scenario.seed]

    @abstractmethod
    def _prepare(self) -> None:
        """Look at data and model before the run; ValueError where they do not suit the scenario."""

    @property
    def _kept(self) -> Tensors:
        """What a checkpoint holds of the models."""
        return self.tensors

    @abstractmethod
    def _begin(self, directory: Path, scratch: Path) -> RoundTasks:
        """Get ready for the first round; the tasks are those that publish a round's models."""

    @abstractmethod
    def _restore(self, kept: Tensors) -> None:
        """Go on from a checkpoint, whose rounds are there already."""

    @abstractmethod
    def _round(self, number: int, drawn: tuple[int, ...]) -> RoundResult:
        """Train a round and put its models in place of the last; its result, not yet tested."""

    def _of_last_model(self, number: int, drawn: tuple[int, ...]) -> Released | None:
        """What these clients' own evaluation of the last model comes to; None where the scenario asks for none."""
        return None

    @abstractmethod
    def _test(self, result: RoundResult) -> PendingTest | None:
        """How a round's models are tested; None where there is nothing to test them on."""


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
