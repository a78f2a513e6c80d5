"""A task of the user's own as what a demonstration learns: packed, published, trained in sandboxes."""

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedgrove.chain.crypto.keys import Keys
from fedgrove.ipfs.store import ContentStore
from fedgrove.node.base.files import MARK
from fedgrove.node.devnet.demo import DemoPlan, common_terms
from fedgrove.node.devnet.method_option import cluster_terms, membership_for
from fedgrove.node.learning.settings import EvaluationSettings
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.methods.terms import method_of, with_first_model
from fedgrove.node.methods.training.suggestion import evaluation_left_out
from fedgrove.node.methods.training.task_code import read_code, write_code
from fedgrove.node.methods.training.task_data import TaskData, TaskProcess
from fedgrove.node.methods.training.task_process import open_process
from fedgrove.node.methods.training.terms import TrainingTerms
from fedgrove.node.privacy.settings import ClientLevelSettings
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.tasks.base_shelf import BaseShelf, BaseSources
from fedgrove.node.tasks.bundle import Bundle
from fedgrove.node.tasks.sandbox.settings import Mode, Visible

TEST = "test"
"""How the name of the coordinator's source begins, next to the clients'."""


@dataclass(frozen=True)
class TaskPart:
    """A client's source of data, and which part of it, as (index, clients), where several practise on one source."""

    source: Path
    part: tuple[int, int] | None = None


class TaskSubject:
    """A task on a source of data.

    Parameters
    ----------
    folder : Path
        The task's, or one whose ``terms.toml`` names a shipped task.
    source : Path
        What its ``data`` reads: a folder with a source for each client, in the order of their names, and perhaps one
        whose name starts with ``test`` for the coordinator; any other is shared out, each client taking every n-th
        sample.
    mode : Mode
        How its code is contained.
    stack : ExitStack
        Ends the task's processes.
    changes : mapping, optional
        Tables with other values for keys of its ``terms.toml``.
    bases : mapping, optional
        Paths of the task's frozen bases by name.
    form : TableFormat, optional
        How the source writes tables.
    """

    def __init__(
        self,
        folder: Path,
        source: Path,
        mode: Mode,
        stack: ExitStack,
        changes: Mapping[str, Any] | None = None,
        bases: Mapping[str, Path] | None = None,
        form: TableFormat | None = None,
    ) -> None:
        self._form = form
        self._source, self._mode, self._stack = source, mode, stack
        self._code = read_code(folder, changes)
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedgrove-")))
        self._folder = place / "task"
        write_code(self._folder, self._code.bundle)
        self._bases = BaseShelf(place).open_all(self._code.suggestion.task.bases, BaseSources(bases or {}))
        self._clients = 1
        self._processes: dict[Path | None, TaskProcess] = {}

    @property
    def strategy(self) -> str:
        """The local training strategy that suits the task."""
        return self._code.suggestion.default_strategy

    @property
    def bundle(self) -> Bundle | None:
        """The task, packed; None for a shipped task."""
        return self._code.bundle

    def found(self, plan: DemoPlan, store: ContentStore, keys: Keys) -> tuple[FederationConfig, bytes]:
        """As ``Subject`` says; InvalidConfig or TaskFailed if the task cannot be had under these terms."""
        self._clients = plan.clients
        self._code.publish(store)
        suggested = self._code.suggestion
        common = common_terms(plan, "task", self._evaluation(plan))
        common["masking"] = replace(common["masking"], bound=suggested.bound)
        clusters = cluster_terms(plan.method, keys.mailbox_public, keys.address)
        common |= {"method": clusters or TrainingTerms(), "membership": membership_for(clusters)}
        training = replace(suggested.training, portable=suggested.training.portable or plan.portable)
        config = FederationConfig(task=self._code.settings, training=training, **common)
        model = self._open(config, self._one_source()).first_model()
        first = method_of(config).first_from(model)
        store.put(first)
        return with_first_model(config, first), first

    def left_out(self, plan: DemoPlan, remedy: str = "") -> str:
        """Which of the task's suggestions the plan's terms do not follow, in one sentence; empty where they do."""
        left_out = self._code.suggestion.evaluation is not None and self._evaluation(plan) is None
        return evaluation_left_out(ClientLevelSettings.mechanism, remedy) if left_out else ""

    def _evaluation(self, plan: DemoPlan) -> EvaluationSettings | None:
        """As the task suggests, with the plan's share if that asks for one; with privacy only if it does."""
        suggested = self._code.suggestion.evaluation
        if not plan.held_out:
            return None if plan.epsilon else suggested
        return replace(suggested or EvaluationSettings(), held_out=plan.held_out)

    def places(self) -> list[TaskPart]:
        """Where each client's data are."""
        count, (own, _) = self._clients, self._sources()
        if own:
            return [TaskPart(each) for each in own]
        return [TaskPart(self._source, (index, count)) for index in range(count)]

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

    @property
    def _test_source(self) -> Path | None:
        own, test = self._sources()
        return test if own else self._source

    def _sources(self) -> tuple[list[Path], Path | None]:
        """The sources of the clients, and the coordinator's; none where there is one source for all."""
        found = sorted(self._source.iterdir()) if self._source.is_dir() else []
        found = [each for each in found if not each.name.endswith(MARK)]  # that clients left next to their data
        test = [each for each in found if each.name.startswith(TEST)]
        own = [each for each in found if each not in test]
        return (own, test[0] if test else None) if len(own) == self._clients else ([], None)

    def _one_source(self) -> Path | None:
        """The source that all share; None where each client has its own."""
        return None if self._sources()[0] else self._source

    def _open(self, config: FederationConfig, source: Path | None, part: tuple[int, int] | None = None) -> TaskData:
        if source not in self._processes:
            visible, portable = Visible(self._folder, source, self._bases), config.training.portable
            self._processes[source] = open_process(self._mode, visible, portable=portable)
            self._stack.callback(self._processes[source].close)
        data = TaskData(config, self._processes[source], part, form=self._form)
        self._stack.callback(data.close)
        return data
