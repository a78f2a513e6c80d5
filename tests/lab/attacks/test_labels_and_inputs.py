"""Labels and layer inputs out of gradients, against networks with known ones."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from fedgrove.node.learning.models import build_model
from fedgrove_lab.attacks.gradient import layer_input, recover_labels


def gradient(model: str, labels: list[int], seed: int = 0) -> tuple[dict[str, np.ndarray], torch.Tensor]:
    network = build_model(model, (1, 28, 28), 10, seed)
    x = torch.rand((len(labels), 1, 28, 28), generator=torch.Generator().manual_seed(seed))
    functional.cross_entropy(network(x), torch.tensor(labels)).backward()
    return {name: value.grad.numpy() for name, value in network.named_parameters()}, x


@pytest.mark.parametrize("model", ["paper-cnn", "geyer-mlp"])
@pytest.mark.parametrize("labels", [[0], [7], [2, 5], [1, 1, 4], [3, 3, 3, 3], [0, 1, 2, 8, 9]])
def test_labels_follow_from_the_last_layer_with_and_without_biases(model, labels):
    found, _ = gradient(model, labels)
    assert recover_labels(found, len(labels)).tolist() == labels


def test_labels_do_not_follow_from_noise():
    generator = np.random.default_rng(0)
    right = [
        recover_labels({"output.bias": generator.standard_normal(10)}, 1)[0] == generator.integers(10)
        for _ in range(2000)
    ]
    assert np.mean(right) == pytest.approx(0.1, abs=0.02)


def test_a_layer_without_biases_gives_its_image_exactly():
    found, x = gradient("geyer-mlp", [4])
    assert np.allclose(layer_input(found["hidden1.weight"]) * float(x.max()), x.flatten(), atol=1e-6)


def test_biases_give_the_scale_too():
    generator = np.random.default_rng(1)
    slopes, x = generator.standard_normal(30), generator.random(20)
    assert np.allclose(layer_input(np.outer(slopes, x), slopes), x)
    assert np.allclose(layer_input(np.outer(-2 * slopes, x)), x / x.max())


def test_no_gradient_gives_nothing():
    assert not layer_input(np.zeros((3, 5))).any()
    assert not layer_input(np.zeros((3, 5)), np.zeros(3)).any()
