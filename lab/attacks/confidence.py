"""Model inversion: what a model takes for the image of a class (Fredrikson et al. 2015, MI-Face).

Descent from a black image on 1 − log-confidence, with the images kept in [0, 1]. Their cost is 1 − confidence; its
logarithm has the same minimum and a gradient where the confidence is near zero. Total variation takes the place of
their denoising step.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.models import empty_model, load_tensors
from fedgrove.node.learning.settings import ModelSpec


@dataclass(frozen=True)
class Descent:
    """How long and how hard to search.

    Attributes
    ----------
    rate : float
        Of Adam.
    variation : float
        Weight of the summed total variation.
    """

    steps: int = 100
    rate: float = 0.1
    variation: float = 1e-3


def invert_classes(spec: ModelSpec, weights: Tensors, descent: Descent) -> np.ndarray:
    """An image for each class, float32 (classes, c, h, w) in [0, 1]."""
    model = empty_model(spec)
    load_tensors(model, weights)
    labels = torch.arange(spec.classes)
    images = torch.zeros((spec.classes, *spec.input_shape), requires_grad=True)
    optimizer = torch.optim.Adam([images], lr=descent.rate)
    for _ in range(descent.steps):
        cost = functional.cross_entropy(model(images), labels, reduction="sum")
        down = (images[..., 1:, :] - images[..., :-1, :]).abs().sum()
        across = (images[..., :, 1:] - images[..., :, :-1]).abs().sum()
        (slope,) = torch.autograd.grad(cost + descent.variation * (down + across), images)
        images.grad = slope.nan_to_num()  # a masked model's activations can leave the floats
        optimizer.step()
        with torch.no_grad():
            images.clamp_(0, 1)
    return images.detach().numpy()


def recognised(spec: ModelSpec, weights: Tensors, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Which images (n, c, h, w) an evaluator takes for their labels (n,); bool (n,)."""
    model = empty_model(spec)
    load_tensors(model, weights)
    with torch.inference_mode():
        answers = model(torch.from_numpy(np.ascontiguousarray(images))).argmax(1).numpy()
    return answers == labels
