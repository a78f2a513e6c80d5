"""Quadratic penalties on a model's weights, with the gradient that is known instead of one that autograd finds.

A penalty on all weights is a few passes over as much memory as the model takes, at every step: autograd, tensor by
tensor and operation by operation, takes several times as many.
"""

from collections.abc import Sequence
from typing import Any

import torch


def proximity(parameters: Sequence[torch.Tensor], anchor: Sequence[torch.Tensor], weight: float) -> torch.Tensor:
    """½ · weight · Σ (w − a)² over all weights w and their anchors a: a scalar with its gradient for ``parameters``."""
    with torch.no_grad():
        gradients = torch._foreach_sub(list(parameters), list(anchor))
        value = 0.5 * weight * sum(_dot(gap, gap) for gap in gradients)
        torch._foreach_mul_(gradients, weight)
    return _KnownGradient.apply(value, gradients, *parameters)


def curvature(
    parameters: Sequence[torch.Tensor], diagonal: Sequence[torch.Tensor], linear: Sequence[torch.Tensor]
) -> torch.Tensor:
    """Σ (½ · A · w² − B · w) over all weights w: a scalar with its gradient A · w − B for ``parameters``.

    ``diagonal`` and ``linear`` hold A and B, as tensors of the weights' shapes.
    """
    with torch.no_grad():
        gradients = torch._foreach_mul(list(parameters), list(diagonal))
        torch._foreach_sub_(gradients, list(linear))
        terms = zip(parameters, gradients, linear, strict=True)
        value = 0.5 * sum(_dot(weights, slope) - _dot(weights, pull) for weights, slope, pull in terms)
    return _KnownGradient.apply(value, gradients, *parameters)


class _KnownGradient(torch.autograd.Function):
    """A value whose gradients are given; they belong to the backward pass, which may run once."""

    @staticmethod
    def forward(context: Any, value: torch.Tensor, gradients: list[torch.Tensor], *parameters: torch.Tensor):
        context.gradients = gradients
        return value.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, upstream: torch.Tensor):
        if upstream != 1:
            torch._foreach_mul_(context.gradients, upstream)
        return None, None, *context.gradients


def _dot(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.dot(left.flatten(), right.flatten())
