"""The models have the published sizes, start the same from the same seed, and move in and out of arrays unchanged."""

import numpy as np
import pytest
import torch

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.base.tensors import Layout
from fedgrove.node.learning.models import build_model, initial_tensors, load_tensors, to_tensors


@pytest.mark.parametrize(
    ("name", "weights"),
    [("paper-cnn", 582_026), ("paper-cnn-same", 1_663_370), ("geyer-mlp", 784 * 600 + 600 * 100 + 100 * 10)],
)
def test_the_papers_model_has_the_known_number_of_weights(name, weights):
    assert Layout.of(initial_tensors(name, (1, 28, 28), 10, seed=0)).length == weights


def test_initial_tensors_depend_on_the_seed_alone():
    torch.manual_seed(1)
    first = initial_tensors("small-cnn", (1, 8, 8), 10, seed=7)
    before = torch.get_rng_state()
    second = initial_tensors("small-cnn", (1, 8, 8), 10, seed=7)
    other = initial_tensors("small-cnn", (1, 8, 8), 10, seed=8)
    assert torch.equal(before, torch.get_rng_state()), "the global generator must not be touched"
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert not any(np.array_equal(first[name], other[name]) for name in first)


def test_initialisation_is_within_pytorchs_bounds():
    tensors = initial_tensors("paper-cnn", (3, 32, 32), 10, seed=0)
    bound = (3 * 25) ** -0.5
    assert 0.9 * bound < np.abs(tensors["conv1.weight"]).max() <= bound
    assert np.abs(tensors["conv1.bias"]).max() <= bound


def test_tensors_round_trip_and_are_copies():
    model = build_model("small-cnn", (1, 8, 8), 10, seed=1)
    tensors = to_tensors(model)
    other = build_model("small-cnn", (1, 8, 8), 10, seed=2)
    load_tensors(other, {**tensors, "extra": np.zeros(3, np.float32)})
    assert all(np.array_equal(value, to_tensors(other)[name]) for name, value in tensors.items())
    tensors["conv1.weight"][:] = 0
    assert np.abs(to_tensors(model)["conv1.weight"]).max() > 0
    assert np.abs(to_tensors(other)["conv1.weight"]).max() > 0


def test_missing_or_misshapen_weights_are_named():
    model = build_model("small-cnn", (1, 8, 8), 10, seed=1)
    tensors = to_tensors(model)
    with pytest.raises(InvalidContent, match=r"'hidden\.bias' has shape"):
        load_tensors(model, {**tensors, "hidden.bias": np.zeros(3, np.float32)})
    del tensors["hidden.bias"]
    with pytest.raises(InvalidContent, match=r"'hidden\.bias' is missing"):
        load_tensors(model, tensors)


def test_images_too_small_for_the_model_are_a_sentence():
    with pytest.raises(InvalidInput, match="too small for this model: small-cnn needs at least 4 × 4"):
        build_model("paper-cnn", (1, 8, 8), 10, seed=0)


def test_layer_outputs_equal_the_textbook_order_of_relu_and_pooling():
    model = build_model("paper-cnn", (1, 28, 28), 10, seed=0)
    x = torch.rand(3, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    pool = torch.nn.MaxPool2d(2)
    maps = pool(torch.relu(model.conv2(pool(torch.relu(model.conv1(x))))))
    expected = model.output(torch.relu(model.hidden(maps.flatten(1))))
    assert torch.allclose(model(x), expected, rtol=0, atol=1e-6)
    assert [tuple(output.shape[1:]) for output in model.layer_outputs(x)] == [(32, 24, 24), (64, 8, 8), (512,), (10,)]
