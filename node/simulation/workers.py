"""Hands a simulation's tasks to an executor, and puts together what they give.

A model is tested in slices that are queued behind the next training, so that they fill workers which have nothing left
to train. A test that was cut off with the training is done again.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from fedgrove.common.errors import RunFailed
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.masking.ring import WORD
from fedgrove.node.simulation.executors import Reach, reach
from fedgrove.node.simulation.record import RoundResult
from fedgrove.node.simulation.work import ClientResult, PartialSum, TrainingTask, WorkUnit, perform


class SimulationFailed(RunFailed):
    """A worker was lost; the message says in which round and whose work it had. The run can be resumed."""

    exit_code = 1


@dataclass(frozen=True)
class PendingTest:
    """A test of a round's models: its tasks, made when they are asked for, and the round's result by their scores."""

    tasks: Callable[[], Iterable[WorkUnit]]
    conclude: Callable[[Sequence[Any]], RoundResult]


class Workforce:
    """The workers of one simulation, ``count`` at once.

    Attributes
    ----------
    pending : PendingTest or None
        What they do behind the next training.
    """

    def __init__(self, executor: Executor, count: int) -> None:
        self.executor = executor
        self.count = count
        self.reach: Reach = reach(executor)
        self.pending: PendingTest | None = None
        self._tested: list[RoundResult] = []

    def run(self, tasks: Iterable[WorkUnit]) -> Iterator[Any]:
        """Results of tasks as they come; SimulationFailed where a worker is lost."""
        return windowed(self.executor, tasks, 2 * self.count)

    def train(
        self,
        tasks: Iterable[WorkUnit],
        groups: Mapping[int, Sequence[int]],
        length: int,
        keep: Callable[[int, Tensors], None],
    ) -> tuple[dict[int, np.ndarray], list[ClientResult]]:
        """Add up what groups of clients upload; the order of arrival leaves no trace.

        Parameters
        ----------
        groups : mapping of int to sequence of int
            By number; no client is in two, and no task has clients of two.
        length : int
            Words of an upload.
        keep : callable
            Is given each client, and its state, as they come.

        Returns
        -------
        dict of int to uint32 array of shape (length,), list of ClientResult
            The sums, and what is told of the clients, ascending, without their states.
        """
        group_of = {client: number for number, group in groups.items() for client in group}
        sums = {number: np.zeros(length, WORD) for number in groups}
        found: list[ClientResult] = []
        for partial in self._with_pending(tasks):
            total = sums[group_of[partial.results[0].client]]
            np.add(total, partial.words, out=total)
            for result in partial.results:
                keep(result.client, result.state)
                found.append(replace(result, state={}) if result.state else result)
        return sums, sorted(found, key=lambda result: result.client)

    def tested(self) -> list[RoundResult]:
        """The results of tests since the last call; what is pending is done first."""
        deque(self._with_pending(()), maxlen=0)
        found, self._tested = self._tested, []
        return found

    def _with_pending(self, tasks: Iterable[WorkUnit]) -> Iterator[PartialSum]:
        pending, scores = self.pending, []
        for result in self.run(chain(tasks, pending.tasks() if pending else ())):
            if isinstance(result, PartialSum):
                yield result
            else:
                scores.append(result)
        if pending:
            self._tested.append(pending.conclude(scores))
            self.pending = None


def windowed(executor: Executor, tasks: Iterable[WorkUnit], limit: int) -> Iterator[Any]:
    """Results of tasks, as they come, ``limit`` in flight at most; SimulationFailed where a worker is lost."""
    running: dict[Future, WorkUnit] = {}
    handed_in: list[WorkUnit] = []
    try:
        for task in tasks:
            while len(running) >= limit:
                yield from _finished(running)
            handed_in = [task]
            running[executor.submit(perform, task)] = task
        while running:
            yield from _finished(running)
    except Exception as fault:
        if not _is_loss(fault):
            raise
        # Where a worker was lost while nothing ran, it is the task handed in that finds out.
        raise SimulationFailed(_lost(running.values() or handed_in, fault)) from fault


def _finished(running: dict[Future, Any]) -> Iterator[Any]:
    done, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        result = future.result()
        del running[future]
        yield result


def _is_loss(fault: Exception) -> bool:
    """Whether it is the executor's, or the file system's, and not the task's."""
    return isinstance(fault, BrokenExecutor | CancelledError | OSError) or type(fault).__module__.startswith(
        "distributed"
    )


def _lost(tasks: Iterable[WorkUnit], fault: Exception) -> str:
    work = list(tasks)
    clients = sorted(client.client for task in work if isinstance(task, TrainingTask) for client in task.clients)
    rounds = [task.round for task in work]
    named = ", ".join(map(str, clients[:10])) + (f" and {len(clients) - 10} more" if len(clients) > 10 else "")
    where = f"training client{'s' * (len(clients) > 1)} {named}" if clients else work[0].doing
    reason = str(fault) or type(fault).__name__
    return f"a worker was lost in round {max(rounds, default=0)} while {where}: {reason}"
