"""What a federation on this machine learns, and on which data: terms, the first model, and everybody's part."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from fedgrove.chain.crypto.keys import Keys
from fedgrove.ipfs.store import ContentStore
from fedgrove.node.devnet.task_subject import TaskSubject
from fedgrove.node.devnet.terms import terms_of_points, terms_on
from fedgrove.node.devnet.windows import windows
from fedgrove.node.learning import partition
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.samples import Dataset, Samples
from fedgrove.node.learning.shared import shared_to_bytes
from fedgrove.node.methods.kmeans.datasets import Points
from fedgrove.node.methods.kmeans.vector import stated_bound
from fedgrove.node.methods.terms import method_of, with_first_model
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.scenario.reading import left_out
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.scenario.sources import points_of

_GATHER_SECONDS = 5.0  # for which a testnet gathers requests to forget: people are looking on


class Subject(Protocol):
    """What a federation learns, and on which data."""

    def found(self, scenario: Scenario, store: ContentStore, keys: Keys) -> tuple[FederationConfig, bytes]:
        """The terms, complete, and the first model's bytes; what the terms name is put into the store.

        Raises
        ------
        ValueError
            The data do not suit the scenario.
        """
        ...

    def parts(self, config: FederationConfig) -> Sequence[Any]:
        """Each client's data."""
        ...

    def test(self, config: FederationConfig) -> Any:
        """What the coordinator evaluates on; None for nothing."""
        ...


class DatasetSubject:
    """A shipped network on a data set, whose training samples are split among the clients.

    Attributes
    ----------
    shared : Samples
        d_share, which volunteers give out of the same samples; there once the federation is founded.
    """

    shared: Samples

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._parts: list[Samples] = []

    def found(self, scenario: Scenario, store: ContentStore, keys: Keys) -> tuple[FederationConfig, bytes]:
        """As ``Subject`` says."""
        training, cast = self.dataset.train(), scenario.cast
        seed = scenario.federation.seed
        parts, shared = partition.deal(training, cast.clients, scenario.partition, cast.shared_per_class, seed)
        assert shared is not None
        self._parts, self.shared = [training.take(part) for part in parts], shared
        digest = store.put(shared_to_bytes(shared)).digest
        config = with_first_model(terms_on(scenario, self.dataset, digest, keys.mailbox_public, keys.address))
        return config, method_of(config).first_model()

    def parts(self, config: FederationConfig) -> list[Samples]:
        """Each client's samples."""
        return self._parts

    def test(self, config: FederationConfig) -> Samples:
        """The data set's own test samples."""
        return self.dataset.test()


class PointsSubject:
    """Points that the clients cluster.

    Parameters
    ----------
    points : Points
    gather_blocks : int, optional
        Blocks for which a round gathers requests; None: as the terms have it.
    """

    def __init__(self, points: Points, gather_blocks: int | None = None) -> None:
        self._points = points
        self._pace = {} if gather_blocks is None else {"gather_blocks": gather_blocks}

    def found(self, scenario: Scenario, store: ContentStore, keys: Keys) -> tuple[FederationConfig, bytes]:
        """As ``Subject`` says."""
        parts = self._points.parts
        ledger = replace(windows(len(parts)), max_samples=max(stated_bound(len(part)) for part in parts))
        config = with_first_model(terms_of_points(scenario, self._points, ledger, **self._pace))
        return config, method_of(config).first_model()

    def parts(self, config: FederationConfig) -> Sequence[Any]:
        """Each client's points."""
        return self._points.parts

    def test(self, config: FederationConfig) -> None:
        """Nobody evaluates."""
        return


def subject_of(scenario: Scenario, stack: ExitStack, say: Callable[[str], None], remedy: str = "") -> Subject:
    """The subject of a scenario for processes on a chain of their own: its task, its points, or its data set.

    Parameters
    ----------
    stack : ExitStack
        Ends the task's processes.
    say : callable
        Told of a suggestion of the task's that is not followed, with the ``remedy``.

    Raises
    ------
    InvalidConfig, InvalidInput, DatasetError, TaskFailed, SandboxUnavailable
        The task, its data or the data set are at fault.
    """
    if scenario.kmeans is not None:
        return PointsSubject(points_of(scenario), max(1, round(_GATHER_SECONDS / scenario.run.block_seconds)))
    if scenario.task is None:
        folder = scenario.run.data_dir
        return DatasetSubject(load_dataset(scenario.cast.dataset, Path(folder) if folder else None))
    unfollowed = left_out(scenario, remedy)
    if unfollowed:
        say(unfollowed)
    return TaskSubject(scenario, stack)
