"""Attribution against what is known about it, against captum, and against a loop over single path points."""

from itertools import pairwise

import pytest
import torch
from captum.attr import InternalInfluence, LayerIntegratedGradients
from torch import nn

from fedgrove.node.learning import attribution
from fedgrove.node.learning.attribution import attributions, behaviour, path_gradients
from fedgrove.node.learning.models import Classifier, build_model

STEPS = 8


class LinearClassifier(Classifier):
    """A linear layer, whose outputs are the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(36, 4, bias=False)
        nn.init.normal_(self.layer.weight, std=0.5, generator=torch.Generator().manual_seed(3))

    def first_layer(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x.flatten(1))


def confidence_of(model: nn.Module):
    return lambda x: model(x).softmax(1)


@pytest.fixture
def images() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    return torch.rand(7, 1, 8, 8, generator=generator), torch.arange(7) % 5


@pytest.fixture
def model():
    return build_model("small-cnn", (1, 8, 8), 5, seed=2)


def test_attributions_of_a_linear_layer_add_up_to_the_gain_in_confidence():
    model = LinearClassifier()
    x = torch.rand(20, 1, 6, 6, generator=torch.Generator().manual_seed(1))
    y = torch.arange(20) % 4
    with torch.no_grad():
        gain = model.first_layer(x).softmax(1)[torch.arange(20), y] - 0.25
    errors = []
    for steps in (1, 4, 16, 64, 256):
        (scores,) = attributions(path_gradients(model, x, y, steps), epsilon=7.0)
        errors.append(float((7.0 * scores.sum(1) - gain).abs().max()))
    assert errors[-1] < 1e-4
    # The trapezoid rule's error falls with the square of the steps.
    assert all(after < before / 8 for before, after in pairwise(errors[1:4]))


def test_in_a_first_layer_without_bias_it_equals_captums_layer_integrated_gradients(model, images):
    x, y = images
    nn.init.zeros_(model.conv1.bias)
    path = path_gradients(model, x, y, STEPS)
    ours = path.outputs[0] * path.gradients[0]
    # captum's trapezoid weighs n points by 1/n instead of 1/(n - 1).
    theirs = LayerIntegratedGradients(confidence_of(model), model.conv1).attribute(
        x, torch.zeros_like(x), target=y, n_steps=STEPS + 1, method="riemann_trapezoid"
    )
    assert torch.allclose(ours, theirs * (STEPS + 1) / STEPS, atol=1e-7)
    assert ours.abs().max() > 1e-4


def test_averaged_gradients_of_every_layer_equal_captums_internal_influence(model, images):
    x, y = images
    path = path_gradients(model, x, y, STEPS)
    for layer, averaged in zip(model.children(), path.gradients, strict=True):
        theirs = InternalInfluence(confidence_of(model), layer).attribute(
            x, torch.zeros_like(x), target=y, n_steps=STEPS + 1, method="riemann_trapezoid"
        )
        assert torch.allclose(averaged, theirs * (STEPS + 1) / STEPS, atol=1e-7)
        assert averaged.abs().max() > 1e-5


def test_the_batched_passes_equal_eq_6_taken_literally(model, images, monkeypatch):
    x, y = images
    # Three samples a pass: several passes, the last one smaller.
    monkeypatch.setattr(attribution, "POINTS_PER_PASS", 3 * (STEPS + 1))
    batched = attributions(path_gradients(model, x, y, STEPS), epsilon=7.0)
    for sample in range(len(x)):
        sums = None
        for step in range(1, STEPS + 1):
            for place in ((step - 1) / STEPS, step / STEPS):
                outputs = model.layer_outputs(x[sample : sample + 1] * place)
                gradients = torch.autograd.grad(outputs[-1].softmax(1)[0, y[sample]], outputs)
                sums = gradients if sums is None else [a + b for a, b in zip(sums, gradients, strict=True)]
        at_x = model.layer_outputs(x[sample : sample + 1])
        for layer, (output, total) in enumerate(zip(at_x, sums, strict=True)):
            alpha = output * total / (2 * STEPS * 7.0)
            expected = alpha.reshape(1, output.shape[1], -1).mean(2)[0]
            assert torch.allclose(batched[layer][sample], expected, atol=1e-8)


def test_shapes_are_one_number_a_sample_and_unit(model, images):
    x, y = images
    path = path_gradients(model, x, y, STEPS)
    scores = attributions(path, epsilon=7.0)
    assert [tuple(score.shape) for score in scores] == [(7, 16), (7, 32), (7, 64), (7, 5)]
    combined = behaviour(path.outputs, scores)
    assert [tuple(part.shape) for part in combined] == [(7, 8, 8, 16), (7, 4, 4, 32), (7, 64), (7, 5)]
    assert torch.equal(combined[1][3, :, :, 9], path.outputs[1][3, 9] * scores[1][3, 9])
    assert torch.equal(combined[2], path.outputs[2] * scores[2])


def test_no_gradient_is_left_in_the_model(model, images):
    path_gradients(model, *images, STEPS)
    assert all(parameter.grad is None for parameter in model.parameters())
