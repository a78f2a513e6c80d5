"""Gradient inversion: images whose training step explains an upload (Geiping et al. 2020).

The attacker knows the global model, how the client trains and how many images it has. It looks for images x that
minimise 1 − cos(∇L(x), g) + α·TV(x), by Adam on the signs of the gradient, where g is the client's step. Labels come
from the last layer first. For several local steps the simulated client takes all of them (section 6 of the paper).

Where the model begins with a fully connected layer and the client takes one step on one image, nothing is searched:
``analytic`` gives the image.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch.func import functional_call
from torch.nn import functional

from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.models import Classifier, FullyConnected, empty_model, load_tensors
from fedgrove.node.learning.settings import ModelSpec
from fedgrove_lab.attacks.analytic import layer_input
from fedgrove_lab.attacks.labels import recover_labels


@dataclass(frozen=True)
class AttackedTraining:
    """How the attacked client trains: full-batch gradient descent.

    Attributes
    ----------
    images, steps : int
        How many images it has, and how many steps it takes on all of them.
    """

    images: int = 1
    steps: int = 1
    learning_rate: float = 0.1


@dataclass(frozen=True)
class Search:
    """How long and how hard to search.

    Attributes
    ----------
    steps : int
        Of a start; the rate falls to a tenth after 3/8, 5/8 and 7/8 of them.
    rate : float
        Of a pixel, per step.
    variation : float
        α, the weight of the total variation.
    starts : int
        Random starts at most; the one with the least objective counts.
    good, hopeless : float
        A start with a cosine distance below or above these is the last: no other would change the outcome.
    """

    steps: int = 240
    rate: float = 0.1
    variation: float = 1e-4
    starts: int = 2
    good: float = 1e-3
    hopeless: float = 0.5


@dataclass(frozen=True)
class Inversion:
    """What an attack found.

    Attributes
    ----------
    images : float32 array (n, c, h, w)
        In [0, 1], in the order of the labels.
    labels : int64 array (n,)
        Ascending.
    distance : float
        1 − cos between the client's step and that of the found images, 0 where it was not needed.
    """

    images: np.ndarray
    labels: np.ndarray
    distance: float


def invert_update(
    spec: ModelSpec, before: Tensors, after: Tensors, work: AttackedTraining, search: Search, generator: torch.Generator
) -> Inversion:
    """Reconstruct a client's images from the model before its round, and the one that it uploaded."""
    model = empty_model(spec)
    load_tensors(model, before)
    scale = work.steps * work.learning_rate
    gradient = {name: (before[name].astype(np.float64) - after[name]) / scale for name in before}
    labels = recover_labels(gradient, work.images)
    if isinstance(model, FullyConnected) and (work.images, work.steps) == (1, 1):
        image = layer_input(gradient["hidden1.weight"]).clip(0, 1).astype(np.float32)
        return Inversion(image.reshape(1, *spec.input_shape), labels, 0.0)
    return _search(model, gradient, labels, spec, work, search, generator)


def _search(
    model: Classifier,
    gradient: Tensors,
    labels: np.ndarray,
    spec: ModelSpec,
    work: AttackedTraining,
    search: Search,
    generator: torch.Generator,
) -> Inversion:
    target = torch.cat([torch.from_numpy(gradient[name]).flatten() for name, _ in model.named_parameters()])
    target = (target / target.norm().clamp(min=1e-30)).float()
    wanted, best = torch.from_numpy(labels), None
    for _ in range(search.starts):
        start = torch.rand((work.images, *spec.input_shape), generator=generator)
        images, distance = _descend(model, target, start, wanted, work, search)
        if best is None or distance < best.distance:
            best = Inversion(images.numpy(), labels, distance)
        if not search.good <= best.distance <= search.hopeless:
            break
    assert best is not None
    return best


def _descend(
    model: Classifier,
    target: torch.Tensor,
    start: torch.Tensor,
    labels: torch.Tensor,
    work: AttackedTraining,
    search: Search,
) -> tuple[torch.Tensor, float]:
    """Images (n, c, h, w) and their cosine distance after one start."""
    images = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([images], lr=search.rate)
    falls = [search.steps * eighths // 8 for eighths in (3, 5, 7)]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, falls, 0.1)
    for _ in range(search.steps):
        objective = _distance(model, target, images, labels, work) + search.variation * total_variation(images)
        (slope,) = torch.autograd.grad(objective, images)
        images.grad = slope.sign()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            images.clamp_(0, 1)
    found = images.detach()
    return found, float(_distance(model, target, found, labels, work).detach())


def _distance(
    model: Classifier, target: torch.Tensor, images: torch.Tensor, labels: torch.Tensor, work: AttackedTraining
) -> torch.Tensor:
    """1 − cos between the target, of length 1, and the client's step if it had these images."""
    first: dict[str, torch.Tensor] = dict(model.named_parameters())
    weights = first
    for _ in range(work.steps):
        loss = functional.cross_entropy(functional_call(model, weights, (images,)), labels)
        slopes = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        weights = {
            name: value - work.learning_rate * slope
            for (name, value), slope in zip(weights.items(), slopes, strict=True)
        }
    step = torch.cat([(first[name] - weights[name]).flatten() for name in first])
    return 1 - (step @ target) / step.norm().clamp(min=1e-30)


def total_variation(images: torch.Tensor) -> torch.Tensor:
    """Mean absolute difference of neighbouring pixels, down and across (anisotropic)."""
    down = (images[..., 1:, :] - images[..., :-1, :]).abs().mean()
    return down + (images[..., :, 1:] - images[..., :, :-1]).abs().mean()
