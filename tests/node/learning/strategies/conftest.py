"""A small model, samples and round starts for the strategies' mathematics."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.local_update import LocalUpdate
from fedgrove.node.learning.models import build_model, initial_tensors
from fedgrove.node.learning.networks import train
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.settings import ModelSpec, TrainingSettings
from fedgrove.node.learning.strategies import RoundStart, Strategy
from fedgrove.node.learning.tasks.network import Network, NetworkModel
from fedgrove.node.learning.tasks.task import Pairs


def pairs(value: object) -> object:
    """Samples as a dataset; anything else as it is."""
    return Pairs(value.x, value.y) if isinstance(value, Samples) else value


SPEC = ModelSpec("small-cnn", (1, 8, 8), 5)


def random_samples(count: int, seed: int) -> Samples:
    """Noise with labels in turn."""
    rng = np.random.default_rng(seed)
    return Samples(rng.random((count, 1, 8, 8), dtype=np.float32), np.arange(count, dtype=np.int64) % 5)


@pytest.fixture
def samples() -> Callable[[int, int], Samples]:
    return random_samples


@pytest.fixture
def model() -> NetworkModel:
    return NetworkModel(Network(SPEC), build_model(SPEC.name, SPEC.input_shape, SPEC.classes, seed=0))


@pytest.fixture
def weights() -> Tensors:
    return initial_tensors(SPEC.name, SPEC.input_shape, SPEC.classes, 0)


@pytest.fixture
def move() -> Callable[..., list[torch.Tensor]]:
    """``move(model, seed, step)``: go a step in a random direction, which is returned."""

    def go(model: NetworkModel, seed: int, step: float) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        directions = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in model.parameters()]
        with torch.no_grad():
            for parameter, direction in zip(model.parameters(), directions, strict=True):
                parameter += step * direction
        return directions

    return go


@pytest.fixture
def start(samples) -> Callable[..., RoundStart]:
    """``start(extras=…, state=…, …)``: what a client has at hand in round 2 of 10."""

    def make(**given: object) -> RoundStart:
        defaults = {"samples": samples(20, 9), "shared": None, "extras": {}, "state": {}}
        values = {name: pairs(value) for name, value in {**defaults, **given}.items()}
        return RoundStart(2, 10, **values, generator=torch.Generator().manual_seed(0))

    return make


@pytest.fixture
def trained(weights, samples) -> Callable[..., LocalUpdate]:
    """``trained(strategy, …)``: a client's round from the initial weights; what is given replaces the defaults."""

    def run(strategy: Strategy, **given: object) -> LocalUpdate:
        values = {"model": {**weights, **strategy.initial_extras(weights)}, "number": 2, "state": None, "shared": None}
        values |= {"samples": samples(40, 2), "settings": TrainingSettings(epochs=2, batch_size=7, crop=1)} | given
        return train(
            SPEC, values["model"], values["samples"], values["shared"], strategy, values["settings"],
            number=values["number"], rounds=10, client=3, seed=1, state=values["state"],
        )  # fmt: skip

    return run


@pytest.fixture
def same(weights) -> Callable[[LocalUpdate, LocalUpdate], bool]:
    """Whether two updates have the same weights, to the bit."""

    def compare(first: LocalUpdate, second: LocalUpdate) -> bool:
        return all(np.array_equal(first.tensors[name], second.tensors[name]) for name in weights)

    return compare
