"""The strategies on a task: what of them depends on the form of samples or models, done for any task.

FedAom, FedCurv and the sharing of data look into models and samples, and FedLC and FedNTD into labels. The others are
what they are for the shipped networks.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import torch
from fedgrove.node.learning.attribution import attributions, behaviour
from fedgrove.node.learning.draws import placed
from fedgrove.node.learning.strategies.base import LocalTerm, RoundEnd, RoundStart, Strategy
from fedgrove.node.learning.strategies.fedaom import ROUNDING, Distance, FedAom
from fedgrove.node.learning.strategies.fedaomsam import FedAomSam
from fedgrove.node.learning.strategies.fedcurv import CurvatureTerm, FedCurv
from fedgrove.node.learning.strategies.fedlc import CalibratedTerm, FedLc
from fedgrove.node.learning.strategies.fedntd import FedNtd, NotTrueTerm
from fedgrove.node.learning.strategies.share import Share
from fedgrove.node.learning.tasks.adapter import TaskModel
from fedgrove.node.learning.tasks.batches import targets_of
from fedgrove.node.learning.tasks.layers import layer_outputs, path_gradients
from fedgrove.node.learning.tasks.task import InvalidTask, Task
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
        held = TaskBehaviourTerm(strategy, weight, task, model, start) if weight else LocalTerm()
        if isinstance(strategy, FedAomSam):
            return strategy.sharpened(held, cast("Classifier", model), start.generator)
        return held
    if isinstance(strategy, FedCurv):
        return TaskCurvatureTerm(strategy.weight, task, model, start)
    if isinstance(strategy, FedLc) and strategy.tau:
        return TaskCalibratedTerm(strategy.tau, _labels(targets_of(task, start.samples), strategy.name))
    if isinstance(strategy, FedNtd) and strategy.beta:
        return TaskNotTrueTerm(strategy, cast("Classifier", model))
    # The others use of a model what a task's has, too: its parameters, and its representation of a batch.
    return strategy.begin(cast("Classifier", model), start)


class TaskBehaviourTerm(LocalTerm):
    """FedAom's weight · L_IS (eq. 7) on samples of the shared set, in a pass of their own with statistics held fixed.

    Together with the client's samples, shared ones would change what normalises both.
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


class TaskCalibratedTerm(CalibratedTerm):
    """FedLC's margins, on the outputs of a task that has labels."""

    def calibrated(self, logits: Any) -> torch.Tensor:
        """f_c − τ · n_c^(−1/4); InvalidTask where there is not one logit for each label."""
        return super().calibrated(_logits(logits, self._labels, "fedlc"))


class TaskNotTrueTerm(NotTrueTerm):
    """FedNTD's distillation, of a task that has labels."""

    def loss(self, batch: Any) -> torch.Tensor:
        """The distillation's loss; InvalidTask where there is not one logit for each label."""
        _logits(batch.logits, _labels(batch.y, "fedntd"), "fedntd")
        return super().loss(batch)


def _labels(targets: Any, strategy: str) -> torch.Tensor:
    """Targets that are labels."""
    if not isinstance(targets, torch.Tensor) or targets.dtype != torch.int64 or targets.dim() != 1:
        raise InvalidTask(f"{strategy} needs labels as targets, one whole number a sample: choose fedavg")
    return targets


def _logits(output: Any, labels: torch.Tensor, strategy: str) -> torch.Tensor:
    """An output that is a logit for each label."""
    fine = isinstance(output, torch.Tensor) and output.dim() == 2
    if not fine or not 0 <= int(labels.min()) <= int(labels.max()) < output.shape[1]:
        raise InvalidTask(f"{strategy} needs an output of one logit for each label: choose fedavg")
    return output


@contextmanager
def _as_evaluated(model: TaskModel) -> Iterator[None]:
    """Inside, dropout is off and statistics stay what they are."""
    training = model.module.training
    model.module.eval()
    try:
        yield
    finally:
        model.module.train(training)
