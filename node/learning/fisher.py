"""Diagonal of the empirical Fisher information: the mean over samples of the squared gradients of a sample's loss."""

from collections.abc import Iterable, Sequence

import torch
from torch import nn
from torch.nn import functional

from fedgrove.node.learning.models import Classifier

FISHER_BATCH = 16


def squared_gradients_by_sample(
    losses: Iterable[torch.Tensor], parameters: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """Of any model: one backward pass for each sample's loss; a tensor of its shape for each parameter."""
    totals, count = [torch.zeros_like(parameter) for parameter in parameters], 0
    for loss in losses:
        count += 1
        slopes = torch.autograd.grad(loss, list(parameters), allow_unused=True)
        for total, slope in zip(totals, slopes, strict=True):
            if slope is not None:
                total.addcmul_(slope, slope)
    return [total / count for total in totals]


def fisher_diagonal(model: Classifier, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """Diagonal of the empirical Fisher information, a tensor of its shape for each parameter of the model.

    That is the mean over the samples of the squared gradient of a sample's log-likelihood log p(y | x). No sample is
    differentiated on its own: the gradient of the summed loss at a layer's output holds all samples' own gradients
    there, and those of a layer's weights are products of that with the layer's input.

    Parameters
    ----------
    x : float32 tensor (n, c, h, w)
    y : int64 tensor (n,)
    """
    totals = [torch.zeros_like(parameter) for parameter in model.parameters()]
    inputs: list[torch.Tensor] = []
    layers = list(model.children())
    hooks = [layer.register_forward_pre_hook(lambda _, given: inputs.append(given[0])) for layer in layers]
    try:
        for images, labels in zip(x.split(FISHER_BATCH), y.split(FISHER_BATCH), strict=True):
            inputs.clear()
            outputs = model.layer_outputs(images.to(model.device))
            loss = functional.cross_entropy(outputs[-1], labels.to(model.device), reduction="sum")
            slopes = torch.autograd.grad(loss, outputs)
            with torch.no_grad():
                squares = [_squared_gradients(*each) for each in zip(layers, inputs, slopes, strict=True)]
            torch._foreach_add_(totals, [square for parts in squares for square in parts])
    finally:
        # The model is used again by the next client, also after a failure here.
        for hook in hooks:
            hook.remove()
    return [total / len(y) for total in totals]


def _squared_gradients(layer: nn.Module, x: torch.Tensor, slopes: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Sums over a batch of the samples' squared gradients, of a layer's weight and of its bias, if it has one."""
    if isinstance(layer, nn.Linear):
        weight = slopes.square().T @ x.square()
        return (weight,) if layer.bias is None else (weight, slopes.square().sum(0))
    if not isinstance(layer, nn.Conv2d) or isinstance(layer.padding, str):
        raise TypeError("squared gradients are for linear layers and convolutions, padded by numbers")
    patches = functional.unfold(x, layer.kernel_size, padding=layer.padding)
    by_sample = slopes.flatten(2) @ patches.transpose(1, 2)
    return by_sample.square().sum(0).view_as(layer.weight), slopes.sum((2, 3)).square().sum(0)
