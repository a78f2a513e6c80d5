"""A round of local training on a task, and its evaluation; the same bytes whenever and wherever it runs.

The work runs on one thread with deterministic kernels and generators of its own (``node.learning.reproducible``). The
shipped networks are trained in any process (``node.learning.networks``); the code of other tasks is called in a process
that holds no key (``node.tasks.sandbox``).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.tensors import Tensors, prefixed, without_prefix
from fedgrove.node.learning import plain_descent
from fedgrove.node.learning.augment import augment
from fedgrove.node.learning.devices import check
from fedgrove.node.learning.draws import on_device, placed
from fedgrove.node.learning.local_update import DivergedTraining, LocalUpdate
from fedgrove.node.learning.reproducible import generator_of, reproducible, seed_global
from fedgrove.node.learning.settings import MAX_CONFUSED, TrainingSettings, confusion_names
from fedgrove.node.learning.sgd import Sgd
from fedgrove.node.learning.strategies.base import Batch, LocalTerm, RoundStart, Strategy
from fedgrove.node.learning.tasks.batches import EVALUATION_BATCH, batches
from fedgrove.node.learning.tasks.model import TaskModel
from fedgrove.node.learning.tasks.network import Network, NetworkModel
from fedgrove.node.learning.tasks.standardise import fill, refuse_at_home
from fedgrove.node.learning.tasks.task import InvalidTask, Task

HOME, STRATEGY = "home/", "strategy/"  # what a client keeps: its own layers, and the strategy's state

Observer = Callable[[Any, Any], object]
"""Is shown the output and the targets of each batch of an evaluation."""


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
    kind = NetworkModel if isinstance(task, Network) else TaskModel
    model = kind(task, module, keep, buffers)
    model.federated.read()
    return model


def first_tensors(task: Task, strategy: Strategy, seed: int, keep: Sequence[str] = (), buffers: bool = True) -> Tensors:
    """What a federation starts from: a fresh model's tensors, and what the strategy sends with them."""
    with reproducible():
        seed_global("first model", seed)
        model = build(task, keep, buffers)
    return model.tensors() | strategy.initial_extras(model.weights())


def kept_layout(model: TaskModel, strategy: Strategy) -> dict[str, tuple[int, ...]]:
    """Names and shapes of what a client keeps from round to round: ``LocalUpdate.state`` of every round."""
    kept = {HOME + name: value.shape for name, value in model.federated.at_home().items()}
    if strategy.remembers:
        kept |= {STRATEGY + name: tuple(value.shape) for name, value in model.named_parameters()}
    return kept


def prepare(
    model: TaskModel,
    tensors: Mapping[str, np.ndarray],
    shared: Any,
    strategy: Strategy,
    *,
    number: int,
    rounds: int,
    device: str = "cpu",
) -> object:
    """Do the strategy's work that is the same for all clients of a round, for a process that trains several.

    Parameters are those of ``train``; the value is its ``prepared``. None where a strategy has no such work.
    """
    with reproducible(), _on_device(model, device):
        model.load(tensors)
        return strategy.prepare(model, shared, number=number, rounds=rounds)


def train(
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
    prepared: object = None,
    device: str = "cpu",
    sampling_rate: float = 1.0,
) -> LocalUpdate:
    """Train the global model on one client's data.

    Where the global model standardises by statistics that it does not hold yet, the round sums them instead
    (``tasks.standardise``).

    Parameters
    ----------
    model : TaskModel
        Its weights are replaced.
    data : dataset
        Of ``tasks.task.dataset_of``.
    tensors : mapping of str to ndarray
        The global model, and the averaged extras of the strategy if it has any.
    shared : dataset, optional
        The federation's shared set, where the strategy needs one.
    number, rounds : int
        t, from 1, and T. Rounds after T train as round T does where a strategy's schedule is over.
    client, seed : int
        With ``number`` they seed all randomness.
    state : mapping, optional
        ``LocalUpdate.state`` of this client's last round.
    prepared : object, optional
        What ``prepare`` gave for this round's model, shared set and strategy; found here when absent. The bytes are the
        same either way.
    device : str
        Where torch computes, see ``node.learning.devices``. All draws are made on the processor, so they are the same
        everywhere; sums are not, to the last bit.
    sampling_rate : float
        Share of the members that a round draws.

    Raises
    ------
    DivergedTraining
        The loss or a tensor is not finite.
    InvalidTask, InvalidContent
        The task cannot be trained, or the tensors are not those of its model.
    InvalidInput
        The settings cannot be had in this process.
    """
    if strategy.needs_shared and shared is None:
        raise InvalidTask(f"{strategy.name} needs a shared set: give the federation one, or choose fedavg")
    check(settings, device)
    kept = dict(state or {})
    with reproducible(), _on_device(model, device):
        if not model.pure:
            seed_global("task", seed, client, number)
        model.federated.restore(without_prefix(HOME, kept))
        model.load(tensors)
        sums = not model.pure and fill(model.module, model.federated.buffers, lambda: _evaluate(model, data))
        if prepared is None:
            prepared = strategy.prepare(model, shared, number=number, rounds=rounds)
        start = RoundStart(
            number,
            rounds,
            strategy.local_data(data, shared),
            shared,
            model.federated.extras(tensors),
            without_prefix(STRATEGY, kept),
            generator_of("strategy", seed, client, number),
            prepared,
            sampling_rate,
        )
        term = strategy.begin(model, start)
        generator = generator_of("training", seed, client, number)
        if sums:
            loss = _evaluate(model, data).totals["loss"] / len(data)
        elif plain_descent.suits(model, start.samples, term, settings):
            loss = plain_descent.descend(model, start.samples, settings, settings.rate_of(number), generator)
        else:
            loss = _descend(model, start, term, settings, generator)
        end = term.finish()
        upload = {**model.tensors(), **end.extras}
        home = prefixed(HOME, model.federated.at_home())
    if not (math.isfinite(loss) and all(np.isfinite(value).all() for value in (*upload.values(), *home.values()))):
        raise DivergedTraining(diverged(client, number, settings))
    return LocalUpdate(upload, len(data), loss, home | prefixed(STRATEGY, end.state))


def diverged(client: int, number: int, settings: TrainingSettings) -> str:
    """What to say of a training that left the finite numbers."""
    return (
        f"client {client} diverged in round {number}: lower learning_rate (now {settings.learning_rate:g}), "
        f"momentum (now {settings.momentum:g}) or the strategy's weight"
    )


def evaluate(
    model: TaskModel,
    data: Any,
    tensors: Mapping[str, np.ndarray],
    device: str = "cpu",
    squares: bool = False,
    observer: Observer | None = None,
) -> Sums:
    """Sum the task's metrics, and its loss, over all samples of a dataset.

    With ``squares`` also the squares of their losses, and the confusion matrix of named classes.
    """
    with reproducible(), _on_device(model, device):
        if not model.pure:
            seed_global("evaluation")
        model.load(tensors)
        return _evaluate(model, data, squares, observer)


@torch.no_grad()
def _evaluate(model: TaskModel, data: Any, squares: bool = False, observer: Observer | None = None) -> Sums:
    """The sums of the model as it is. A fault of the task's own metrics costs these, and nothing else."""
    predicted = _PredictedClasses()
    totals: dict[str, float] = {}
    own: dict[str, float] = {}
    fault: Exception | None = None
    task = model.task
    answers = task.answers() if squares else None
    classes = len(answers.classes) if answers is not None and len(answers.classes) <= MAX_CONFUSED else 0
    with model.as_evaluated():
        for inputs, targets, count in batches(task, data, torch.arange(len(data)), EVALUATION_BATCH):
            inputs, targets = placed(inputs, model.device), placed(targets, model.device)
            output = model(inputs)
            loss, squared = _losses(model, output, targets, count, squares)
            _add(totals, {"loss": loss} | ({"squared_loss": squared} if squares else {}))
            if _are_scores(output, targets):
                predicted.add(output.argmax(-1), targets)
            if classes:
                _add(totals, _confusion(output, targets, classes))
            if observer is not None:
                observer(output, targets)
            if fault is None:
                try:
                    _add(own, {name: float(value) for name, value in task.metrics(output, targets).items()})
                except MemoryError:
                    raise
                except Exception as raised:
                    fault = raised
    return Sums(len(data), totals if fault else {**totals, **own}, predicted.only, fault)


class _PredictedClasses:
    """Whether a model answers with one class whatever it is asked, batch by batch."""

    def __init__(self) -> None:
        self._predicted: set[int] = set()
        self._true: set[int] = set()

    def add(self, predicted: torch.Tensor, true: torch.Tensor) -> None:
        """Add a batch's classes, both int64 of shape (n,); after two, more make no difference."""
        for known, found in ((self._predicted, predicted), (self._true, true)):
            if len(known) < 2 and len(found):
                known.update((int(found.min()), int(found.max())))

    @property
    def only(self) -> int | None:
        """The class that was predicted for every sample, where the samples have several; else None."""
        return next(iter(self._predicted)) if len(self._predicted) == 1 and len(self._true) > 1 else None


def _add(totals: dict[str, float], values: Mapping[str, float]) -> None:
    for name, value in values.items():
        totals[name] = totals.get(name, 0.0) + value


def _are_scores(output: Any, targets: Any) -> bool:
    """Whether a batch's output is a score for each class, and its targets are classes."""
    if not (isinstance(output, torch.Tensor) and isinstance(targets, torch.Tensor)):
        return False
    return output.dim() == 2 and targets.dim() == 1 and targets.dtype == torch.int64


def _confusion(output: torch.Tensor, targets: torch.Tensor, classes: int) -> dict[str, float]:
    counts = (targets * classes + output.argmax(-1)).bincount(minlength=classes * classes)
    return dict(zip(confusion_names(classes), map(float, counts.tolist()), strict=True))


def _descend(
    model: TaskModel, start: RoundStart, term: LocalTerm, settings: TrainingSettings, generator: torch.Generator
) -> float:
    """Run the local epochs; return the mean loss of the last, not finite as soon as one epoch's is not."""
    task, data = model.task, start.samples
    if not model.pure:
        model.module.train()
    weights, rate, device = model.trained(), settings.rate_of(start.round), model.device
    optimizer: Optimizer = task.optimizer(weights, rate) or Sgd(weights, rate, settings.momentum, settings.weight_decay)
    loss = math.nan
    for epoch in range(settings.epochs):
        term.start_epoch(epoch)
        total, seen = 0.0, 0
        order = torch.randperm(len(data), generator=generator)
        for inputs, targets, count in batches(task, data, order, settings.batch_size):
            if count == 1 and seen and not model.pure:
                break  # BatchNorm has no variance of one sample
            inputs, targets = placed(augment(inputs, settings, generator), device), placed(targets, device)
            backward = partial(_backward, model, weights, inputs, targets, term, settings)
            own = backward()
            term.before_step(backward)
            optimizer.step()
            total, seen = total + own.item() * count, seen + count
        loss = total / seen
        if not math.isfinite(loss):
            break
    _clear(weights)
    return loss


def _backward(
    model: TaskModel,
    weights: Sequence[nn.Parameter],
    inputs: Any,
    targets: Any,
    term: LocalTerm,
    settings: TrainingSettings,
) -> torch.Tensor:
    """Leave a batch's gradients at the parameters; return its loss, without what the term adds."""
    batch = _forward(model, inputs, targets, term, settings)
    own = model.loss(term.calibrated(batch.output), targets)
    added = term.loss(batch)
    _clear(weights)
    (own if added is None else own + added).backward()
    return own


def _clear(weights: Sequence[nn.Parameter]) -> None:
    """As ``Module.zero_grad``, which walks through the whole module: at every step that is a third of a small one."""
    for weight in weights:
        weight.grad = None


def _forward(model: TaskModel, inputs: Any, targets: Any, term: LocalTerm, settings: TrainingSettings) -> Batch:
    companions = term.companions()
    if companions is not None:
        output, others = model.with_companions(inputs, companions)
        return Batch(inputs, targets, output, companions=others)
    if settings.precision == "bf16":
        return _forward_bf16(model, inputs, targets, term)
    if term.contrasts:
        return Batch(inputs, targets, *model.with_representation(inputs))
    return Batch(inputs, targets, model(inputs))


def _forward_bf16(model: TaskModel, inputs: torch.Tensor, targets: torch.Tensor, term: LocalTerm) -> Batch:
    """As ``_forward``, its layers in bfloat16; logits and representation come out in float32."""
    with torch.autocast("cpu", torch.bfloat16):
        output, representation = model.with_representation(inputs)
    return Batch(inputs, targets, output.float(), representation.float() if term.contrasts else None)


def _losses(model: TaskModel, output: Any, targets: Any, count: int, squares: bool) -> tuple[float, float]:
    """The sum of a batch's losses, and of their squares where these are asked for.

    Where the task gives the loss of the whole batch alone, its rows are taken one by one; of their mean where the loss
    takes no batch of one.
    """
    rows = model.task.losses(output, targets)
    if rows is not None:
        if not isinstance(rows, torch.Tensor) or rows.shape != (count,):
            raise InvalidTask("losses(self, output, target) must return a tensor with one number for each sample")
        exact = rows.double()
        return float(exact.sum()), float(exact.square().sum())
    mean = float(model.loss(output, targets))
    return mean * count, _squares(model, output, targets, count, mean) if squares else math.nan


def _squares(model: TaskModel, output: Any, targets: Any, count: int, mean: float) -> float:
    try:
        rows = ((row_of(output, index, count), row_of(targets, index, count)) for index in range(count))
        return math.fsum(float(model.loss(*row)) ** 2 for row in rows)
    except (RuntimeError, ValueError, TypeError, IndexError, OverflowError, InvalidInput):
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


def _on_device(model: TaskModel, device: str) -> AbstractContextManager[None]:
    return on_device(model.module, device, not model.pure)
