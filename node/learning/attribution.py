"""Layer-wise integrated gradients: how much each unit of each layer speaks for the true class (FedAom eq. 6, 8-10).

For a layer's output L (before the activation) and the softmax confidence c_y of the true class, eq. 6 is read as

    α = L(x) / ε · ∫₀¹ ∂c_y(x′ + σ(x − x′)) / ∂L dσ ,    x′ black,

with the integral by the trapezoid rule on q equal steps. The path runs through the *input*: at each path point the
gradient is taken where the layer's output is then. This is not captum's LayerIntegratedGradients, which walks a
straight line between the layer's outputs at x′ and x and multiplies by their difference. The two are the same thing
exactly where the layer is linear without bias in the input, hence in a first layer with zero bias; the averaged
gradient alone is, in every layer, the internal influence of Leino et al. 2018. Completeness, Σα·ε = c_y(x) − c_y(x′),
holds in that same case as q grows, and is not claimed for deeper layers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fedgrove.node.learning.models import Classifier

# Path points of one forward and backward pass: bounds the memory, not the result.
POINTS_PER_PASS = 512


@dataclass(frozen=True)
class PathGradients:
    """Per layer, for n samples: outputs at x, and the gradient of c_y averaged along the path; both (n, units, …)."""

    outputs: tuple[torch.Tensor, ...]
    gradients: tuple[torch.Tensor, ...]


def path_gradients(model: Classifier, x: torch.Tensor, y: torch.Tensor, steps: int) -> PathGradients:
    """Average ∂c_y/∂L over the path from black to ``x``, for all layers and samples at once.

    All path points go through the model together, in as many passes as memory asks for.

    Parameters
    ----------
    x, y : Tensor
        float32 (n, c, h, w) and int64 (n,).
    steps : int
        q, number of trapezoids, at least 1.
    """
    per_pass = max(1, POINTS_PER_PASS // (steps + 1))
    chunks = [_one_pass(model, *chunk, steps) for chunk in zip(x.split(per_pass), y.split(per_pass), strict=True)]
    join = [torch.cat(parts) for parts in zip(*(chunk.outputs + chunk.gradients for chunk in chunks), strict=True)]
    return PathGradients(tuple(join[: len(join) // 2]), tuple(join[len(join) // 2 :]))


def attributions(path: PathGradients, epsilon: float) -> tuple[torch.Tensor, ...]:
    """Λ̂: one number a sample and unit (channel or neuron), the mean of α over the unit's positions (eq. 6, 10).

    Returns
    -------
    tuple of Tensor
        One of shape (n, units) for each layer.
    """
    pairs = zip(path.outputs, path.gradients, strict=True)
    return tuple(
        (output * gradient).flatten(2).mean(2) / epsilon if output.dim() > 2 else output * gradient / epsilon
        for output, gradient in pairs
    )


def behaviour(outputs: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """L·Λ̂ of each layer (the terms of eq. 7), units last: shapes (n, h, w, channels) and (n, units)."""
    return tuple(
        output.movedim(1, -1) * aligned_weight(weight, output) for output, weight in zip(outputs, weights, strict=True)
    )


def aligned_weight(weight: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """Give weights (n, units) the shape that multiplies a layer's output, its units moved last."""
    return weight.view(len(weight), *(1,) * (output.dim() - 2), -1)


def _one_pass(model: Classifier, x: torch.Tensor, y: torch.Tensor, steps: int) -> PathGradients:
    """Black is 0, so the path from x′ to x is σ·x, and an affine first layer's outputs on it are b + σ·(L(x) − b).

    The black points of all samples are one image, whose gradient differs by the true class alone: there is one row for
    each class present. Row classes + (ρ − 1)·n + i is point ρ ≥ 1 of sample i.
    """
    count = len(x)
    classes, class_of = y.unique(return_inverse=True)
    with torch.no_grad():
        at_x = model.first_layer(x)
        black = model.first_layer(torch.zeros_like(x[:1]))
        slope = at_x - black
        between = [torch.add(black, slope, alpha=step / steps) for step in range(1, steps)]
        # A copy in the layout of the others, not a view: the points of all would take its layout.
        blacks = torch.empty_like(slope[: len(classes)]).copy_(black)
        points = torch.cat([blacks, *between, at_x])
    labels = torch.cat([classes, *[y] * steps])
    trapezoid = torch.full((len(labels),), 1.0 / steps, dtype=x.dtype, device=x.device)
    trapezoid[: len(classes)] = trapezoid[-count:] = 0.5 / steps
    with torch.enable_grad():
        outputs = model.layers_above(points.requires_grad_())
        true_class = outputs[-1].softmax(1).gather(1, labels[:, None])[:, 0]
        # No path point sees another, so the gradient of the weighted sum holds every point's own gradient.
        gradients = torch.autograd.grad((true_class * trapezoid).sum(), outputs)
    averaged = [gradient[class_of] for gradient in gradients]
    for total, gradient in zip(averaged, gradients, strict=True):
        # One by one: a sum over the points would come out in the layout that is slow here.
        for point in gradient[len(classes) :].split(count):
            total += point
    return PathGradients(tuple(output.detach()[-count:] for output in outputs), tuple(averaged))
