"""A member's data under a task of its own: counted, trained on and evaluated by the task's code, in the sandbox."""

import math
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
from msgspec import Meta

from fedgrove.common.errors import InvalidContent
from fedgrove.common.text import one_line
from fedgrove.common.wire import convert
from fedgrove.node.base.strict_tables import check_value
from fedgrove.node.base.tensors import Layout, Tensors, prefixed, without_prefix
from fedgrove.node.learning.local_update import MODEL, STATE, DivergedTraining, HeldOutSums, LocalUpdate, RoundPosition
from fedgrove.node.learning.scores import StatedScores
from fedgrove.node.learning.settings import RIGHT, TrainingSettings
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.training.hold_out import HoldsOut
from fedgrove.node.protocol.local_work import CannotTakePart
from fedgrove.node.protocol.method import Evaluated
from fedgrove.node.protocol.terms import FederationConfig, StrategySettings
from fedgrove.node.tasks.sandbox.faults import JobFailed, JobRaised, SandboxUnavailable
from fedgrove.node.tasks.sandbox.worker import Reply, Worker

JOBS = "fedgrove.node.learning.tasks.jobs:"
PRELOADED = ("fedgrove.node.learning.tasks.jobs",)
"""What a task's process imports once, before any of the task's code."""

_LONGEST = 300  # characters of a reason
_WRONG = "the task's answer cannot be right"
MAX_SAMPLES, MAX_TENSORS = 1 << 48, 20_000

Count = Annotated[int, Meta(ge=0, lt=MAX_SAMPLES)]
Shapes = Annotated[dict[str, list[Annotated[int, Meta(gt=0, lt=1 << 40)]]], Meta(max_length=MAX_TENSORS)]
_Said = TypeVar("_Said")


class TaskFailed(CannotTakePart):
    """The task's code failed, or answered what cannot be; the message says how, in one sentence."""

    exit_code = 1


class Described(msgspec.Struct, frozen=True):
    """What ``describe`` answers."""

    samples: Count
    held_out: Count
    model: Shapes
    kept: Shapes
    boundary: Annotated[str, Meta(pattern=r"\A([0-9a-f]{64})?\Z")] | None = None


class Summed(msgspec.Struct, frozen=True):
    """What ``evaluate`` and ``measure`` answer."""

    samples: Count
    totals: dict[str, float]
    names: list[str] = []
    only_class: Count | None = None
    scores: StatedScores | None = None
    fault: str = ""
    place: str = ""


class _Trained(msgspec.Struct, frozen=True):
    loss: float


class Labels(msgspec.Struct, frozen=True):
    """What ``count_labels`` answers."""

    counts: list[Count]


def said(kind: type[_Said], reply: Reply) -> _Said:
    """What a job answered; TaskFailed where it cannot be."""
    try:
        return convert(kind, reply.header)
    except InvalidContent as fault:
        raise TaskFailed(f"{_WRONG}: {fault}", _WRONG) from None


def layout_of(shapes: Mapping[str, Sequence[int]]) -> Layout:
    names = tuple(sorted(shapes))
    return Layout(names, tuple(tuple(shapes[name]) for name in names))


@dataclass(frozen=True)
class Description:
    """How many samples a member has, to train on and held out, and its tensors: federated, and kept at home."""

    samples: int
    held_out: int
    model: Layout
    kept: Layout


@dataclass(frozen=True)
class TaskTerms:
    """What of a federation's terms, or of a simulation's scenario, a task's jobs depend on.

    Attributes
    ----------
    buffers : bool
        Whether running statistics travel. Where updates are clipped they have no place in the norm.
    seed : int
        Root of all randomness.
    """

    task: TaskSettings
    buffers: bool
    strategy: StrategySettings
    training: TrainingSettings
    seed: int

    @classmethod
    def of(cls, config: FederationConfig) -> "TaskTerms":
        return cls(config.learned, config.privacy is None, config.strategy, config.training, config.federation.seed)


class TaskProcess:
    """A task's worker on one source of data, for one or more clients of this process: one job at a time."""

    def __init__(self, worker: Worker) -> None:
        self._worker, self._lock = worker, threading.Lock()

    def run(self, job: str, header: Mapping[str, Any], tensors: Tensors | None, expected: Layout | None) -> Reply:
        with self._lock:
            return self._worker.run(JOBS + job, header, tensors, expected)

    def close(self) -> None:
        self._worker.close()


class TaskData:
    """A task on one source of data. Everything of it runs in the worker's processes.

    Parameters
    ----------
    config : FederationConfig or TaskTerms
        Terms with a task, or what of them it depends on.
    process : TaskProcess
        Is shown the task's folder and the member's source, and nothing else.
    part : (int, int), optional
        Index and number of clients that practise on one source; each takes every n-th sample.
    inside : str
        Name of the client's own source, where the process is shown a folder of several; empty: it is shown one.
    description : Description, optional
        What the task said of these data before; it is asked otherwise.
    device : str
        Where the task trains and evaluates: ``cpu`` or ``cuda``.
    form : TableFormat, optional
        How the member's own file writes a table, for the shipped task that reads tables.

    Raises
    ------
    InvalidConfig
        A format is stated, and the task reads no tables.
    """

    def __init__(
        self,
        config: FederationConfig | TaskTerms,
        process: TaskProcess,
        part: tuple[int, int] | None = None,
        inside: str = "",
        description: Description | None = None,
        device: str = "cpu",
        form: TableFormat | None = None,
    ) -> None:
        terms = config if isinstance(config, TaskTerms) else TaskTerms.of(config)
        self._learned = terms
        self._hold_out: HoldsOut | None = None
        self._process, task = process, terms.task
        self._terms: dict[str, Any] = {
            "name": task.name,
            "options": dict(task.options),
            "keep": list(task.keep),
            "buffers": terms.buffers,
            "strategy": asdict(terms.strategy),
            "part": part,
            "inside": inside,
            "device": device,
        }
        if form is not None:
            check_value(task.name == "tabular", "a table's format", "left out: this federation's task reads no tables")
            self._terms["form"] = form.to_table()
        if description is not None:
            self.description = description
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="task")

    def __len__(self) -> int:
        return self.description.samples

    @cached_property
    def description(self) -> Description:
        """What the task says of the member's data; TaskFailed if it cannot."""
        found = said(Described, self._run("describe"))
        if self._hold_out is not None and self._splits:
            if found.boundary is None:
                raise TaskFailed("the task does not say which of its samples are held out")
            self._hold_out.remember(bytes.fromhex(found.boundary))
        return Description(found.samples, found.held_out, layout_of(found.model), layout_of(found.kept))

    @property
    def holds_out(self) -> bool:
        return self.description.held_out > 0

    def first_model(self) -> Tensors:
        """What a federation starts from; TaskFailed if the task has no model."""
        seed = {"seed": self._learned.seed}
        return self._run("first", seed, expected=self.description.model).tensors

    def start(self, model: Tensors, position: RoundPosition, client: int, state: Tensors) -> Future[LocalUpdate]:
        """Begin to train a round in a thread that waits for the task's process."""
        return self._threads.submit(self.train, model, position, client, state)

    def measure(self, model: Tensors, state: Tensors) -> Future[HeldOutSums]:
        """Begin to evaluate a model on what the member holds out, in the same thread."""
        return self._threads.submit(self.held_out_sums, model, state)

    def evaluate(self, model: Tensors) -> Evaluated:
        """How a model does on the samples held out, with its accuracy where the task counts right answers."""
        return self._evaluated(said(Summed, self._run("evaluate", {}, model)))

    def _evaluated(self, found: Summed) -> Evaluated:
        samples, right = max(1, found.samples), found.totals.get("right")
        if right is not None and not 0 <= right <= samples:
            raise TaskFailed("the task counts more right answers than samples")
        if found.scores is not None:
            try:
                found.scores.check_samples(samples)
            except InvalidContent as fault:
                raise TaskFailed(f"{_WRONG}: {fault}", _WRONG) from None
        return Evaluated(
            None if right is None else right / samples,
            min(max(found.totals.get("loss", math.inf) / samples, 0.0), 1e300),
            samples,
            None if right is None else found.only_class,
            found.scores,
        )

    def label_counts(self, labels: int) -> np.ndarray:
        """Samples of each label, int64 array of shape (labels,); TaskFailed if they have no such labels."""
        counts = said(Labels, self._run("count_labels", {"labels": labels})).counts
        if len(counts) != labels or sum(counts) != len(self):
            raise TaskFailed("the task does not say how many samples there are of each label")
        return np.array(counts, np.int64)

    def training_loss(self, model: Tensors) -> float:
        """Mean loss of a model on the samples to train on; NaN where it is not finite."""
        found = said(Summed, self._run("evaluate", {"which": "train"}, model))
        return found.totals.get("loss", math.nan) / max(1, found.samples)

    def evaluating(self, hold_out: HoldsOut, description: Description | None = None) -> "TaskData":
        """The same data, of a member that evaluates each round's model before it trains.

        It evaluates on the samples that its own rule holds out; where that is none, on those that the task does. The
        task is asked for the ``description``, with what is held out then, where none is given.
        """
        found = TaskData(self._learned, self._process, description=description)
        found._terms, found._threads, found._hold_out = self._terms, self._threads, hold_out
        return found

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def train(self, model: Tensors, position: RoundPosition, client: int, state: Tensors) -> LocalUpdate:
        """Train a round, after an evaluation where one is due; TaskFailed or DivergedTraining if it cannot be."""
        measured = None if self._hold_out is None else self.held_out_sums(model, state)
        return replace(self._update(self._training("train", model, position, client, state)), measured=measured)

    def held_out_sums(self, model: Tensors, state: Tensors) -> HeldOutSums:
        """How a global model, with what stays at home, does on the samples held out."""
        if not self.description.held_out:
            return HeldOutSums(0, {})
        found = said(Summed, self._run("measure", {}, prefixed(MODEL, model) | prefixed(STATE, state)))
        if found.samples != self.description.held_out:
            raise TaskFailed("the task evaluates on other samples than it holds out")
        fault, place = (one_line(each, _LONGEST) for each in (found.fault, found.place))
        if RIGHT in found.names and not 0 <= found.totals.get(RIGHT, math.inf) <= found.samples:
            fault = "its metrics count more right answers than samples"
        totals = {name: found.totals.get(name, math.inf) for name in found.names}
        return HeldOutSums(found.samples, totals, fault, f" {place}" if place else "")

    @property
    def _splits(self) -> bool:
        """Whether the member's own rule says which samples are held out."""
        return self._hold_out is not None and self._hold_out.rule.millionths > 0

    def _training(
        self,
        job: str,
        model: Tensors,
        position: RoundPosition,
        client: int,
        state: Tensors,
        more: Mapping[str, Any] | None = None,
    ) -> Reply:
        """What a job that trains answers; ``more`` of its header, in place of what the terms say."""
        kept = self.description.kept
        if state and Layout.of(state) != kept:
            raise TaskFailed("the task keeps other tensors at home than in the member's last round: ask for its author")
        header = {
            "position": position,
            "client": client,
            "training": asdict(self._learned.training),
            "shared": self._learned.task.shared,
        }
        sent = prefixed(MODEL, model) | prefixed(STATE, state)
        return self._run(job, header | dict(more or {}), sent, _joined(Layout.of(model), kept))

    def _update(self, reply: Reply) -> LocalUpdate:
        loss = said(_Trained, reply).loss
        return LocalUpdate(without_prefix(MODEL, reply.tensors), len(self), loss, without_prefix(STATE, reply.tensors))

    def _run(
        self,
        job: str,
        header: Mapping[str, Any] | None = None,
        tensors: Tensors | None = None,
        expected: Layout | None = None,
    ) -> Reply:
        """One job of the task, its faults in the words of a client's work."""
        split = {"split": self._hold_out.rule.to_header()} if self._hold_out is not None and self._splits else {}
        try:
            return self._process.run(job, self._terms | split | dict(header or {}), tensors, expected)
        except JobRaised as fault:
            reason = str(fault).partition(f"{DivergedTraining.__name__}: ")[2]
            if reason:
                raise DivergedTraining(reason) from None
            raise TaskFailed(_of_data(str(fault)), fault.brief) from None
        except (JobFailed, SandboxUnavailable) as fault:
            raise TaskFailed(str(fault)) from None
        except InvalidContent as fault:
            raise TaskFailed(str(fault), _WRONG) from None
        except OSError as fault:  # closed by another thread, in the middle of a job
            raise TaskFailed(f"the task's process has been ended: {fault.strerror}") from None


def _of_data(fault: str) -> str:
    """A sentence about a table or images alone: whoever gave them knows of no code, and not who says it."""
    return fault.partition("DatasetError: ")[2] or fault


def _joined(model: Layout, kept: Layout) -> Layout:
    pairs = [(MODEL + name, shape) for name, shape in zip(model.names, model.shapes, strict=True)]
    pairs += [(STATE + name, shape) for name, shape in zip(kept.names, kept.shapes, strict=True)]
    pairs.sort()
    return Layout(tuple(name for name, _ in pairs), tuple(shape for _, shape in pairs))
