"""A scenario's task and its data, opened: packed, checked, and asked how many samples there are."""

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.samples import Samples
from fedgrove.node.methods.training.task_code import write_code
from fedgrove.node.methods.training.task_data import TaskData, TaskTerms
from fedgrove.node.scenario.checks import check_subject
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.scenario.settings import TaskChoice
from fedgrove.node.scenario.sources import packed, sources_of
from fedgrove.node.simulation.data import ClientsData, OnDisk
from fedgrove.node.simulation.task_work import OwnSource, TaskPlace, end_process, process_of
from fedgrove.node.tasks.base_shelf import BaseShelf, BaseSources
from fedgrove.node.tasks.folder import remove_folder
from fedgrove.node.tasks.sandbox.modes import choose


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


class TaskSources(ClientsData):
    """An opened task's data, as work carries them."""

    def __init__(self, task: OpenedTask) -> None:
        self._task, self.tests = task, bool(task.held_out)

    def size(self, client: int) -> int:
        return self.samples(client).description.samples

    def samples(self, client: int) -> OwnSource:
        return self._task.clients[client - 1]

    def common(self, probes: bool) -> dict[str, Samples | OnDisk | None]:
        """Nothing: the task's own ``data`` reads all that training needs."""
        return {}

    def test_parts(self) -> tuple[OwnSource, ...]:
        return self._task.held_out


@contextmanager
def opened_task(scenario: Scenario) -> Iterator[OpenedTask]:
    """Open a scenario's task, for all of its seeds; the task's processes end behind it.

    Raises
    ------
    InvalidConfig
        The folder or the data are missing, do not suit the scenario, or are not those that it names.
    InvalidBundle, InvalidBundle
        The folder cannot be packed; a base is missing or another than the scenario names.
    TaskFailed
        The task's code does not load or cannot read the data.
    """
    check_subject(scenario)
    assert scenario.task is not None
    task, source = scenario.task, Path(scenario.cast.data)
    bundle, _ = packed(task)
    with tempfile.TemporaryDirectory(prefix="fedgrove-") as temporary:
        folder = Path(temporary) / "task"
        write_code(folder, bundle)
        shown = BaseShelf(Path(temporary)).open_all(
            task.bases, BaseSources({name: Path(path) for name, path in scenario.cast.bases.items()})
        )
        kept = tuple((name, str(path)) for name, path in shown.items())
        place = TaskPlace(
            str(folder), str(source.resolve()), choose(scenario.run.sandbox), kept, scenario.training.portable
        )
        try:
            clients, tests = _shared_out(scenario, place, terms_of(scenario))
            held_out = tuple(each for each in tests if each.description.held_out)
            name = task.name if bundle is None else str(bundle.cid)
            yield OpenedTask(place, _digest(name, source), clients, held_out)
        finally:
            end_process()
            remove_folder(Path(temporary))


def terms_of(scenario: Scenario) -> TaskTerms:
    """What of a scenario its task depends on."""
    task = scenario.task or TaskChoice()
    return TaskTerms(task, scenario.privacy is None, scenario.strategy, scenario.training, scenario.seed)


def _shared_out(
    scenario: Scenario, place: TaskPlace, terms: TaskTerms
) -> tuple[tuple[OwnSource, ...], tuple[OwnSource, ...]]:
    """The data of each client, and the sources whose held-out samples count, as ``Cast.data`` says."""
    own_sources, test = sources_of(Path(place.source), scenario.clients)
    if own_sources:
        own = tuple(_described(place, terms, each.name) for each in own_sources)
        return own, (_described(place, terms, test.name),) if test is not None else own
    whole = _described(place, terms)
    samples, clients = whole.description.samples, scenario.clients
    if samples < clients:
        raise InvalidConfig(f"there are {samples} samples for {clients} clients: each needs at least one")
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
