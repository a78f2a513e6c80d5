"""The strategies on a task: what of them depends on the form of samples or models, done for any task.

FedAvg, FedProx and MOON are what they are for the shipped networks. FedAom, FedCurv and the sharing of data look into
models and samples.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import torch
from fedgrove.node.learning.attribution import attributions, behaviour
from fedgrove.node.learning.draws import placed
from fedgrove.node.learning.strategies.base import LocalTerm, RoundEnd, RoundStart, Strategy
from fedgrove.node.learning.strategies.fedaom import ROUNDING, Distance, FedAom
from fedgrove.node.learning.strategies.fedcurv import CurvatureTerm, FedCurv
from fedgrove.node.learning.strategies.share import Share
from fedgrove.node.learning.tasks.adapter import TaskModel
from fedgrove.node.learning.tasks.layers import layer_outputs, path_gradients
from fedgrove.node.learning.tasks.task import Task
from torch.nn import functional
from torch.utils.data import ConcatDataset

if TYPE_CHECKING:
    from fedgrove.node.learning.models import Classifier


def local_data(strategy: Strategy, data: Any, shared: Any) -> Any:
    """The dataset that a client trains on: its own, and with ``share`` the shared one behind it."""
    return ConcatDataset([data, shared]) if isinstance(strategy, Share) else data


def begin(strategy: Strategy, task: Task, model: TaskModel, start: RoundStart) -> LocalTerm:
    """Start a round of a strategy on a task; ``model`` holds the global model now and is the one that is trained.

    Raises
    ------
    InvalidTask
        The strategy cannot be had with this task's model or targets.
    """
    if isinstance(strategy, FedAom):
        weight = strategy.weight(start.round, start.rounds)
        return TaskBehaviourTerm(strategy, weight, task, model, start) if weight else LocalTerm()
    if isinstance(strategy, FedCurv):
        return TaskCurvatureTerm(strategy.weight, task, model, start)
    # The others use of a model what a task's has, too: its parameters, and its representation of a batch.
    return strategy.begin(cast("Classifier", model), start)


class TaskBehaviourTerm(LocalTerm):
    """FedAom's weight · L_IS (eq. 7) on samples of the shared set, in a pass of their own with statistics held fixed.

    Beside the client's samples, shared ones would change what normalises both.
    """

    def __init__(self, options: FedAom, weight: float, task: Task, model: TaskModel, start: RoundStart) -> None:
        self._options, self._weight = options, weight
        self._task, self._model = task, model
        self._shared: Any = start.shared
        self._generator = start.generator
        with _as_evaluated(model):
            path = self._path()
        self._local = attributions(path, options.epsilon)
        self._target = behaviour(path.outputs, self._local)

    def start_epoch(self, epoch: int) -> None:
        """Refresh the local model's attributions when they are due."""
        if epoch > 0 and self._options.refresh and epoch % self._options.refresh == 0:
            with _as_evaluated(self._model):
                self._local = attributions(self._path(), self._options.epsilon)

    def loss(self, batch: Any) -> torch.Tensor:
        """Distance of the local model's behaviour from the global one's on the samples drawn."""
        chosen = torch.randperm(len(self._shared), generator=self._generator)[: self._options.shared_batch]
        inputs, _ = self._batch(chosen)
        with _as_evaluated(self._model):
            outputs = layer_outputs(self._task, self._model, inputs)
        weights, targets = ([layer[chosen] for layer in layers] for layers in (self._local, self._target))
        return self._weight * functional.relu(Distance.apply(weights, targets, *outputs) - ROUNDING)

    def _path(self) -> Any:
        inputs, labels = self._batch(torch.arange(len(self._shared)))
        return path_gradients(self._task, self._model, inputs, labels, self._options.q)

    def _batch(self, chosen: torch.Tensor) -> Any:
        batch = self._task.batch([self._shared[index] for index in chosen.tolist()])
        return placed(batch, self._model.device)


class TaskCurvatureTerm(CurvatureTerm):
    """FedCurv's penalty; F is the mean of the squared gradients of single samples, with statistics held fixed."""

    def __init__(self, weight: float, task: Task, model: TaskModel, start: RoundStart) -> None:
        super().__init__(weight, cast("Classifier", model), start)
        self._task, self._task_model = task, model
        self._data: Any = start.samples

    def finish(self) -> RoundEnd:
        """F at the trained weights on the client's samples, and F · w."""
        totals = [torch.zeros_like(parameter) for parameter in self._parameters]
        with _as_evaluated(self._task_model):
            for index in range(len(self._data)):
                inputs, target = placed(self._task.batch([self._data[index]]), self._task_model.device)
                loss = self._task.loss(self._model(inputs), target)
                slopes = torch.autograd.grad(loss, self._parameters, allow_unused=True)
                for total, slope in zip(totals, slopes, strict=True):
                    if slope is not None:
                        total.addcmul_(slope, slope)
        return self.sent([total / len(self._data) for total in totals])


@contextmanager
def _as_evaluated(model: TaskModel) -> Iterator[None]:
    """Inside, dropout is off and statistics stay what they are."""
    training = model.module.training
    model.module.eval()
    try:
        yield
    finally:
        model.module.train(training)
