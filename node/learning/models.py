"""The models: FedAom's CNN (section 4.2), a small one of the same form for 8×8 digits, and fully connected networks."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.settings import ModelSpec


@dataclass(frozen=True)
class Architecture:
    """Two convolutions, each with ReLU and 2×2 max-pooling, and two fully connected layers.

    One that is ``centred`` takes pixels from −2 to 2 instead of 0 to 1. Photographs are bright almost everywhere: as
    they are, their common brightness outweighs what they show, and CIFAR-10 stays at chance for hundreds of steps.
    """

    channels: tuple[int, int]
    kernel: int
    padding: int
    hidden: int
    centred: bool = False


ARCHITECTURES = {
    "paper-cnn": Architecture((32, 64), kernel=5, padding=0, hidden=512),
    "paper-cnn-centred": Architecture((32, 64), kernel=5, padding=0, hidden=512, centred=True),
    "paper-cnn-same": Architecture((32, 64), kernel=5, padding=2, hidden=512),
    "small-cnn": Architecture((16, 32), kernel=3, padding=1, hidden=64),
    "small-cnn-centred": Architecture((16, 32), kernel=3, padding=1, hidden=64, centred=True),
}


# Units of the hidden layers (Geyer et al. 2017).
FULLY_CONNECTED = {"geyer-mlp": (600, 100)}
# Units of the one hidden layer.
PERCEPTRONS = {"small-mlp": 32}


class Classifier(nn.Module):
    """A classifier that shows the outputs of its layers before their activation; the last are the logits."""

    @property
    def device(self) -> torch.device:
        """Where its weights are, and what it is applied to must be."""
        return next(self.parameters()).device

    def first_layer(self, x: torch.Tensor) -> torch.Tensor:
        """The first layer's output, affine in the images (n, c, h, w)."""
        raise NotImplementedError

    def activated(self, output: torch.Tensor) -> torch.Tensor:
        """What a layer's output becomes on its way to the next layer."""
        return functional.relu(output)

    def layers_above(
        self, first: torch.Tensor, passing: Callable[[torch.Tensor], torch.Tensor] = lambda output: output
    ) -> tuple[torch.Tensor, ...]:
        """Outputs of all layers, given the first one's; ``passing`` sees each of the others on its way up."""
        outputs = [first]
        for layer in list(self.children())[1:]:
            below = self.activated(outputs[-1])
            outputs.append(passing(layer(below.flatten(1) if isinstance(layer, nn.Linear) else below)))
        return tuple(outputs)

    def layer_outputs(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Outputs of all layers before their activation: feature maps (n, c, h, w), hidden units (n, units), logits."""
        return self.layers_above(self.first_layer(x))

    def layer_outputs_apart(self, x: torch.Tensor, count: int) -> tuple[tuple[torch.Tensor, ...], ...]:
        """Outputs of all layers in one pass, those of the first ``count`` images apart from those of the others."""
        rest: list[torch.Tensor] = []

        def passing(output: torch.Tensor) -> torch.Tensor:
            output, rows = CompanionRows.apply(output, count)
            rest.append(rows)
            return output

        outputs = self.layers_above(passing(self.first_layer(x)), passing)
        return tuple(output[:count] for output in outputs), tuple(rest)

    def with_representation(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits, and the representation of each image: the last hidden layer's output (n, units)."""
        outputs = self.layer_outputs(x)
        return outputs[-1], outputs[-2]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer_outputs(x)[-1]


class ConvNet(Classifier):
    """Twice convolution, ReLU, max-pool 2; then fully connected, ReLU, and fully connected to the labels."""

    def __init__(self, architecture: Architecture, input_shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        channels, height, width = input_shape
        first, second = architecture.channels
        lost = architecture.kernel - 1 - 2 * architecture.padding
        for _ in range(2):
            height, width = (height - lost) // 2, (width - lost) // 2
        if height < 1 or width < 1:
            raise InvalidInput(
                f"images of shape {tuple(input_shape)} are too small for this model: small-cnn needs at least 4 × 4"
            )
        self.centred = architecture.centred
        self.conv1 = nn.Conv2d(channels, first, architecture.kernel, padding=architecture.padding)
        self.conv2 = nn.Conv2d(first, second, architecture.kernel, padding=architecture.padding)
        self.hidden = nn.Linear(second * height * width, architecture.hidden)
        self.output = nn.Linear(architecture.hidden, classes)

    def first_layer(self, x: torch.Tensor) -> torch.Tensor:
        """The first layer's feature maps, affine in the images (n, c, h, w)."""
        return self.conv1(channels_last(4 * (x - 0.5) if self.centred else x))

    def activated(self, output: torch.Tensor) -> torch.Tensor:
        """ReLU follows the pooling: the values are the same as before it, on a quarter of the elements."""
        return functional.relu(functional.max_pool2d(output, 2) if output.dim() == 4 else output)


class FullyConnected(Classifier):
    """Two hidden layers with ReLU between pixels and labels, and no biases anywhere."""

    def __init__(self, hidden: tuple[int, int], input_shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        first, second = hidden
        self.hidden1 = nn.Linear(math.prod(input_shape), first, bias=False)
        self.hidden2 = nn.Linear(first, second, bias=False)
        self.output = nn.Linear(second, classes, bias=False)

    def first_layer(self, x: torch.Tensor) -> torch.Tensor:
        """The first hidden units before their activation (n, units)."""
        return self.hidden1(x.flatten(1))


class Perceptron(Classifier):
    """One hidden layer with ReLU between pixels and labels: for simulations of very many clients."""

    def __init__(self, units: int, input_shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(math.prod(input_shape), units)
        self.output = nn.Linear(units, classes)

    def first_layer(self, x: torch.Tensor) -> torch.Tensor:
        """The hidden units before their activation (n, units)."""
        return self.hidden(x.flatten(1))


class CompanionRows(torch.autograd.Function):
    """Pass an output on, and show its rows from ``count`` on.

    Their gradient is added to what comes back from above. A slice's own gradient would first be spread over zeros as
    large as the whole.
    """

    @staticmethod
    def forward(ctx: Any, output: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.set_materialize_grads(False)
        ctx.count = count
        return output.detach(), output.detach()[count:]

    @staticmethod
    def backward(ctx: Any, whole: torch.Tensor, rows: torch.Tensor | None) -> tuple[torch.Tensor, None]:
        if rows is not None:
            # In place: what the layer above sends back is new, and nobody else holds it.
            whole[ctx.count :] += rows
        return whole, None


def channels_last(x: torch.Tensor) -> torch.Tensor:
    """The same images with the channels of a pixel side by side, in which pooling is several times faster.

    Images of one channel need no copy, but strides that say so: ``Tensor.contiguous`` leaves theirs ambiguous, and the
    convolution then answers in the slow layout.
    """
    count, channels, height, width = x.shape
    return x.permute(0, 2, 3, 1).reshape(-1).view(count, height, width, channels).permute(0, 3, 1, 2)


def build_model(name: str, input_shape: tuple[int, ...], classes: int, seed: int) -> Classifier:
    """Build a model with PyTorch's usual initialisation, drawn from a generator of its own.

    Raises
    ------
    InvalidInput
        Unknown name, or images too small for the model.
    """
    model = empty_model(ModelSpec(name, tuple(input_shape), classes))
    generator = torch.Generator().manual_seed(seed)
    for layer in model.children():
        fan_in = next(layer.parameters())[0].numel()  # of the weight, which comes before the bias
        for parameter in layer.parameters():
            _draw(parameter, fan_in**-0.5, generator)
    return model


@torch.no_grad()
def _draw(parameter: torch.Tensor, bound: float, generator: torch.Generator) -> None:
    """Draw from −bound to bound as ``nn.init.uniform_``, to the same bits on any processor.

    That one's product and sum are rounded once by a fused instruction, twice where the processor has none. In float64
    neither is rounded: 24 bits by 24 are 48, and the sum has no more.
    """
    single = float(np.float32(bound))
    drawn = torch.rand(parameter.shape, generator=generator).double()
    parameter.copy_(drawn * (2 * single) - single)


def empty_model(spec: ModelSpec, device: str = "cpu") -> Classifier:
    """Build a model on a device of torch's; its weights are not set yet."""
    # Built without storage first: constructors would draw from torch's global generator.
    with torch.device("meta"):
        if spec.name in FULLY_CONNECTED:
            model = FullyConnected(FULLY_CONNECTED[spec.name], spec.input_shape, spec.classes)
        elif spec.name in PERCEPTRONS:
            model = Perceptron(PERCEPTRONS[spec.name], spec.input_shape, spec.classes)
        else:
            model = ConvNet(ARCHITECTURES[spec.name], spec.input_shape, spec.classes)
    # As Module.to_empty does, which would import sympy: a third of a second in every process that trains.
    for layer in model.children():
        for name, parameter in layer.named_parameters():
            setattr(layer, name, nn.Parameter(torch.empty(parameter.shape, dtype=parameter.dtype, device=device)))
    return model


def initial_tensors(name: str, input_shape: tuple[int, ...], classes: int, seed: int) -> Tensors:
    """Weights of a fresh model: what a federation starts from."""
    return to_tensors(build_model(name, input_shape, classes, seed))


def to_tensors(model: nn.Module) -> Tensors:
    """Copy a model's parameters into float32 arrays, by name."""
    return {name: value.detach().cpu().numpy().copy() for name, value in model.named_parameters()}


def load_tensors(model: nn.Module, tensors: Mapping[str, np.ndarray]) -> None:
    """Copy weights into a model; tensors that are not the model's (a strategy's extras) are left alone.

    Raises
    ------
    InvalidContent
        A weight is missing or has another shape.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name not in tensors:
                raise InvalidContent(f"tensor {name!r} is missing")
            if tensors[name].shape != tuple(parameter.shape):
                expected = tuple(parameter.shape)
                raise InvalidContent(f"tensor {name!r} has shape {tensors[name].shape}, expected {expected}")
            values = parameter.detach().cpu()  # the parameter's own memory, unless that is a GPU's
            values.numpy()[...] = tensors[name]
            if not parameter.is_cpu:
                parameter.copy_(values)
