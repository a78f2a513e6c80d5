"""Runs of a scenario from its options to what they leave, for the command and for ``fedgrove.simulate``."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.files import write_atomically
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.samples import Dataset
from fedgrove.node.scenario.checks import check_data
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.checkpoint import check_directory
from fedgrove.node.simulation.checks import check_simulated
from fedgrove.node.simulation.executors import open_executor
from fedgrove.node.simulation.record import RoundResult, RunRecord, folder_of

if TYPE_CHECKING:  # it brings torch, which this process loads while its workers do
    from fedgrove.node.simulation.task_folder import OpenedTask

SCENARIO = "scenario.toml"
SUITED = "auto"
"""The executor's name for processes where there is much to train, else this process."""
MUCH = 50_000
"""Passes over a sample from which on a run has processes of its own: fewer take no longer than processes to start.

A pass over a digit takes about 0.1 ms.
"""
_DIGITS = 1_437
_PASSES_PER_COMPARISON = 200  # a private comparison of two clients takes about 20 ms


@dataclass(frozen=True)
class Runs:
    """Runs of one scenario from several seeds, and where they are kept.

    Attributes
    ----------
    seeds : sequence of int
        One run each; empty takes the scenario's own.
    out : Path or None
        Keeps checkpoints, records and figures; None keeps nothing.
    resume : bool
        Go on from what is there.
    """

    scenario: Scenario
    seeds: Sequence[int] = ()
    out: Path | None = None
    resume: bool = False

    @property
    def scenarios(self) -> list[Scenario]:
        """The scenario from each seed."""
        return [self.scenario.with_seed(seed) for seed in self.seeds] or [self.scenario]


@dataclass(frozen=True)
class SimulatedRun:
    """A run that has ended, the seconds it took here, and the model that it left."""

    record: RunRecord
    seconds: float
    model: Tensors


class Watcher(Protocol):
    """Who is told how the runs go on."""

    def begin(self, label: str, rounds: int) -> None:
        """A run of this many rounds begins."""
        ...

    def advance(self, result: RoundResult) -> None:
        """A round of it has ended."""
        ...

    def compared(self, done: int, total: int) -> None:
        """Take in how many of the private comparisons are done; they come before the first round."""
        ...


class SimulationSession:
    """Data and workers, ready for the runs of a runs."""

    def __init__(self, runs: Runs, pool: Executor, workers: int, subject: "Dataset | OpenedTask") -> None:
        self._runs, self._pool, self._workers, self._subject = runs, pool, workers, subject

    def run(
        self, scenario: Scenario, watcher: Watcher, keep: Callable[[int, Tensors], None] | None = None
    ) -> SimulatedRun:
        """Run one scenario of these runs; raises as ``SimulationRun`` and its ``run``.

        Parameters
        ----------
        keep : callable, optional
            Is given each round's number and the model that the round left.
        """
        from fedgrove.node.simulation.kinds import simulation_of

        started, directory = time.monotonic(), run_directory(self._runs, scenario)
        simulation = simulation_of(
            scenario, self._subject, self._pool, self._workers, directory, self._runs.resume, watcher.compared
        )
        simulation.keep = keep
        watcher.begin(f"seed {scenario.seed}", scenario.rounds)
        for result in simulation.run():
            watcher.advance(result)
        if directory is not None:
            write_atomically(directory / SCENARIO, scenario.without_machine().to_toml())
        return SimulatedRun(simulation.record, round(time.monotonic() - started, 3), simulation.tensors)

    def draw(self, records: Sequence[RunRecord]) -> None:
        """Draw accuracy over the rounds, the partition of the first seed, and what else the scenario measures."""
        from fedgrove.node.simulation import figures
        from fedgrove.node.simulation.data import deal_data
        from fedgrove.node.simulation.kinds import kind_of
        from fedgrove.node.simulation.task_folder import OpenedTask

        scenario, out = records[0].scenario, self._runs.out
        if out is None:
            return

        def curves(what: str, label: str, target: float | None = None) -> None:
            draw = partial(figures.draw_curves, groups={label: records}, what=what, target=target)
            figures.write_figure(out / f"{what}.png", draw)

        if all(record.rounds[-1].accuracy is not None for record in records):
            curves("accuracy", scenario.strategy.name, target=0.9)
        if not isinstance(self._subject, OpenedTask):
            data = deal_data(scenario, self._subject, with_shared=False)
            partition = partial(figures.draw_partition, labels=data.training.y, parts=data.parts)
            figures.write_figure(out / "partition.png", partition)
        kind_of(scenario).draw(out, records)
        if any(result.ood_accuracy is not None for result in records[0].rounds):
            curves("ood", scenario.strategy.name)


def run_directory(runs: Runs, scenario: Scenario) -> Path | None:
    """Where a run of these runs is kept; None where nothing is."""
    return folder_of(runs.out, scenario) if runs.out is not None else None


@contextmanager
def open_session(runs: Runs) -> Iterator[SimulationSession]:
    """Get the directory, the workers and the data ready; processes end behind it.

    Raises
    ------
    InvalidConfig, InvalidBundle, DatasetError, TaskFailed, SandboxUnavailable
        The scenario, the task or the data are at fault, or nothing contains a task's code here.
    InvalidContent
        The directory holds another run, or cannot be made.
    InvalidInput
        There is no such executor.
    """
    check_simulated(runs.scenario)
    if runs.out is not None:
        for scenario in runs.scenarios:
            check_directory(folder_of(runs.out, scenario), scenario, runs.resume)
        _make(runs.out)
    with ExitStack() as stack:
        task = stack.enter_context(_opened_task(runs)) if runs.scenario.task is not None else None
        portable = runs.scenario.training.portable and task is None
        pool, workers = stack.enter_context(
            open_executor(executor_for(runs, task), runs.scenario.run.workers, portable)
        )
        # A data set is read while the processes load torch.
        yield SimulationSession(runs, pool, workers, task or _read(runs))


def executor_for(runs: Runs, task: "OpenedTask | None") -> str:
    """The executor that a scenario names, or the one that suits what its scenarios train."""
    if runs.scenario.run.executor != SUITED:
        return runs.scenario.run.executor
    few = not runs.scenario.run.workers and all(_passes(scenario, task) < MUCH for scenario in runs.scenarios)
    return "inline" if few else "processes"


def _passes(scenario: Scenario, task: "OpenedTask | None") -> float:
    """How often a scenario's clients train on a sample, comparisons of clients included.

    Infinite where the number says little of the work: with larger images, and with frozen bases.
    """
    samples: float = _DIGITS if scenario.cast.dataset == "digits" else math.inf
    if task is not None:
        samples = math.inf if task.place.bases else sum(each.description.samples for each in task.clients)
    return (
        scenario.rounds * scenario.federation.sampling_rate * samples * scenario.training.epochs
        + _PASSES_PER_COMPARISON * scenario.method.comparisons(scenario.clients)
    )


def _opened_task(runs: Runs) -> AbstractContextManager["OpenedTask"]:
    """The user's own task, whose processes end behind it."""
    from fedgrove.node.simulation.task_folder import opened_task

    return opened_task(runs.scenario)


def _read(runs: Runs) -> Dataset:
    from fedgrove.node.learning.datasets import load_dataset

    folder = runs.scenario.run.data_dir
    dataset = load_dataset(runs.scenario.cast.dataset, Path(folder) if folder else None)
    check_data(runs.scenario, dataset)
    return dataset


def _make(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise InvalidContent(f"cannot make the directory {out}: {fault.strerror}") from None
