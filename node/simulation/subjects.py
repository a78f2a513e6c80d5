"""What a simulation trains: a shipped network on a data set that is split among the clients, or a user's own task."""

from abc import ABC, abstractmethod
from pathlib import Path

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.networks import first_tensors
from fedgrove.node.learning.samples import Dataset
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.learning.together import check_suits
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.data import ClientsData, PlacedData, deal_data
from fedgrove.node.simulation.executors import Reach
from fedgrove.node.simulation.network_work import NetworkTerms
from fedgrove.node.simulation.task_folder import OpenedTask, TaskSources, terms_of
from fedgrove.node.simulation.task_work import SandboxTerms, end_process
from fedgrove.node.simulation.work import RunTerms


class Subject(ABC):
    """What a run trains.

    Attributes
    ----------
    digest : str
        Of the data, and of the task's code: a run is resumed on what it began with.
    terms : RunTerms
        With which workers train and test.
    """

    digest: str
    terms: RunTerms

    @abstractmethod
    def first_model(self, seed: int) -> Tensors:
        """What the training starts from."""

    @abstractmethod
    def place(self, reach: Reach, scratch: Path) -> ClientsData:
        """Bring the data to the workers; ``scratch`` is an empty directory for what those of this machine read."""


class NetworkSubject(Subject):
    """A shipped network; ``data`` are the samples as they are split, not poisoned."""

    terms: NetworkTerms

    def __init__(self, scenario: Scenario, dataset: Dataset) -> None:
        strategy = make_strategy(scenario.strategy.name, scenario.strategy.options)
        self.data = deal_data(scenario, dataset, strategy.needs_shared)
        self.digest, spec, run = self.data.digest(), self.data.spec, scenario.run
        if run.together > 1:
            check_suits(spec, strategy, scenario.training)
        learned = (self.digest, spec, strategy, scenario.training, scenario.rounds, scenario.seed)
        self.terms = NetworkTerms(*learned, run.device, scenario.evaluation, run.together)

    def first_model(self, seed: int) -> Tensors:
        return first_tensors(self.data.spec, self.terms.strategy, seed)

    def place(self, reach: Reach, scratch: Path) -> PlacedData:
        return PlacedData(self.data, self.digest, reach, scratch)


class TaskSubject(Subject):
    """A user's own task: what a federation under the same terms computes, to the byte."""

    def __init__(self, scenario: Scenario, task: OpenedTask) -> None:
        self._task, self._own_terms, self.digest = task, terms_of(scenario), task.digest
        self.terms = SandboxTerms(task.place, self._own_terms, scenario.rounds, scenario.evaluation)

    def first_model(self, seed: int) -> Tensors:
        return self._task.first_model(self._own_terms)

    def place(self, reach: Reach, scratch: Path) -> TaskSources:
        if reach == "disk":
            end_process()  # the workers have their own
        return TaskSources(self._task)


def subject_of(scenario: Scenario, given: Dataset | OpenedTask, reach: Reach) -> Subject:
    """What a scenario trains, on the data set or the task that was opened for it; InvalidConfig if they do not fit."""
    if isinstance(given, OpenedTask) != (scenario.task is not None):
        raise InvalidConfig("a scenario with a task is simulated on an opened task, and any other on a data set")
    if not isinstance(given, OpenedTask):
        return NetworkSubject(scenario, given)
    if reach == "message":
        raise InvalidConfig("a task is simulated on this machine only: choose the executor processes or inline")
    return TaskSubject(scenario, given)
