"""A task of the user's own as what a demonstration learns: packed, published, trained in sandboxes."""

import os
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from fedgrove.chain.crypto.keys import Keys
from fedgrove.ipfs.store import ContentStore
from fedgrove.node.base.tensors import load
from fedgrove.node.devnet.terms import terms_of_task
from fedgrove.node.learning.local_update import RoundPosition
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.methods.terms import method_of, with_first_model
from fedgrove.node.methods.training.task_code import write_code
from fedgrove.node.methods.training.task_data import TaskData, TaskProcess
from fedgrove.node.methods.training.task_process import open_process
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.scenario.sources import packed, sources_of
from fedgrove.node.tasks.base_shelf import BaseShelf, BaseSources
from fedgrove.node.tasks.bundle import publish
from fedgrove.node.tasks.sandbox.modes import choose
from fedgrove.node.tasks.sandbox.settings import Visible


@dataclass(frozen=True)
class TaskPart:
    """A client's source of data, and which part of it, as (index, clients), where several practise on one source."""

    source: Path
    part: tuple[int, int] | None = None


class TaskSubject:
    """A scenario's task on its source of data.

    Parameters
    ----------
    scenario : Scenario
        Its ``data`` is a folder with a source for each client, in the order of their names, and perhaps one whose name
        starts with ``test`` for the coordinator; any other is shared out, each client taking every n-th sample.
    stack : ExitStack
        Ends the task's processes.
    """

    def __init__(self, scenario: Scenario, stack: ExitStack) -> None:
        assert scenario.task is not None
        cast, self._stack = scenario.cast, stack
        self._form = TableFormat.of(dict(cast.table_format)) if cast.table_format else None
        self._source, self._mode = Path(cast.data), choose(scenario.run.sandbox)
        self.bundle, self._settings = packed(scenario.task)
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedgrove-")))
        self._folder = place / "task"
        write_code(self._folder, self.bundle)
        sources = BaseSources({name: Path(path) for name, path in cast.bases.items()})
        self._bases = BaseShelf(place).open_all(scenario.task.bases, sources)
        self._own, self._test_source = sources_of(self._source, cast.clients)
        if not self._own:
            self._test_source = self._source
        self._clients = cast.clients
        self._processes: dict[Path | None, TaskProcess] = {}

    def found(self, scenario: Scenario, store: ContentStore, keys: Keys) -> tuple[FederationConfig, bytes]:
        """As ``Subject`` says; InvalidConfig or TaskFailed if the task cannot be had under these terms."""
        if self.bundle is not None:
            publish(self.bundle, store)
        config = terms_of_task(scenario, self._settings, keys.mailbox_public, keys.address)
        model = self._open(config, None if self._own else self._source).first_model()
        first = method_of(config).first_from(model)
        store.put(first)
        return with_first_model(config, first), first

    def places(self) -> list[TaskPart]:
        """Where each client's data are."""
        if self._own:
            return [TaskPart(each) for each in self._own]
        return [TaskPart(self._source, (index, self._clients)) for index in range(self._clients)]

    def parts(self, config: FederationConfig) -> list[TaskData]:
        """Each client's data."""
        return [self._open(config, each.source, each.part) for each in self.places()]

    def test_place(self, config: FederationConfig) -> Path | None:
        """Where the coordinator's data are; None if the task holds nothing out."""
        return None if self.test(config) is None else self._test_source

    def test(self, config: FederationConfig) -> TaskData | None:
        """What the source holds out; None if the task holds nothing out."""
        if self._test_source is None:
            return None
        data = self._open(config, self._test_source)
        return data if data.holds_out else None

    def seconds(self, config: FederationConfig, first: bytes) -> float:
        """As ``Subject`` says, measured on the first client's data."""
        parts, model = self.parts(config), load(first)
        position: RoundPosition = {"number": 1, "rounds": config.federation.rounds, "seed": config.federation.seed}
        spent = 0.0
        for _ in range(2):  # the first time loads libraries, too
            started = time.perf_counter()
            parts[0].train(model, position, 1, {})
            spent = time.perf_counter() - started
        return spent * max(1.0, len(parts) / (os.cpu_count() or 1))

    def _open(self, config: FederationConfig, source: Path | None, part: tuple[int, int] | None = None) -> TaskData:
        if source not in self._processes:
            visible, portable = Visible(self._folder, source, self._bases), config.training.portable
            self._processes[source] = open_process(self._mode, visible, portable=portable)
            self._stack.callback(self._processes[source].close)
        data = TaskData(config, self._processes[source], part, form=self._form)
        self._stack.callback(data.close)
        return data
