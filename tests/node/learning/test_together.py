"""Clients that are trained together come to what each comes to alone, up to rounding, whatever their samples."""

import numpy as np
import pytest

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.tensors import flatten
from fedgrove.node.learning.local_update import LocalUpdate
from fedgrove.node.learning.models import initial_tensors
from fedgrove.node.learning.networks import train
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.settings import ModelSpec, TrainingSettings
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.learning.together import TogetherUpdate, check_suits, train_together

SHAPE, CLASSES = (1, 4, 4), 4
PLAIN = TrainingSettings(epochs=3, batch_size=5, learning_rate=0.1, momentum=0.0, weight_decay=0.0)
HEAVY = TrainingSettings(epochs=2, batch_size=5, learning_rate=0.05, momentum=0.9, weight_decay=0.1)
# Fewer than a batch, one batch, whole batches, and some more; not in the order of their sizes.
SIZES = (3, 17, 5, 10, 1, 11)
# Steps are sums of some ten products of numbers near 1, in float32: they differ by a few units of the last place.
ROUNDING = 1e-6


def samples_of(client: int, count: int) -> Samples:
    rng = np.random.default_rng(client)
    return Samples(rng.random((count, *SHAPE), dtype=np.float32), rng.integers(0, CLASSES, count))


def alone(spec: ModelSpec, client: int, count: int, strategy, settings: TrainingSettings) -> LocalUpdate:
    weights = initial_tensors(spec.name, SHAPE, CLASSES, 1)
    position = {"number": 2, "rounds": 5, "client": client, "seed": 4}
    return train(spec, weights, samples_of(client, count), None, strategy, settings, **position)


def together(spec: ModelSpec, clients: dict[int, int], strategy, settings: TrainingSettings) -> TogetherUpdate:
    samples = [samples_of(client, count) for client, count in clients.items()]
    weights = initial_tensors(spec.name, SHAPE, CLASSES, 1)
    return train_together(spec, weights, samples, list(clients), strategy, settings, number=2, seed=4)


@pytest.mark.parametrize("model", ["small-mlp", "geyer-mlp"])
@pytest.mark.parametrize("settings", [PLAIN, HEAVY], ids=["plain", "momentum and decay"])
@pytest.mark.parametrize(("strategy", "options"), [("fedavg", {}), ("fedprox", {"mu": 0.5})])
def test_unequal_clients_come_to_what_each_comes_to_alone(model, settings, strategy, options):
    spec, method = ModelSpec(model, SHAPE, CLASSES), make_strategy(strategy, options)
    clients = dict(enumerate(SIZES, 1))
    found = together(spec, clients, method, settings)
    for place, (client, count) in enumerate(clients.items()):
        expected = alone(spec, client, count, method, settings)
        np.testing.assert_allclose(found.vectors[place], flatten(expected.tensors), rtol=0, atol=ROUNDING)
        assert found.losses[place] == pytest.approx(expected.loss, rel=1e-5)


def test_a_group_gives_the_same_bytes_again_and_who_comes_first_leaves_no_trace():
    spec, method = ModelSpec("small-mlp", SHAPE, CLASSES), make_strategy("fedavg")
    clients = dict(enumerate(SIZES, 1))
    first = together(spec, clients, method, PLAIN)
    again = together(spec, clients, method, PLAIN)
    assert first.vectors.tobytes() == again.vectors.tobytes() and first.losses.tobytes() == again.losses.tobytes()
    turned = together(spec, dict(reversed(clients.items())), method, PLAIN)
    assert turned.vectors[::-1].tobytes() == first.vectors.tobytes()


def test_a_client_that_diverges_does_not_touch_the_others():
    spec, method = ModelSpec("small-mlp", SHAPE, CLASSES), make_strategy("fedavg")
    weights = initial_tensors(spec.name, SHAPE, CLASSES, 1)
    fine, lost = samples_of(1, 7), samples_of(2, 7)
    lost.x[0] = np.inf
    whole = train_together(spec, weights, [fine, lost], [1, 2], method, PLAIN, number=2, seed=4)
    assert np.isnan(whole.losses[1]) and np.isfinite(whole.losses[0]) and np.isfinite(whole.vectors[0]).all()
    np.testing.assert_allclose(whole.vectors[0], flatten(alone(spec, 1, 7, method, PLAIN).tensors), atol=ROUNDING)


@pytest.mark.parametrize(
    ("model", "strategy", "changes", "word"),
    [
        ("small-cnn", "fedavg", {}, "not on small-cnn"),
        ("small-mlp", "moon", {}, "not with moon"),
        ("small-mlp", "fedaom", {}, "not with fedaom"),
        ("small-mlp", "fedavg", {"crop": 1}, "without crop"),
        ("small-mlp", "fedavg", {"flip": True}, "without crop"),
        ("small-mlp", "fedavg", {"erase": 0.5}, "without crop"),
    ],
)
def test_what_cannot_be_trained_together_is_refused(model, strategy, changes, word):
    with pytest.raises(InvalidInput, match=word):
        check_suits(ModelSpec(model, SHAPE, CLASSES), make_strategy(strategy), TrainingSettings(**changes))


def test_a_client_without_samples_is_refused():
    spec = ModelSpec("small-mlp", SHAPE, CLASSES)
    with pytest.raises(InvalidInput, match="at least one"):
        together(spec, {1: 3, 2: 0}, make_strategy("fedavg"), PLAIN)
