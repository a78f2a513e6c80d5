"""What a task's layers put out, by forward hooks, and what of it speaks for the true class (FedAom eq. 6 to 10).

As ``node.learning.attribution`` for the shipped networks, whose layers are known. Here layers are every linear,
convolutional and embedding module in the order of use, or those that the task names. The path runs from zero to the
floating-point inputs; where there are none, as in models of text, from zero to the embedding's output.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

from fedgrove.node.learning.attribution import PathGradients
from fedgrove.node.learning.tasks.task import InvalidTask, Task

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
LAYERS = (nn.Linear, *CONVOLUTIONS, nn.Embedding)
MAX_HELD_BYTES = 256 << 20
PADDING = "attention_mask"


class Applied(Protocol):
    """A task's module, called with a batch's inputs."""

    module: nn.Module

    def __call__(self, inputs: Any, /) -> Any: ...


@dataclass(frozen=True)
class Held:
    """A layer's output in a forward pass, as the layer made it; ``convolution``: its units are the second dimension."""

    output: torch.Tensor
    convolution: bool

    def by_units(self, values: torch.Tensor, inputs: Any) -> torch.Tensor:
        """Values of the output's shape as (n, units, positions), with zeros where text is padded."""
        rows = values.movedim(1, -1) if self.convolution else values
        rows = rows.reshape(len(rows), -1, rows.shape[-1])
        mask = inputs.get(PADDING) if isinstance(inputs, Mapping) else None
        if mask is not None and mask.shape == rows.shape[:2]:
            rows = rows * mask[..., None]
        return rows.movedim(-1, 1)


def layer_outputs(task: Task, model: Applied, inputs: Any) -> tuple[torch.Tensor, ...]:
    """Each layer's output in the order of use (n, units, positions); InvalidTask if the model uses no layer."""
    return tuple(each.by_units(each.output, inputs) for each in _pass(task, model, inputs)[1])


def path_gradients(task: Task, model: Applied, inputs: Any, labels: torch.Tensor, steps: int) -> PathGradients:
    """Average ∂c_y/∂L over the path to ``inputs`` by the trapezoid rule on ``steps`` equal steps.

    Parameters
    ----------
    labels : int64 tensor (n,)
        The true classes.

    Returns
    -------
    PathGradients
        Outputs and gradients of each layer, (n, units, positions).

    Raises
    ------
    InvalidTask
        The output is not one row of scores a sample, the model uses no layer, or what is held is too large.
    """
    totals: list[torch.Tensor] = []
    outputs: tuple[torch.Tensor, ...] = ()
    for step in range(steps + 1):
        weight = (0.5 if step in (0, steps) else 1.0) / steps
        with _at(model, inputs, step / steps) as point, torch.enable_grad():
            output, held = _pass(task, model, point)
            raw = [each.output for each in held]
            slopes = torch.autograd.grad(_confidence(output, labels).sum(), raw, allow_unused=True)
        found = [torch.zeros_like(own) if slope is None else slope for own, slope in zip(raw, slopes, strict=True)]
        found = [weight * each.by_units(slope, inputs) for each, slope in zip(held, found, strict=True)]
        totals = [total + new for total, new in zip(totals, found, strict=True)] if totals else found
        outputs = tuple(each.by_units(each.output.detach(), inputs) for each in held)
        _bounded(outputs)
    return PathGradients(outputs, tuple(totals))


def _pass(task: Task, model: Applied, inputs: Any) -> tuple[Any, list[Held]]:
    """The model's output, and what its layers put out on the way."""
    seen: list[Held] = []
    with ExitStack() as stack:
        for layer in _layers(task, model):
            stack.callback(layer.register_forward_hook(_holder(seen)).remove)
        output = model(inputs)
    if not seen:
        raise InvalidTask("fedaom holds what layers put out, and the model uses none: name some in layers(self, model)")
    return output, seen


def _bounded(outputs: Sequence[torch.Tensor]) -> None:
    if sum(each.numel() * each.element_size() for each in outputs) > MAX_HELD_BYTES:
        raise InvalidTask(
            f"fedaom would hold more than {MAX_HELD_BYTES >> 20} MiB of layer outputs: name fewer layers in "
            "layers(self, model), or share fewer samples"
        )


def _confidence(output: Any, labels: torch.Tensor) -> torch.Tensor:
    """c_y, the softmax confidence of the true class."""
    fine = isinstance(output, torch.Tensor) and output.dim() == 2 and output.shape[1] > 1
    if not fine or labels.is_floating_point() or labels.dim() != 1:
        raise InvalidTask("fedaom needs a score for each class and whole numbers as targets: choose fedavg or fedprox")
    return output.softmax(1).gather(1, labels[:, None])[:, 0]


@contextmanager
def _at(model: Applied, inputs: Any, share: float) -> Iterator[Any]:
    """The point of the path at ``share`` of its length, as inputs for the model; inside, embeddings give it, too."""
    scaled = _scaled(inputs, share)
    with ExitStack() as stack:
        if scaled is None:
            for layer in model.module.modules():
                if isinstance(layer, nn.Embedding):
                    stack.callback(
                        layer.register_forward_hook(lambda _, __, out: (out * share).requires_grad_()).remove
                    )
        yield inputs if scaled is None else scaled


def _scaled(inputs: Any, share: float) -> Any:
    """Inputs whose floating-point tensors are ``share`` of what they are; None if there are none."""
    if isinstance(inputs, torch.Tensor):
        return (inputs * share).requires_grad_() if inputs.is_floating_point() else None
    if isinstance(inputs, Mapping):
        found = {name: _scaled(value, share) for name, value in inputs.items() if name != PADDING}
        return None if all(each is None for each in found.values()) else {**inputs, **_given(found)}
    parts = [_scaled(each, share) for each in inputs]
    if all(each is None for each in parts):
        return None
    return [own if new is None else new for own, new in zip(inputs, parts, strict=True)]


def _given(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if value is not None}


def _layers(task: Task, model: Applied) -> list[nn.Module]:
    chosen = task.layers(model.module)
    return [each for each in model.module.modules() if isinstance(each, LAYERS)] if chosen is None else list(chosen)


def _holder(seen: list[Held]) -> Any:
    def hold(layer: nn.Module, _: Any, output: torch.Tensor) -> torch.Tensor:
        # A copy goes on: an activation in place would overwrite what is held.
        seen.append(Held(output, isinstance(layer, CONVOLUTIONS)))
        return output.clone()

    return hold
