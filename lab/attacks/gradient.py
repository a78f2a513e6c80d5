"""Gradient inversion: images whose training step explains an upload (Geiping et al. 2020).

The attacker knows the global model, how the client trains and how many images it has. It looks for images x that
minimise 1 − cos(∇L(x), g) + α·TV(x), by Adam on the signs of the gradient, where g is the client's step. Labels come
from the last layer first (``recover_labels``). For several local steps the simulated client takes all of them
(section 6 of the paper).

Where the model begins with a fully connected layer and the client takes one step on one image, nothing is searched:
``layer_input`` gives the image.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch.func import functional_call
from torch.nn import functional

from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.models import Classifier, FullyConnected, empty_model, load_tensors
from fedgrove.node.learning.settings import ModelSpec


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


def recover_labels(gradient: Mapping[str, np.ndarray], count: int, layer: str = "output") -> np.ndarray:
    """The labels of a client's images, by its last layer (iDLG: Zhao et al. 2020; batches: Wainakh et al. 2022).

    With the mean cross-entropy of n images, ∂/∂b_c = mean p_c − n_c/n: negative where label c was present, as the
    probabilities p_c of the others are positive. Without a bias the sum of a row of ∂/∂W does the same, for the inputs
    of the last layer come out of ReLU and are not negative.

    Parameters
    ----------
    gradient : mapping of str to float array
        Of the mean loss, or a positive multiple of it, by tensor.
    count : int
        n, the number of images.
    layer : str
        Name of the last layer.

    Returns
    -------
    int64 array of shape (count,), ascending
        The most negative entry takes a label; what a label counts for is what all negative entries sum to, over n.
    """
    slopes = gradient.get(f"{layer}.bias")
    slopes = gradient[f"{layer}.weight"].sum(1) if slopes is None else slopes
    left = slopes.astype(np.float64)
    weight = -left[left < 0].sum() / count
    labels = []
    for _ in range(count):
        labels.append(int(left.argmin()))
        left[labels[-1]] += weight
    return np.sort(np.array(labels, dtype=np.int64))


def layer_input(weight: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """What went into a fully connected layer, exactly, from its gradients (Geiping et al. 2020, proposition 3.1).

    For y = Wx + b the gradients are ∂/∂W = δxᵀ and ∂/∂b = δ, so each row of ∂/∂W is a multiple of x. For one image x is
    exact. For several it is a mixture of their inputs.

    Parameters
    ----------
    weight : float array (units, inputs)
        ∂/∂W, or a multiple of it.
    bias : float array (units,), optional
        ∂/∂b, the same multiple of it. Without it x is found up to a factor, and scaled to a maximum of 1: its inputs
        are taken to be pixels in [0, 1], at least one of them white.

    Returns
    -------
    float64 array (inputs,)
        The least-squares solution over all units; zero where no unit has a gradient.
    """
    rows = weight.astype(np.float64)
    if bias is not None:
        slopes = bias.astype(np.float64)
        squares = slopes @ slopes
        return slopes @ rows / squares if squares else np.zeros(rows.shape[1])
    direction = _principal_row(rows)
    peak = direction[np.abs(direction).argmax()]
    return direction / peak if peak else direction


def _principal_row(rows: np.ndarray) -> np.ndarray:
    """The first right singular vector, by power iteration from the longest row."""
    vector = rows[np.square(rows).sum(1).argmax()]
    for _ in range(30):
        length = np.linalg.norm(vector)
        if not length:
            return vector
        vector = rows.T @ (rows @ (vector / length))
    return vector
