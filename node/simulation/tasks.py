"""A round cut into tasks: several small clients each, the largest first, made when a worker is about to need them."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from fedgrove.node.base.tensors import Tensors, dump
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.data import ClientsData
from fedgrove.node.simulation.draws import rate_of
from fedgrove.node.simulation.executors import Reach
from fedgrove.node.simulation.uploads import Encoder
from fedgrove.node.simulation.work import (
    ClientWork,
    EvaluationTask,
    ModelReference,
    RunTerms,
    TrainingTask,
)

# A task's share of a round, at most: with 16 a worker the last ones end nearly together.
TASKS_A_WORKER = 16
# What a client costs in addition to its samples, in samples.
CLIENT_OVERHEAD = 32
# Models and states that a task's clients may bring along, in bytes: bounds the memory of many small clients.
TASK_BYTES = 16 << 20


def chunks(sizes: Mapping[int, int], workers: int, model_bytes: int) -> list[tuple[int, ...]]:
    """Group clients into tasks, largest first.

    The result is the same whatever the grouping, so it may follow the number of workers.

    Parameters
    ----------
    sizes : mapping of int to int
        Samples of each client.
    """
    most = max(1, TASK_BYTES // model_bytes)
    costs = {client: size + CLIENT_OVERHEAD for client, size in sizes.items()}
    share = sum(costs.values()) / (workers * TASKS_A_WORKER)
    groups: list[list[int]] = []
    filled = share
    for client in sorted(costs, key=lambda client: (-costs[client], client)):
        if filled + costs[client] / 2 > share or len(groups[-1]) >= most:
            groups.append([])
            filled = 0
        groups[-1].append(client)
        filled += costs[client]
    return [tuple(group) for group in groups]


def groups(sizes: Mapping[int, int], together: int) -> list[tuple[int, ...]]:
    """Group clients that are trained together, those with most samples first.

    The last bits may depend on the grouping, so it follows from who was drawn and the scenario, not from the workers.

    Parameters
    ----------
    together : int
        Clients of a group; the last may have fewer.
    """
    order = sorted(sizes, key=lambda client: (-sizes[client], client))
    return [tuple(order[first : first + together]) for first in range(0, len(order), together)]


class RoundTasks:
    """Brings the models of a round to the workers.

    Parameters
    ----------
    scratch : Path
        An empty directory for what workers of this machine read.
    """

    def __init__(self, reach: Reach, scratch: Path) -> None:
        self._reach = reach
        self._scratch = scratch
        self._published: dict[str, ModelReference] = {}

    def publish(self, models: Iterable[Tensors]) -> list[ModelReference]:
        """Global models for the workers, until ``retire``."""
        return [self._reference(tensors) for tensors in models]

    def retire(self) -> None:
        """Remove the published models: no task needs them any more."""
        for model in self._published.values():
            if isinstance(model.content, str):
                Path(model.content).unlink()
        self._published.clear()

    def _reference(self, tensors: Tensors) -> ModelReference:
        content = dump(tensors)
        digest = hashlib.sha256(content).hexdigest()
        if digest not in self._published:
            path = self._scratch / f"model-{digest}.safetensors"
            if self._reach == "disk":
                path.write_bytes(content)
            self._published[digest] = ModelReference(digest, str(path) if self._reach == "disk" else tensors)
        return self._published[digest]


class TaskMaker(RoundTasks):
    """Makes the tasks of one simulation; ``reach`` and ``scratch`` are those of ``RoundTasks``."""

    def __init__(self, scenario: Scenario, terms: RunTerms, data: ClientsData, reach: Reach, scratch: Path) -> None:
        super().__init__(reach, scratch)
        self._scenario, self._terms, self.data = scenario, terms, data

    def training(
        self,
        number: int,
        model: ModelReference,
        drawn: tuple[int, ...],
        encoder: Encoder,
        workers: int,
        model_bytes: int,
        state: Callable[[int], Tensors],
    ) -> Iterator[TrainingTask]:
        """The tasks of a round, each made, with its clients' ``state``, when it is asked for."""
        sizes = {client: self.data.size(client) for client in drawn}
        total, rate = sum(sizes.values()), rate_of(self._scenario, number)
        common, together = self.data.common(self._scenario.probes(number)), self._scenario.run.together
        for group in groups(sizes, together) if together > 1 else chunks(sizes, workers, model_bytes):
            clients = tuple(ClientWork(client, self.data.samples(client), state(client)) for client in group)
            yield TrainingTask(self._terms, model, number, total, encoder, clients, rate, **common)

    def evaluation(self, round_number: int, model: ModelReference, number: int = 0) -> Iterator[EvaluationTask]:
        """The tasks that test a round's model, by its number; none where there is nothing to test it on."""
        return (EvaluationTask(self._terms, model, round_number, number, part) for part in self.data.test_parts())
