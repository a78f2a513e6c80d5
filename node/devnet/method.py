"""What a federation on this machine has to know of its method: one class for each, that ``methods`` lists."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence, Sized
from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.devnet.silence import check_drop
from fedgrove.node.devnet.subject import Subject
from fedgrove.node.devnet.subjects import DatasetSubject
from fedgrove.node.devnet.task_subject import TaskSubject
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.privacy.settings import LEAST_RATED, ClientLevelSettings
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.scenario.checks import check_subject, check_training
from fedgrove.node.scenario.names import name_of
from fedgrove.node.scenario.reading import completed, left_out
from fedgrove.node.scenario.scenario import Scenario

_UNTRAINED = (("federation", "name"), ("federation", "rounds"), ("federation", "repeats"), ("federation", "seed"))
"""Keys that mean something where nothing is trained."""


class MethodRunner(ABC):
    """A method as federations on this machine run it.

    Attributes
    ----------
    patient : bool
        Rounds of a testnet wait longer for a process to be back.
    """

    patient: ClassVar[bool] = False

    @abstractmethod
    def check(self, scenario: Scenario) -> None:
        """Raise InvalidConfig unless the method can be run as the scenario says."""

    @abstractmethod
    def subject(self, scenario: Scenario, stack: ExitStack, say: Callable[[str], None], remedy: str = "") -> Subject:
        """What is learned, and on which data; arguments and errors are those of ``methods.subject_of``."""

    def seconds(self, config: FederationConfig, parts: Sequence[Sized], computing: float) -> float:
        """How long clients with these data need for a round in which they compute for ``computing`` seconds."""
        return computing


class TrainingRunner(MethodRunner):
    """One model is trained: a task's, or a shipped network."""

    def check(self, scenario: Scenario) -> None:
        self._check_training(scenario)
        hopeless = check_drop(scenario.cast.clients, scenario.cast.drop)
        if hopeless:
            raise InvalidConfig(f"scenario.drop {hopeless}")

    def subject(self, scenario: Scenario, stack: ExitStack, say: Callable[[str], None], remedy: str = "") -> Subject:
        if scenario.task is None:
            folder = scenario.run.data_dir
            return DatasetSubject(load_dataset(scenario.cast.dataset, Path(folder) if folder else None))
        unfollowed = left_out(scenario, remedy)
        if unfollowed:
            say(unfollowed)
        return TaskSubject(scenario, stack)

    def _check_training(self, scenario: Scenario) -> None:
        check_subject(scenario)
        check_training(scenario)
        _check_evaluation(scenario)


def check_untrained(scenario: Scenario) -> None:
    """Raise InvalidConfig for what only models have: a method that trains none would pass over it in silence."""
    tables, method = scenario.to_tables(), scenario.method.name
    plain = completed({method: tables[method]}).to_tables()
    for name, keys in sorted(tables.items(), key=lambda table: table[0] in plain):  # others follow from these
        for key in sorted(keys, key=lambda key: not name_of(f"{name}.{key}")):  # those first that have options
            free = name in ("scenario", "run", method) or (name, key) in _UNTRAINED
            if not free and (name not in plain or keys[key] != plain[name][key]):
                raise InvalidConfig(f"{name}.{key} is for models: leave it out with {method}")


def _check_evaluation(scenario: Scenario) -> None:
    """Under the noise of client-level privacy some things cannot be told."""
    clients = scenario.cast.clients
    if not isinstance(scenario.privacy, ClientLevelSettings):
        return
    if scenario.evaluation is not None and clients < LEAST_RATED:
        needed = f"{LEAST_RATED} clients, not {clients}: noise drowns the rates of fewer"
        raise InvalidConfig(f"evaluation.held_out with a privacy budget needs {needed}")
    if scenario.federation.patience:
        why = "members report noisy rates, and no loss"
        raise InvalidConfig(f"federation.patience must be 0 with a privacy budget: {why}")
