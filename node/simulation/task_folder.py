"""A plan's task and its data, opened: packed, checked, and asked how many samples there are."""

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from fedgrove.node.base.files import MARK
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.training.task_code import write_code
from fedgrove.node.methods.training.task_data import TaskData, TaskTerms
from fedgrove.node.simulation.plan import InvalidPlan, Plan
from fedgrove.node.simulation.task_settings import SimulatedTask
from fedgrove.node.simulation.task_work import OwnSource, TaskPlace, end_process, process_of
from fedgrove.node.tasks.base_shelf import BaseShelf, BaseSources
from fedgrove.node.tasks.bundle import Bundle, pack
from fedgrove.node.tasks.folder import remove_folder
from fedgrove.node.tasks.sandbox.settings import Mode

TEST = "test"
"""How the name of a source to evaluate on begins, next to the clients'."""


@dataclass(frozen=True)
class OpenedTask:
    """A task and its data, ready to be simulated.

    Attributes
    ----------
    place : TaskPlace
        Where workers find them.
    digest : str
        SHA-256, in hex, of the bundle's name and the data's bytes: a run is resumed on what it began with.
    clients : tuple of OwnSource
        The data of clients 1, 2, …
    held_out : tuple of OwnSource
        Where there are samples to evaluate on.
    """

    place: TaskPlace
    digest: str
    clients: tuple[OwnSource, ...]
    held_out: tuple[OwnSource, ...]

    def first_model(self, terms: TaskTerms) -> Tensors:
        """What the training starts from; TaskFailed if the task has no model."""
        return self.clients[0].open(self.place, terms).first_model()


@contextmanager
def opened_task(plan: Plan, mode: Mode, bases: Mapping[str, Path] | None = None) -> Iterator[OpenedTask]:
    """Open a plan's task, for this plan and those that differ from it in their seed; its processes end behind it.

    ``bases`` are paths of the task's frozen bases by name.

    Raises
    ------
    InvalidPlan
        The folder or the data are missing, do not suit the plan, or are not those that it names.
    InvalidBundle, InvalidBase
        The folder cannot be packed; a base is missing or another than the plan names.
    TaskFailed
        The task's code does not load or cannot read the data.
    """
    task, source = _given(plan)
    bundle = _packed(task)
    with tempfile.TemporaryDirectory(prefix="fedgrove-") as temporary:
        folder = Path(temporary) / "task"
        write_code(folder, bundle)
        shown = BaseShelf(Path(temporary)).open_all(task.bases, BaseSources(bases or {}))
        kept = tuple((name, str(path)) for name, path in shown.items())
        place = TaskPlace(str(folder), str(source.resolve()), mode, kept, plan.training.portable)
        try:
            clients, tests = _shared_out(plan, place, terms_of(plan))
            held_out = tuple(each for each in tests if each.description.held_out)
            name = task.name if bundle is None else str(bundle.cid)
            yield OpenedTask(place, _digest(name, source), clients, held_out)
        finally:
            end_process()
            remove_folder(Path(temporary))


def terms_of(plan: Plan) -> TaskTerms:
    """What of a plan its task depends on."""
    task, buffers = plan.task or SimulatedTask(), plan.privacy is None
    learned = (task.name, task.options, task.keep, task.shared, buffers, plan.strategy, plan.options)
    return TaskTerms(*learned, plan.training, plan.seed)


def _given(plan: Plan) -> tuple[SimulatedTask, Path]:
    if plan.task is None or not (plan.task.folder or plan.task.name):
        raise InvalidPlan("task.folder is missing: give --task, the task's folder")
    if not plan.source:
        raise InvalidPlan("data.source is missing: give --data, what the task's data() reads")
    source = Path(plan.source)
    if not source.exists():
        raise InvalidPlan(f"data.source: there is no {source}")
    return plan.task, source


def _packed(task: SimulatedTask) -> Bundle | None:
    """The bundle of the folder; None for a shipped task."""
    bundle = None if task.name else pack(Path(task.folder))
    name = "" if bundle is None else str(bundle.cid)
    if task.bundle not in ("", name):
        raise InvalidPlan(f"task.bundle is {task.bundle}, and {task.folder} packs to {name}: give the folder of that")
    try:
        TaskSettings(name, task.keep, dict(task.options), task.shared, task.bases, task.name)
    except ValueError as fault:
        raise InvalidPlan(str(fault)) from None
    return bundle


def _shared_out(plan: Plan, place: TaskPlace, terms: TaskTerms) -> tuple[tuple[OwnSource, ...], tuple[OwnSource, ...]]:
    """The data of each client, and the sources whose held-out samples count, as ``Plan.source`` says."""
    folder = Path(place.source)
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    names = [name for name in names if not name.endswith(MARK)]  # that clients left next to their data
    tests = [name for name in names if name.startswith(TEST)]
    if len(names) - len(tests) == plan.clients:
        own = tuple(_described(place, terms, name) for name in names if name not in tests)
        return own, tuple(_described(place, terms, name) for name in tests[:1]) or own
    whole = _described(place, terms)
    samples, clients = whole.description.samples, plan.clients
    if samples < clients:
        raise InvalidPlan(f"there are {samples} samples for {clients} clients: each needs at least one")
    return tuple(_part(whole, index, clients) for index in range(clients)), (whole,)


def _described(place: TaskPlace, terms: TaskTerms, inside: str = "") -> OwnSource:
    description = TaskData(terms, process_of(place), None, inside).description
    return OwnSource(description, None, inside)


def _part(whole: OwnSource, index: int, clients: int) -> OwnSource:
    samples, held_out = (
        len(range(index, count, clients)) for count in (whole.description.samples, whole.description.held_out)
    )
    return OwnSource(replace(whole.description, samples=samples, held_out=held_out), (index, clients))


def _digest(bundle: str, source: Path) -> str:
    total = hashlib.sha256(bundle.encode())
    for path in _files(source):
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        total.update(f"{path.relative_to(source)!s} {digest}\n".encode())
    return total.hexdigest()


def _files(source: Path) -> Iterable[Path]:
    return sorted(path for path in source.rglob("*") if path.is_file()) if source.is_dir() else [source]
