"""A run of a shipped network on a data set that is split among the clients."""

from concurrent.futures import Executor
from pathlib import Path

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.learning.models import initial_tensors
from fedgrove.node.learning.samples import Dataset
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.learning.together import check_suits
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.data import Dealt, deal_data
from fedgrove.node.simulation.loop import Progress, SimulationRun
from fedgrove.node.simulation.work import RunTerms


class DatasetRun(SimulationRun):
    """A plan without a task. Its arguments are those of ``SimulationRun``, behind the plan the data set."""

    def __init__(
        self,
        plan: Scenario,
        dataset: Dataset,
        executor: Executor,
        workers: int,
        directory: Path | None = None,
        resume: bool = False,
        progress: Progress | None = None,
    ) -> None:
        if plan.task is not None:
            raise InvalidConfig("a plan with a task is simulated by fedgrove.node.simulation.task_run")
        self._dataset = dataset
        super().__init__(plan, executor, workers, directory, resume, progress)

    @property
    def data(self) -> Dealt:
        """The data as they are split, not poisoned."""
        return self._data

    def _found(self) -> str:
        plan = self._plan
        strategy = make_strategy(plan.strategy.name, plan.strategy.options)
        self._data = deal_data(plan, self._dataset, strategy.needs_shared)
        spec, digest = self._data.spec, self._data.digest()
        for seed in self._model_seeds():
            weights = initial_tensors(spec.name, spec.input_shape, spec.classes, seed)
            self._models.append({**weights, **strategy.initial_extras(weights)})
        if plan.run.together > 1:
            check_suits(spec, strategy, plan.training)
        learned = (digest, spec, strategy, plan.training, plan.rounds, plan.seed, plan.run.device, plan.evaluation)
        self._terms = RunTerms(*learned, plan.run.together)
        return digest

    def _model_seeds(self) -> list[int]:
        """Seeds of the initial weights, one a model."""
        return [self._plan.seed]
