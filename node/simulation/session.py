"""One or several runs of a plan from its options to what they leave, for the command and for ``fedgrove.simulate``."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from fedgrove.node.base.files import write_atomically
from fedgrove.node.base.processor import UnsuitedProcessor, check_processor
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.samples import Dataset
from fedgrove.node.methods.procfl.settings import ProCflSettings
from fedgrove.node.simulation.checkpoint import InvalidCheckpoint, check_directory
from fedgrove.node.simulation.executors import open_executor
from fedgrove.node.simulation.plan import InvalidPlan, Plan
from fedgrove.node.simulation.plan_file import GivenPlan, plan_bytes
from fedgrove.node.simulation.record import RoundResult, RunRecord
from fedgrove.node.tasks.sandbox.modes import AUTO, choose

if TYPE_CHECKING:  # it brings torch, which this process loads while its workers do
    from fedgrove.node.simulation.task_folder import OpenedTask

PLAN = "plan.toml"
SUITED = "auto"
"""The executor's name for processes where there is much to train, else this process."""
MUCH = 50_000
"""Passes over a sample from which on a run has processes of its own: fewer take no longer than processes to start.

A pass over a digit takes about 0.1 ms.
"""
_DIGITS = 1_437
_PASSES_PER_COMPARISON = 200  # a private comparison of two clients takes about 20 ms


@dataclass(frozen=True)
class SimulationRequest:
    """What is asked for: the plan as it was given, one for each seed, and where to run and keep it.

    Attributes
    ----------
    given : GivenPlan
    plans : sequence of Plan
        They differ in their seeds.
    data_dir : Path or None
        Folder of the data sets.
    sandbox : str
        How a task's code is contained.
    executor, workers : str, int
        As ``open_executor`` takes them; ``auto`` is processes where that many are asked for, or where they pay.
    out : Path or None
        Keeps checkpoints, records and figures; None keeps nothing.
    resume : bool
        Go on from what is there.
    bases : mapping
        Paths of a task's frozen bases by name.
    """

    given: GivenPlan
    plans: Sequence[Plan]
    data_dir: Path | None = None
    sandbox: str = AUTO
    executor: str = "inline"
    workers: int = 0
    out: Path | None = None
    resume: bool = False
    bases: Mapping[str, Path] = field(default_factory=dict)


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
    """Data and workers, ready for the runs of a request."""

    def __init__(
        self, request: SimulationRequest, pool: Executor, workers: int, subject: "Dataset | OpenedTask"
    ) -> None:
        self._request, self._pool, self._workers, self._subject = request, pool, workers, subject

    def run(self, plan: Plan, watcher: Watcher, keep: Callable[[int, Tensors], None] | None = None) -> SimulatedRun:
        """Run one plan of the request; raises as ``SimulationRun`` and its ``run``.

        Parameters
        ----------
        keep : callable, optional
            Is given each round's number and the model that the round left.
        """
        from fedgrove.node.simulation.kinds import simulation_of

        started, directory = time.monotonic(), run_directory(self._request, plan)
        simulation = simulation_of(
            plan, self._subject, self._pool, self._workers, directory, self._request.resume, watcher.compared
        )
        simulation.keep = keep
        watcher.begin(f"seed {plan.seed}", plan.rounds)
        for result in simulation.run():
            watcher.advance(result)
        if directory is not None:
            write_atomically(directory / PLAN, plan_bytes(plan))
        return SimulatedRun(simulation.record, round(time.monotonic() - started, 3), simulation.tensors)

    def draw(self, records: Sequence[RunRecord]) -> None:
        """Draw accuracy over the rounds, the partition of the first seed, and what else the plan measures.

        Raises
        ------
        FiguresUnavailable
            There is no matplotlib.
        """
        from fedgrove.node.simulation import figures
        from fedgrove.node.simulation.data import deal_data
        from fedgrove.node.simulation.task_folder import OpenedTask

        plan, out = records[0].plan, self._request.out
        if out is None:
            return
        if all(record.rounds[-1].accuracy is not None for record in records):
            figures.accuracy_figure({plan.strategy: records}, out / "accuracy.png")
        if not isinstance(self._subject, OpenedTask):
            data = deal_data(plan, self._subject, with_shared=False)
            figures.partition_figure(data.training.y, data.parts, out / "partition.png")
        if plan.clustering is not None:
            figures.personal_figure({plan.clustering.method: records}, out / "personal.png")
        if isinstance(plan.clustering, ProCflSettings):
            for record in records:
                _draw_clusters(out / _name(record.plan))
        if any(result.ood_accuracy is not None for result in records[0].rounds):
            figures.ood_figure({plan.strategy: records}, out / "ood.png")


def run_directory(request: SimulationRequest, plan: Plan) -> Path | None:
    """Where a run of the request is kept; None where nothing is."""
    return request.out / _name(plan) if request.out is not None else None


@contextmanager
def open_session(request: SimulationRequest) -> Iterator[SimulationSession]:
    """Get the directory, the workers and the data ready; processes end behind it.

    Raises
    ------
    InvalidPlan, InvalidBundle, DatasetError, TaskFailed, SandboxUnavailable
        The plan, the task or the data are at fault, or nothing contains a task's code here.
    InvalidCheckpoint
        The directory holds another run, or cannot be made.
    NoExecutor
        There is no such executor.
    """
    for plan in request.plans:
        try:
            check_processor(plan.training.portable, plan.training.precision, plan.device)
        except UnsuitedProcessor as fault:
            raise InvalidPlan(str(fault)) from None
    if request.out is not None:
        for plan in request.plans:
            check_directory(request.out / _name(plan), plan, request.resume)
        _make(request.out)
    with ExitStack() as stack:
        task = stack.enter_context(_opened_task(request)) if request.plans[0].task is not None else None
        portable = any(plan.training.portable for plan in request.plans) and task is None
        pool, workers = stack.enter_context(open_executor(executor_for(request, task), request.workers, portable))
        # A data set is read while the processes load torch.
        yield SimulationSession(request, pool, workers, task or _read(request))


def executor_for(request: SimulationRequest, task: "OpenedTask | None") -> str:
    """The executor that a request names, or the one that suits what its plans train."""
    if request.executor != SUITED:
        return request.executor
    few = not request.workers and all(_passes(plan, task) < MUCH for plan in request.plans)
    return "inline" if few else "processes"


def _passes(plan: Plan, task: "OpenedTask | None") -> float:
    """How often a plan's clients train on a sample, comparisons of clients included.

    Infinite where the number says little of the work: with larger images, and with frozen bases.
    """
    samples: float = _DIGITS if plan.dataset == "digits" else math.inf
    if task is not None:
        samples = math.inf if task.place.bases else sum(each.description.samples for each in task.clients)
    pairs = math.comb(plan.clients, 2) if isinstance(plan.clustering, ProCflSettings) else 0
    return plan.rounds * plan.sampled * samples * plan.training.epochs + _PASSES_PER_COMPARISON * pairs


def _opened_task(request: SimulationRequest) -> AbstractContextManager["OpenedTask"]:
    """The user's own task, whose processes end behind it."""
    from fedgrove.node.simulation.task_folder import opened_task

    return opened_task(request.plans[0], choose(request.sandbox), request.bases)


def _read(request: SimulationRequest) -> Dataset:
    from fedgrove.node.learning.datasets import load_dataset

    dataset = load_dataset(request.plans[0].dataset, request.data_dir)
    request.given.check_data(dataset)
    return dataset


def _make(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise InvalidCheckpoint(f"cannot make the directory {out}: {fault.strerror}") from None


def _name(plan: Plan) -> str:
    """The folder of a run in its request's."""
    return f"seed-{plan.seed}"


def _draw_clusters(directory: Path) -> None:
    """The matrix of similarities and the clusters, of one seed."""
    from fedgrove.node.simulation import figures
    from fedgrove.node.simulation.clustered.similarity import read_clusters

    found = read_clusters(directory)
    figures.clusters_figure(found.similarity.ism, found.members, found.attackers, directory / "clusters.png")
