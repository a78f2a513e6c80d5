"""A run of a task of the user's own: what a federation under the same terms computes, to the byte."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from pathlib import Path

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.draws import rate_of
from fedgrove.node.simulation.executors import Reach
from fedgrove.node.simulation.loop import Progress
from fedgrove.node.simulation.run import OneModelRun
from fedgrove.node.simulation.task_folder import OpenedTask, terms_of
from fedgrove.node.simulation.task_work import TaskClient, TaskEvaluation, TaskRound, TaskTraining, end_process
from fedgrove.node.simulation.tasks import ClientsTasks, chunks
from fedgrove.node.simulation.uploads import Encoder
from fedgrove.node.simulation.work import ModelReference


class TaskRun(OneModelRun):
    """A plan with a task. Its arguments are those of ``SimulationRun``, behind the plan the task."""

    def __init__(
        self,
        plan: Scenario,
        task: OpenedTask,
        executor: Executor,
        workers: int,
        directory: Path | None = None,
        resume: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self._task = task
        super().__init__(plan, executor, workers, directory, resume, progress)

    def _found(self) -> str:
        if self._workforce.reach == "message":
            raise InvalidConfig("a task is simulated on this machine only: choose the executor processes or inline")
        self._models = [self._task.first_model(terms_of(self._plan))]
        return self._task.digest

    def _make_tasks(self, scratch: Path) -> ClientsTasks:
        if self._workforce.reach == "disk":
            end_process()  # the workers have their own
        return TaskRounds(self._plan, self._task, self._workforce.reach, scratch)


class TaskRounds(ClientsTasks):
    """Makes the tasks of one simulation of a user's own task; arguments as ``TaskMaker`` has them."""

    def __init__(self, plan: Scenario, task: OpenedTask, reach: Reach, scratch: Path) -> None:
        super().__init__(reach, scratch)
        self._plan, self._task, self._terms = plan, task, terms_of(plan)
        self.tests = bool(task.held_out)

    def training(
        self,
        number: int,
        model: ModelReference,
        drawn: tuple[int, ...],
        encoder: Encoder,
        workers: int,
        model_bytes: int,
        state: Callable[[int], Tensors],
    ) -> Iterator[TaskTraining]:
        own = {client: self._task.clients[client - 1] for client in drawn}
        sizes = {client: data.description.samples for client, data in own.items()}
        common = self._common(number, model)
        for group in chunks(sizes, workers, model_bytes):
            clients = tuple(TaskClient(client, own[client], state(client)) for client in group)
            yield TaskTraining(common, sum(sizes.values()), encoder, clients)

    def evaluation(self, round_number: int, model: ModelReference) -> Iterator[TaskEvaluation]:
        common = self._common(round_number, model)
        for number, data in enumerate(self._task.held_out):
            yield TaskEvaluation(common, number, data)

    def _common(self, number: int, model: ModelReference) -> TaskRound:
        plan, rate = self._plan, rate_of(self._plan, number)
        return TaskRound(self._task.place, self._terms, plan.rounds, number, model, plan.evaluation, rate)
