"""A round of local training on a task, and its evaluation; the same bytes whenever and wherever it runs.

Runs a member's own code, so nodes call it in a process that holds no key (``node.sandbox``).
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast

import numpy as np
import torch
from fedgrove.node.base.tensors import Tensors, prefixed, without_prefix
from fedgrove.node.learning.devices import check
from fedgrove.node.learning.draws import on_device, placed
from fedgrove.node.learning.predicted_classes import PredictedClasses
from fedgrove.node.learning.settings import MAX_CONFUSED, TrainingSettings, confusion_names
from fedgrove.node.learning.sgd import Sgd
from fedgrove.node.learning.strategies.base import Batch, LocalTerm, RoundStart, Strategy
from fedgrove.node.learning.tasks.adapter import TaskModel
from fedgrove.node.learning.tasks.batches import EVALUATION_BATCH, batches
from fedgrove.node.learning.tasks.standardise import fill, refuse_at_home
from fedgrove.node.learning.tasks.strategies import begin, local_data
from fedgrove.node.learning.tasks.task import InvalidTask, Task
from fedgrove.node.learning.training import DivergedTraining, LocalUpdate, generator_of, reproducible

HOME, STRATEGY = "home/", "strategy/"  # what a client keeps: its own layers, and the strategy's state


@dataclass(frozen=True)
class TaskBatch:
    """One step's inputs, targets and output; ``representation`` (n, units) where the strategy contrasts it."""

    x: Any
    y: torch.Tensor
    output: Any
    representation: torch.Tensor | None = None

    @property
    def logits(self) -> Any:
        """The output, by the name that it has in batches of the shipped networks."""
        return self.output


@dataclass(frozen=True)
class Sums:
    """Metrics of a model on ``samples`` samples, summed, by name; ``loss`` is among them.

    ``only_class`` is the class that it predicts for every sample, where the samples have several; else None.
    ``fault`` is what the task's ``metrics`` raised; then only losses are there.
    """

    samples: int
    totals: dict[str, float]
    only_class: int | None = None
    fault: Exception | None = None


class Optimizer(Protocol):
    """What changes weights by their gradients."""

    def step(self) -> Any: ...


def build(task: Task, keep: Sequence[str] = (), buffers: bool = True) -> TaskModel:
    """The task's model, on the processor, its weights as the task made them.

    Raises
    ------
    InvalidTask
        ``model`` returns no module, one without federated tensors, or one that standardises where it cannot.
    """
    module = task.model()
    if not isinstance(module, torch.nn.Module):
        raise InvalidTask(f"model(self) must return a torch module, not {type(module).__name__}")
    if not buffers:
        refuse_at_home(module, keep)
    model = TaskModel(module, keep, buffers)
    model.federated.read()
    return model


def first_tensors(task: Task, strategy: Strategy, seed: int, keep: Sequence[str] = (), buffers: bool = True) -> Tensors:
    """What a federation starts from: a fresh model's tensors, and what the strategy sends with them."""
    with reproducible():
        _seed("first model", seed, 0, 0)
        model = build(task, keep, buffers)
        tensors = model.tensors()
    return {**tensors, **strategy.initial_extras(weights_of(model))}


def weights_of(model: TaskModel) -> Tensors:
    """The parameters among the federated tensors, which strategies hold or weigh."""
    tensors = model.tensors()
    return {name: tensors[name] for name, _ in model.named_parameters()}


def kept_layout(model: TaskModel, strategy: Strategy) -> dict[str, tuple[int, ...]]:
    """Names and shapes of what a client keeps from round to round: ``LocalUpdate.state`` of every round."""
    kept = {HOME + name: value.shape for name, value in model.federated.at_home().items()}
    if strategy.remembers:
        kept |= {STRATEGY + name: tuple(value.shape) for name, value in model.named_parameters()}
    return kept


def train_task(
    task: Task,
    model: TaskModel,
    data: Any,
    tensors: Mapping[str, np.ndarray],
    strategy: Strategy,
    settings: TrainingSettings,
    shared: Any = None,
    *,
    number: int,
    rounds: int,
    client: int,
    seed: int,
    state: Mapping[str, np.ndarray] | None = None,
    device: str = "cpu",
    sampling_rate: float = 1.0,
) -> LocalUpdate:
    """Train the global model on one client's data. As ``node.learning.training.train``, for a task.

    Where the global model standardises by statistics that it does not hold yet, the round sums them instead
    (``tasks.standardise``).

    Parameters
    ----------
    data : dataset
        Of ``tasks.task.dataset_of``.
    tensors : mapping of str to ndarray
        The global model, and the averaged extras of the strategy if it has any.
    shared : dataset, optional
        The federation's shared set, where the strategy needs one.
    state : mapping, optional
        ``LocalUpdate.state`` of this client's last round.
    device : str
        Where torch computes; draws are made on the processor, so they are the same everywhere.
    sampling_rate : float
        Share of the members that a round draws.

    Raises
    ------
    DivergedTraining
        The loss or a tensor is not finite.
    InvalidTask, InvalidModel
        The task cannot be trained, or the tensors are not those of its model.
    UnsuitedProcessor
        The settings cannot be had in this process.
    """
    if strategy.needs_shared and shared is None:
        raise InvalidTask(f"{strategy.name} needs a shared set: give the federation one, or choose fedavg")
    check(settings, device)
    kept = dict(state or {})
    with reproducible(), on_device(model.module, device):
        _seed("task", seed, client, number)
        model.federated.restore(without_prefix(HOME, kept))
        model.load(tensors)
        sums = fill(model.module, model.federated.buffers, lambda: _evaluate(task, model, data))
        start = RoundStart(
            number,
            rounds,
            local_data(strategy, data, shared),
            shared,
            model.federated.extras(tensors),
            without_prefix(STRATEGY, kept),
            generator_of("strategy", seed, client, number),
            sampling_rate=sampling_rate,
        )
        term = begin(strategy, task, model, start)
        shuffling = generator_of("training", seed, client, number)
        if sums:
            loss = _evaluate(task, model, data).totals["loss"] / len(data)
        else:
            loss = _descend(task, model, start.samples, term, settings, number, shuffling)
        end = term.finish()
        upload = {**model.tensors(), **end.extras}
        home = prefixed(HOME, model.federated.at_home())
    if not (math.isfinite(loss) and all(np.isfinite(value).all() for value in (*upload.values(), *home.values()))):
        raise DivergedTraining(
            f"client {client} diverged in round {number}: lower learning_rate (now {settings.learning_rate:g}), "
            f"momentum (now {settings.momentum:g}) or the strategy's weight"
        )
    return LocalUpdate(upload, len(data), loss, home | prefixed(STRATEGY, end.state))


def evaluate_task(
    task: Task,
    model: TaskModel,
    data: Any,
    tensors: Mapping[str, np.ndarray],
    device: str = "cpu",
    squares: bool = False,
) -> Sums:
    """Sum the task's metrics, and its loss, over all samples of a dataset; the squares of their losses, if asked to."""
    with reproducible(), on_device(model.module, device):
        seed_evaluation()
        model.load(tensors)
        return _evaluate(task, model, data, squares)


@torch.no_grad()
def _evaluate(task: Task, model: TaskModel, data: Any, squares: bool = False) -> Sums:
    """The sums of the model as it is. A fault of the task's own metrics costs these, and nothing else."""
    predicted = PredictedClasses()
    totals: dict[str, float] = {}
    own: dict[str, float] = {}
    fault: Exception | None = None
    answers = task.answers() if squares else None
    classes = len(answers.classes) if answers is not None and len(answers.classes) <= MAX_CONFUSED else 0
    training = model.module.training
    model.module.eval()
    for inputs, targets, count in batches(task, data, torch.arange(len(data)), EVALUATION_BATCH):
        inputs, targets = placed(inputs, model.device), placed(targets, model.device)
        output = model(inputs)
        _add(totals, {"loss": float(_loss(task, output, targets)) * count})
        if _are_scores(output, targets):
            predicted.add(output.argmax(-1), targets)
        if classes:
            _add(totals, _confusion(output, targets, classes))
        if squares:
            _add(totals, {"squared_loss": _squares(task, output, targets, count)})
        if fault is None:
            try:
                _add(own, {name: float(value) for name, value in task.metrics(output, targets).items()})
            except MemoryError:
                raise
            except Exception as raised:
                fault = raised
    model.module.train(training)
    return Sums(len(data), totals if fault else {**totals, **own}, predicted.only, fault)


def _add(totals: dict[str, float], values: Mapping[str, float]) -> None:
    for name, value in values.items():
        totals[name] = totals.get(name, 0.0) + value


def _are_scores(output: Any, targets: Any) -> bool:
    """Whether a batch's output is a score for each class, and its targets are classes."""
    if not (isinstance(output, torch.Tensor) and isinstance(targets, torch.Tensor)):
        return False
    return output.dim() == 2 and targets.dim() == 1 and targets.dtype == torch.int64


def _confusion(output: torch.Tensor, targets: torch.Tensor, classes: int) -> dict[str, float]:
    """How often which class is predicted as which, in a batch."""
    counts = (targets * classes + output.argmax(-1)).bincount(minlength=classes * classes)
    return dict(zip(confusion_names(classes), map(float, counts.tolist()), strict=True))


def _descend(
    task: Task,
    model: TaskModel,
    data: Any,
    term: LocalTerm,
    settings: TrainingSettings,
    number: int,
    generator: torch.Generator,
) -> float:
    """Run the local epochs; return the mean loss of the last, not finite as soon as one epoch's is not."""
    model.module.train()
    weights = model.trained()
    rate = settings.rate_of(number)
    optimizer: Optimizer = task.optimizer(weights, rate) or Sgd(weights, rate, settings.momentum, settings.weight_decay)
    loss = math.nan
    for epoch in range(settings.epochs):
        term.start_epoch(epoch)
        total, seen = 0.0, 0
        order = torch.randperm(len(data), generator=generator)
        for inputs, targets, count in batches(task, data, order, settings.batch_size):
            if count == 1 and seen:
                break  # BatchNorm has no variance of one sample
            inputs, targets = placed(inputs, model.device), placed(targets, model.device)
            backward = partial(_backward, task, model, inputs, targets, term)
            own = backward()
            term.before_step(backward)
            optimizer.step()
            total, seen = total + own.item() * count, seen + count
        loss = total / seen
        if not math.isfinite(loss):
            break
    model.module.zero_grad()
    return loss


def _backward(task: Task, model: TaskModel, inputs: Any, targets: Any, term: LocalTerm) -> torch.Tensor:
    """Leave a batch's gradients at the parameters; return its loss, without what the term adds."""
    batch = _forward(model, inputs, targets, term.contrasts)
    own = _loss(task, term.calibrated(batch.logits), targets)
    added = term.loss(cast(Batch, batch))
    model.module.zero_grad()
    (own if added is None else own + added).backward()
    return own


def _forward(model: TaskModel, inputs: Any, targets: Any, contrasts: bool) -> TaskBatch:
    if not contrasts:
        return TaskBatch(inputs, targets, model(inputs))
    return TaskBatch(inputs, targets, *model.with_representation(inputs))


def _loss(task: Task, output: Any, targets: Any) -> torch.Tensor:
    loss = task.loss(output, targets)
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        raise InvalidTask("loss(self, output, target) must return a tensor of one number: the mean over the batch")
    return loss.reshape(())


def _squares(task: Task, output: Any, targets: Any, count: int) -> float:
    """The sum of the squares of the samples' losses; of their mean where the loss takes no batch of one."""
    try:
        rows = ((row_of(output, index, count), row_of(targets, index, count)) for index in range(count))
        return math.fsum(float(_loss(task, *row)) ** 2 for row in rows)
    except (RuntimeError, ValueError, TypeError, IndexError, OverflowError):
        mean = float(_loss(task, output, targets))
        return mean * mean * count if math.isfinite(mean) else math.inf


def row_of(batch: Any, index: int, count: int) -> Any:
    """One sample of a batch, as a batch of one; InvalidTask where it cannot be told which part is whose."""
    if isinstance(batch, dict):
        return {name: row_of(value, index, count) for name, value in batch.items()}
    if isinstance(batch, tuple | list):
        return tuple(row_of(value, index, count) for value in batch)
    if not isinstance(batch, torch.Tensor) or not batch.shape or len(batch) != count:
        raise InvalidTask("the batch has no row for each sample")
    return batch[index : index + 1]


def seed_evaluation() -> None:
    """Seed what a model may draw from while it is applied, so that it answers the same every time."""
    _seed("evaluation", 0, 0, 0)


def seed_items() -> None:
    """Seed what a dataset may draw from, so that each of its items is the same whenever it is asked for."""
    _seed("items", 0, 0, 0)


def _seed(purpose: str, seed: int, client: int, number: int) -> None:
    """Seed what a task may draw from: torch, NumPy and ``random``."""
    drawn = generator_of(purpose, seed, client, number).initial_seed() & 0xFFFFFFFF
    torch.manual_seed(drawn)
    np.random.seed(drawn)
    random.seed(drawn)
