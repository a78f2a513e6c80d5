"""A task of the user's own as what a demonstration learns: packed, published, trained in sandboxes."""

import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from fedgrove.chain.crypto.keys import Keys
from fedgrove.ipfs.store import ContentStore
from fedgrove.node.base.tensors import load
from fedgrove.node.devnet.members import COORDINATOR, ParticipantPaths, client_name
from fedgrove.node.devnet.subject import Subject
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
from fedgrove.node.tasks.approval import Approvals
from fedgrove.node.tasks.base_shelf import BaseShelf, BaseSources
from fedgrove.node.tasks.bundle import publish
from fedgrove.node.tasks.sandbox.modes import choose
from fedgrove.node.tasks.sandbox.settings import Visible


class TaskSubject(Subject):
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
        self._given = {name: Path(path) for name, path in cast.bases.items()}
        self._bases = BaseShelf(place).open_all(scenario.task.bases, BaseSources(self._given))
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

    def parts(self, config: FederationConfig) -> list[TaskData]:
        """Each client's data."""
        return [self._open(config, source, part) for source, part in self._places()]

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

    def hand_out(
        self, config: FederationConfig, places: Mapping[str, ParticipantPaths], everyone: Mapping[str, Keys]
    ) -> dict[str, list[str]]:
        """As ``Subject`` says, by links to the sources.

        The task is approved for each participant, in whose name the user, who makes them, decides. Nobody has to
        approve a shipped task, which has no bundle.
        """
        if self.bundle is not None:
            for name, keys in everyone.items():
                Approvals(places[name].state, keys.address).approve(keys.account, self.bundle)
        named = {client_name(number): each for number, each in enumerate(self._places(), 1)}
        if self._test_source is not None and self.test(config) is not None:
            named[COORDINATOR] = (self._test_source, None)
        bases = [word for name, path in self._given.items() for word in ("--base", f"{name}={path}")]
        options = {name: [*_linked(places[name], *each), *bases] for name, each in named.items()}
        if self.bundle is not None:  # as a simulation weighs them: the user, who is every member, says so
            for number, data in enumerate(self.parts(config), 1):
                options[client_name(number)] += ["--weight", str(len(data))]
        return {COORDINATOR: []} | options

    def _places(self) -> list[tuple[Path, tuple[int, int] | None]]:
        """Each client's source, and which part of it, as (index, clients), where several practise on one source."""
        if self._own:
            return [(each, None) for each in self._own]
        return [(self._source, (index, self._clients)) for index in range(self._clients)]

    def _open(self, config: FederationConfig, source: Path | None, part: tuple[int, int] | None = None) -> TaskData:
        if source not in self._processes:
            visible, portable = Visible(self._folder, source, self._bases), config.training.portable
            self._processes[source] = open_process(self._mode, visible, portable=portable)
            self._stack.callback(self._processes[source].close)
        data = TaskData(config, self._processes[source], part, form=self._form)
        self._stack.callback(data.close)
        return data


def _linked(place: ParticipantPaths, source: Path, part: tuple[int, int] | None) -> list[str]:
    """The options for a link to a source in the participant's folder: a client writes next to its data, too."""
    link = place.root / "source" / source.name
    link.parent.mkdir()
    link.symlink_to(source)
    data = ["--data", str(link)]
    return data if part is None else [*data, "--part", f"{part[0] + 1}/{part[1]}"]
