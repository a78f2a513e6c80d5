"""What hooks see of a task's layers, against the shipped networks, whose layers are known."""

import pytest
import torch
from torch import nn

from fedgrove.node.learning import attribution
from fedgrove.node.learning.models import build_model
from fedgrove.node.learning.tasks import layers
from fedgrove.node.learning.tasks.layers import layer_outputs, path_gradients
from fedgrove.node.learning.tasks.model import TaskModel
from fedgrove.node.learning.tasks.task import InvalidTask, Task
from tests.node.learning.tasks.examples import Regression, Tokens

NETWORKS = ["small-cnn", "small-cnn-centred", "geyer-mlp"]


@pytest.fixture
def images():
    generator = torch.Generator().manual_seed(5)
    return torch.rand(7, 1, 8, 8, generator=generator), torch.arange(7) % 5


def as_positions(output):
    return output.flatten(2) if output.dim() > 2 else output[..., None]


@pytest.mark.parametrize("name", NETWORKS)
def test_hooks_see_the_outputs_of_the_shipped_networks_to_the_bit(name, images):
    network = build_model(name, (1, 8, 8), 5, seed=2)
    seen = layer_outputs(Task(), TaskModel(Task(), network), images[0])
    known = network.layer_outputs(images[0])
    assert len(seen) == len(known)
    assert all(torch.equal(own, as_positions(other)) for own, other in zip(seen, known, strict=True))


@pytest.mark.parametrize("steps", [1, 2, 7])
@pytest.mark.parametrize("name", NETWORKS)
def test_path_gradients_are_those_of_the_shipped_networks(name, steps, images):
    network = build_model(name, (1, 8, 8), 5, seed=2)
    own = path_gradients(Task(), TaskModel(Task(), network), *images, steps)
    known = attribution.path_gradients(network, *images, steps)
    for mine, other in zip(own.outputs + own.gradients, known.outputs + known.gradients, strict=True):
        assert torch.allclose(mine, as_positions(other), atol=3e-7)


def test_an_activation_in_place_does_not_overwrite_what_is_held(images):
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.ReLU(inplace=True), nn.Linear(6, 3))
    first, _ = layer_outputs(Task(), TaskModel(Task(), network), images[0])
    assert bool((first < 0).any())


def test_the_path_of_a_text_runs_through_the_embedding_and_padding_counts_for_nothing():
    task = Tokens()
    model = TaskModel(task, task.model())
    tokens, mask = torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([[1, 1, 1], [1, 1, 0]])
    path = path_gradients(task, model, {"tokens": tokens, "attention_mask": mask}, torch.tensor([0, 2]), 4)
    embedded, logits = path.outputs
    assert embedded.shape == (2, 5, 3) and logits.shape == (2, 3, 1)
    assert bool((embedded[1, :, 2] == 0).all()) and bool((path.gradients[0][0] != 0).all())
    # Halfway along the path, what the embedding puts out is half of it.
    with layers._at(model, {"tokens": tokens, "attention_mask": mask}, 0.5) as point:
        half = layer_outputs(task, model, point)[0]
    assert torch.allclose(half, embedded / 2)


def test_a_frozen_embedding_is_part_of_the_path():
    task, network = Tokens(), Tokens().model()
    network.embedding.requires_grad_(False)
    inputs = {"tokens": torch.tensor([[1, 2]]), "attention_mask": torch.ones(1, 2, dtype=torch.int64)}
    path = path_gradients(task, TaskModel(Task(), network), inputs, torch.tensor([0]), 2)
    assert bool((path.gradients[0] != 0).any())


def test_a_layer_that_is_used_twice_is_held_twice():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            return self.layer(self.layer(x).relu())

    assert len(layer_outputs(Task(), TaskModel(Task(), Twice()), torch.ones(2, 4))) == 2


def test_the_task_may_name_its_layers(images):
    class Last(Task):
        def layers(self, model):
            return [model.output]

    network = build_model("small-cnn", (1, 8, 8), 5, seed=2)
    assert len(layer_outputs(Last(), TaskModel(Task(), network), images[0])) == 1


def test_no_layer_no_class_and_too_much_are_sentences(images, monkeypatch):
    bare = nn.Sequential(nn.Flatten(), nn.LayerNorm(64))
    with pytest.raises(InvalidTask, match="the model uses none"):
        layer_outputs(Task(), TaskModel(Task(), bare), images[0])
    with pytest.raises(InvalidTask, match="fedaom needs a score for each class"):
        path_gradients(Regression(), TaskModel(Task(), nn.Linear(4, 1)), torch.ones(2, 4), torch.ones(2), 2)
    monkeypatch.setattr(layers, "MAX_HELD_BYTES", 100)
    network = build_model("small-cnn", (1, 8, 8), 5, seed=2)
    with pytest.raises(InvalidTask, match=r"fedaom would hold more than .* name fewer layers"):
        path_gradients(Task(), TaskModel(Task(), network), *images, 1)
