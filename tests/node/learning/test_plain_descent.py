"""The written-out gradients of a fully connected network are those of automatic differentiation, up to rounding."""

import numpy as np
import pytest

from fedgrove.node.learning import plain_descent
from fedgrove.node.learning.local_update import LocalUpdate
from fedgrove.node.learning.models import initial_tensors
from fedgrove.node.learning.networks import train
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.settings import ModelSpec, TrainingSettings
from fedgrove.node.learning.strategies import make_strategy

SPEC = ModelSpec("geyer-mlp", (1, 6, 6), 4)
PLAIN = TrainingSettings(epochs=3, batch_size=4, learning_rate=0.1, momentum=0.0, weight_decay=0.0)


def trained(settings: TrainingSettings, strategy: str = "fedavg", count: int = 10, **options: float) -> LocalUpdate:
    rng = np.random.default_rng(5)
    samples = Samples(rng.random((count, 1, 6, 6), dtype=np.float32), rng.integers(0, 4, count))
    method = make_strategy(strategy, options)
    weights = initial_tensors(SPEC.name, SPEC.input_shape, SPEC.classes, seed=1)
    weights |= method.initial_extras(weights)
    return train(SPEC, weights, samples, None, method, settings, number=2, rounds=5, client=3, seed=0)


def test_a_round_is_that_of_automatic_differentiation(monkeypatch):
    fast = trained(PLAIN)
    monkeypatch.setattr(plain_descent, "suits", lambda *_: False)
    reference = trained(PLAIN)
    for name, value in reference.tensors.items():
        np.testing.assert_allclose(fast.tensors[name], value, rtol=0, atol=1e-6)
    assert fast.loss == pytest.approx(reference.loss, rel=1e-5)


def test_whatever_is_more_than_plain_descent_is_left_to_automatic_differentiation(monkeypatch):
    """As other strategies are, and clients with more samples than it is made for."""

    def refuse(*_: object) -> float:
        raise AssertionError("this is not plain descent")

    monkeypatch.setattr(plain_descent, "descend", refuse)
    for change in ({"momentum": 0.5}, {"weight_decay": 0.1}, {"crop": 1}, {"flip": True}):
        trained(TrainingSettings(**{"momentum": 0.0, "weight_decay": 0.0, **change}))
    trained(PLAIN, "fedprox", mu=0.1)
    trained(PLAIN, count=73)
    with pytest.raises(AssertionError, match="not plain descent"):
        trained(PLAIN, count=72)


@pytest.mark.parametrize("strategy", ["fedcurv", "moon"])
def test_other_strategies_train_the_network_without_biases(strategy):
    assert np.isfinite(trained(PLAIN, strategy).loss)
