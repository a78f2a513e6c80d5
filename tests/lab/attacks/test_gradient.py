"""Gradient inversion on digits: it finds the image in a bare upload, and nothing in a masked one."""

import numpy as np
import pytest
import torch

from fedgrove.node.learning.models import empty_model, load_tensors
from fedgrove.node.learning.reproducible import reproducible
from fedgrove.node.learning.settings import ModelSpec, TrainingSettings
from fedgrove_lab.attacks import gradient
from fedgrove_lab.attacks.gradient import AttackedTraining, Search, invert_update, total_variation
from fedgrove_lab.attacks.measures import psnr
from fedgrove_lab.attacks.uploads import seen
from tests.lab.attacks.scenes import digits

SPECS = {name: ModelSpec(name, (1, 8, 8), 10) for name in ("small-cnn", "geyer-mlp")}


def upload(model: str, work: AttackedTraining, first: int = 0):
    """The global model, a client's, and its samples."""
    scene = digits()
    samples, before = scene.private.take(np.arange(first, first + work.images)), scene.initial(model)
    settings = TrainingSettings(
        epochs=work.steps, batch_size=work.images, learning_rate=work.learning_rate, momentum=0, weight_decay=0
    )
    return before, scene.trained(before, samples, settings, 1, model), samples


def attacked(model: str, kind: str, search: Search, number: int = 0):
    scene, work = digits(), AttackedTraining()
    before, after, samples = upload(model, work, number)
    weights = seen(kind, before, after, scene.terms, scene.noise, scene.random(kind, number))
    with reproducible():
        found = invert_update(SPECS[model], before, weights, work, search, scene.generator(kind, number))
    return psnr(samples.x, found.images), found, samples


@pytest.mark.parametrize("kind", ["plain", "masked", "noise"])
def test_a_fully_connected_client_s_image(kind):
    value, found, samples = attacked("geyer-mlp", kind, Search())
    if kind == "plain":
        assert value > 60 and found.labels == samples.y
    else:
        assert value < 8


def test_a_convolutional_client_s_image():
    value, found, samples = attacked("small-cnn", "plain", Search(starts=4))
    assert value > 30 and found.labels == samples.y


def test_a_masked_one():
    value, found, _ = attacked("small-cnn", "masked", Search(starts=1))
    assert value < 8 and found.distance > 0.9


def test_the_simulated_client_takes_the_steps_of_the_real_one():
    work = AttackedTraining(images=3, steps=4, learning_rate=0.1)
    before, after, samples = upload("small-cnn", work)
    model = empty_model(SPECS["small-cnn"])
    load_tensors(model, before)
    target = torch.cat([torch.from_numpy(before[name] - after[name]).flatten() for name, _ in model.named_parameters()])
    images, labels = torch.from_numpy(samples.x), torch.from_numpy(samples.y)
    distance = gradient._distance(model, target / target.norm(), images, labels, work)
    other = gradient._distance(model, target / target.norm(), images.flip(3), labels, work)
    assert abs(float(distance.detach())) < 1e-4 < 0.01 < float(other.detach())


def test_total_variation():
    assert total_variation(torch.ones((1, 1, 3, 3))) == 0
    board = torch.tensor([[[[0.0, 1.0], [1.0, 0.0]]]])
    assert total_variation(board) == 2
