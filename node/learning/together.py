"""Local training of many clients at once: plain SGD on fully connected networks, with the clients' weights stacked.

A step of a small network takes less time than the calls that it is made of. Here each call serves a group of clients:
their weights are tensors with one more dimension, (clients, units, inputs), and a step is a batched matrix product.
Every client keeps its own draws of batches (those of ``node.learning.training``), its own number of steps and its own
last, smaller batch of an epoch: batches are filled up with samples of weight zero, and clients with fewer steps stand
behind those with more, so that the ones still training are a slice of the stack. This is the same mathematics as one
client after the other, with sums in another order: the last bits differ. A client's bytes may depend on its group (a
library may choose another kernel for another shape), so whoever forms groups must form the same ones again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from fedgrove.common.errors import InvalidInput
from fedgrove.node.learning.models import FULLY_CONNECTED, PERCEPTRONS, Classifier, empty_model, load_tensors
from fedgrove.node.learning.reproducible import generator_of, reproducible
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.settings import ModelSpec, TrainingSettings
from fedgrove.node.learning.strategies import Strategy
from fedgrove.node.learning.strategies.fedavg import FedAvg
from fedgrove.node.learning.strategies.fedprox import FedProx


@dataclass(frozen=True)
class TogetherUpdate:
    """What a group's round gave, in the order in which the clients were given.

    Attributes
    ----------
    vectors : float32 array (clients, parameters)
        Trained weights, as ``flatten`` orders them.
    losses : float64 array (clients,)
        Mean cross-entropy of each client's last local epoch; NaN where its training left the finite numbers.
    """

    vectors: np.ndarray = field(repr=False)
    losses: np.ndarray


def check_suits(spec: ModelSpec, strategy: Strategy, settings: TrainingSettings) -> None:
    """Raise InvalidInput unless clients with these terms can be trained together."""
    networks = (*PERCEPTRONS, *FULLY_CONNECTED)
    if spec.name not in networks:
        raise InvalidInput(f"clients are trained together on {' or '.join(networks)} only, not on {spec.name}")
    if type(strategy) not in (FedAvg, FedProx):
        raise InvalidInput(f"clients are trained together with fedavg or fedprox only, not with {strategy.name}")
    if settings.augmentations:
        raise InvalidInput("clients are trained together without crop, flip and erase only")


def train_together(
    spec: ModelSpec,
    tensors: Mapping[str, np.ndarray],
    samples: Sequence[Samples],
    clients: Sequence[int],
    strategy: Strategy,
    settings: TrainingSettings,
    *,
    number: int,
    seed: int,
) -> TogetherUpdate:
    """Train the global model on each client's samples.

    Parameters
    ----------
    tensors : mapping of str to ndarray
        The global model.
    samples : sequence of Samples
        Of each client, at least one.
    clients : sequence of int
        Their numbers, which with ``seed`` and ``number`` (the round's, from 1) seed their draws.

    Raises
    ------
    InvalidInput
        Terms that do not suit (``check_suits``), or a client without samples.
    """
    check_suits(spec, strategy, settings)
    sizes = np.array([len(each) for each in samples])
    if not sizes.all():
        raise InvalidInput("there are no samples: a client needs at least one")
    order = np.argsort(-sizes, kind="stable")  # who takes most steps comes first
    with reproducible(), torch.no_grad():
        model = empty_model(spec)
        load_tensors(model, tensors)
        batches = _batches(samples, clients, order, settings, number, seed)
        stack = _Stack(model, len(order), settings, settings.rate_of(number), getattr(strategy, "mu", 0.0))
        losses = np.empty(len(order))
        losses[order] = _descend(stack, batches, sizes[order], spec.classes, settings)
        vectors = stack.vectors()[np.argsort(order)]
    losses[~np.isfinite(vectors).all(1)] = np.nan
    return TogetherUpdate(vectors, np.where(np.isfinite(losses), losses, np.nan))


@dataclass(frozen=True)
class _Batches:
    """Samples of a group, and whose turn is when.

    Attributes
    ----------
    images : float32 tensor (samples, pixels)
        Of all clients.
    labels : int64 tensor (samples,)
    chosen : int64 tensor (steps, clients, batch)
        Each step's samples; any where the weight is zero.
    weights : float32 tensor (steps, clients, batch, 1)
        One over the size of the batch, or zero.
    training : sequence of int
        How many clients, the first ones, take each step.
    """

    images: torch.Tensor
    labels: torch.Tensor
    chosen: torch.Tensor
    weights: torch.Tensor
    training: Sequence[int]


def _batches(
    samples: Sequence[Samples], clients: Sequence[int], order: np.ndarray, settings: TrainingSettings, *turn: int
) -> _Batches:
    sizes = np.array([len(samples[place]) for place in order])
    size, epochs, first = settings.batch_size, settings.epochs, np.cumsum(sizes) - sizes
    steps = -(-sizes // size)  # an epoch
    chosen = np.zeros((len(order), epochs * int(steps[0]) * size), np.int64)
    weights = np.zeros(chosen.shape, np.float32)
    for row, place in enumerate(order):
        count, width = sizes[row], steps[row] * size
        each = np.full(count, 1 / size, np.float32)
        each[count - count % size :] = 1 / (count % size or size)
        for epoch, drawn in enumerate(_orders(int(count), epochs, clients[place], *turn)):
            part = slice(epoch * width, epoch * width + count)
            chosen[row, part], weights[row, part] = first[row] + drawn, each
    in_steps = (len(order), -1, size)
    return _Batches(
        torch.from_numpy(np.concatenate([samples[place].x for place in order])).flatten(1),
        torch.from_numpy(np.concatenate([samples[place].y for place in order])),
        torch.from_numpy(chosen).view(in_steps).transpose(0, 1).contiguous(),
        torch.from_numpy(weights).view(in_steps).transpose(0, 1).contiguous().unsqueeze(3),
        [int(np.count_nonzero(epochs * steps > step)) for step in range(epochs * int(steps[0]))],
    )


def _orders(count: int, epochs: int, client: int, number: int, seed: int) -> list[np.ndarray]:
    """The order of a client's samples in each epoch, drawn as when it trains alone."""
    generator = generator_of("training", seed, client, number)
    return [torch.randperm(count, generator=generator).numpy() for _ in range(epochs)]


def _descend(
    stack: "_Stack", batches: _Batches, sizes: np.ndarray, classes: int, settings: TrainingSettings
) -> np.ndarray:
    """Take all steps; the mean cross-entropy of each client's last epoch."""
    answers = torch.nn.functional.one_hot(batches.labels, classes).to(batches.images.dtype)
    an_epoch = -(-sizes // settings.batch_size)
    total = np.zeros(len(sizes))
    for step, count in enumerate(batches.training):
        chosen, weights = batches.chosen[step, :count], batches.weights[step, :count]
        in_step = (*chosen.shape, -1)
        images = batches.images.index_select(0, chosen.flatten()).view(in_step)
        wanted = answers.index_select(0, chosen.flatten()).view(in_step)
        likelihoods = stack.step(images, wanted, weights)
        last = np.flatnonzero(step >= an_epoch[:count] * (settings.epochs - 1))
        if len(last):
            entropies = torch.where(weights > 0, likelihoods * wanted, 0.0).sum((1, 2), dtype=torch.float64)
            total[last] -= entropies.numpy()[last]
    return total / sizes


class _Stacked:
    """One tensor of weights, stacked over the clients, and how SGD moves it."""

    def __init__(
        self, weights: torch.Tensor, clients: int, settings: TrainingSettings, rate: float, pull: float
    ) -> None:
        self.weights = torch.atleast_2d(weights.detach()).repeat(clients, 1, 1)
        self._start = self.weights[:1].clone()
        self._moving = torch.zeros_like(self.weights) if settings.momentum else None
        self._settings, self._rate, self._pull = settings, rate, pull

    def move(self, gradient: torch.Tensor) -> None:
        """w ← w − η·v, v ← momentum·v + gradient, of the clients that the gradient is of; as ``Sgd`` does."""
        weights = self.weights[: len(gradient)]
        if self._pull:
            gradient.add_(weights - self._start, alpha=self._pull)
        if self._settings.weight_decay:
            gradient.add_(weights, alpha=self._settings.weight_decay)
        if self._moving is not None:
            gradient = self._moving[: len(gradient)].mul_(self._settings.momentum).add_(gradient)
        weights.sub_(gradient, alpha=self._rate)


class _StackedLayer:
    """A fully connected layer of all clients."""

    def __init__(self, layer: torch.nn.Linear, stacked: Callable[[torch.Tensor], _Stacked]) -> None:
        self.weight = stacked(layer.weight)
        self.bias = None if layer.bias is None else stacked(layer.bias)

    def outputs(self, inputs: torch.Tensor) -> torch.Tensor:
        product = torch.bmm(inputs, self.weight.weights[: len(inputs)].transpose(1, 2))
        return product if self.bias is None else product.add_(self.bias.weights[: len(inputs)])

    def learn(self, inputs: torch.Tensor, slopes: torch.Tensor) -> None:
        """Take a step, given the slopes of the loss at the outputs."""
        self.weight.move(torch.bmm(slopes.transpose(1, 2), inputs))
        if self.bias is not None:
            self.bias.move(slopes.sum(1, keepdim=True))

    def tensors(self, name: str) -> dict[str, torch.Tensor]:
        """All clients' weights by the names that a model has for them: (clients, weights)."""
        found = {f"{name}.weight": self.weight, f"{name}.bias": self.bias}
        return {key: each.weights.flatten(1) for key, each in found.items() if each is not None}


class _Stack:
    """The clients' networks: fully connected layers with ReLU between, in the order of the model's children."""

    def __init__(self, model: Classifier, clients: int, settings: TrainingSettings, rate: float, pull: float) -> None:
        def stacked(weights: torch.Tensor) -> _Stacked:
            return _Stacked(weights, clients, settings, rate, pull)

        children = model.named_children()
        self._layers = {
            name: _StackedLayer(each, stacked) for name, each in children if isinstance(each, torch.nn.Linear)
        }

    def step(self, images: torch.Tensor, wanted: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Take a step with the first clients.

        Parameters
        ----------
        images : float32 tensor (clients, batch, pixels)
        wanted : float32 tensor (clients, batch, classes)
            One-hot labels.
        weights : float32 tensor (clients, batch, 1)
            Of the samples in the mean.

        Returns
        -------
        float32 tensor (clients, batch, classes)
            The logarithms of the likelihoods before the step.
        """
        *below, last = self._layers.values()
        inputs = [images]
        for layer in below:
            inputs.append(layer.outputs(inputs[-1]).relu_())
        likelihoods = last.outputs(inputs[-1]).log_softmax(2)
        slopes = likelihoods.exp().sub_(wanted).mul_(weights)
        for layer in reversed((*below, last)):
            into = inputs.pop()
            sent_back = torch.bmm(slopes, layer.weight.weights[: len(slopes)]) if inputs else slopes
            layer.learn(into, slopes)
            if inputs:
                slopes = sent_back.mul_(into.sign_())  # ReLU's are 0 or 1
        return likelihoods

    def vectors(self) -> np.ndarray:
        """All weights: float32 (clients, parameters), in the order of ``flatten``."""
        named = {key: each for name, layer in self._layers.items() for key, each in layer.tensors(name).items()}
        return torch.cat([named[key] for key in sorted(named)], 1).numpy()
