"""Plain SGD on a fully connected network for clients with few samples, with its gradients written out.

Small batches of a large network cost what it takes to move the weights through the processor, and most weights are the
first layer's. Its weights are W = W₀ + DᵀX after any number of steps, X the client's images and D a row for each: the
sum of the slopes, times −η, of the steps that it was in. So a step needs neither W nor its gradient. A batch's units
are X_b·W₀ᵀ + (X_b·Xᵀ)·D, both products of the images known beforehand, and the step adds to the batch's rows of D.
Automatic differentiation also writes every gradient to memory and reads it again to subtract it; here the
subtraction is part of the matrix product. This is the same mathematics as ``node.learning.training``, with sums in
another order, so the last bits differ.
"""

import math
from typing import Any

import torch

from fedgrove.node.learning.models import FullyConnected
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.learning.strategies.base import LocalTerm
from fedgrove.node.learning.tasks.model import TaskModel
from fedgrove.node.learning.tasks.network import NetworkModel
from fedgrove.node.learning.tasks.task import Pairs


def suits(model: TaskModel, samples: Any, term: LocalTerm, settings: TrainingSettings) -> bool:
    """Whether a round is nothing but w ← w − η·∇ on a network without biases, with few enough samples to gain by it."""
    if not (isinstance(model, NetworkModel) and isinstance(model.module, FullyConnected)):
        return False
    if settings.momentum or settings.weight_decay or settings.augmentations:
        return False
    plain = settings.precision == "fp32" and type(term) is LocalTerm
    return plain and len(samples) <= 2 * model.module.hidden1.in_features


@torch.no_grad()
def descend(
    network: TaskModel, samples: Pairs, settings: TrainingSettings, rate: float, generator: torch.Generator
) -> float:
    """Run the local epochs; return the mean cross-entropy of the last, not finite as soon as one epoch's is not.

    The model is one that ``suits``.
    """
    model = network.module
    assert isinstance(model, FullyConnected)
    count, size = len(samples), settings.batch_size
    # In the order of the first epoch, so that the rows of D that are not zero in it come first.
    order = torch.randperm(count, generator=generator)
    place = order.argsort()
    lit, images = _lit_pixels(model, samples, order)
    labels = samples.targets[order].to(model.device)
    wanted = torch.nn.functional.one_hot(labels, model.output.out_features).to(images.dtype)
    before, products = torch.mm(images, model.hidden1.weight.index_select(1, lit).T), torch.mm(images, images.T)
    slopes, likelihoods = torch.zeros_like(before), torch.empty_like(wanted)
    loss = math.nan
    for epoch in range(settings.epochs):
        rows = place[torch.randperm(count, generator=generator) if epoch else order].to(model.device)
        answers = wanted[rows]
        whole = (rows, before[rows], products[rows], answers, likelihoods)
        parts = zip(*(part.split(size) for part in whole), strict=True)
        for step, (batch, at_start, with_all, labelled, likelihood) in enumerate(parts):
            moved = count if epoch else step * size
            units = torch.addmm(at_start, with_all[:, :moved], slopes[:moved])
            _step(model, units, labelled, rate, likelihood)
            slopes.index_add_(0, batch, units)
        loss = -float(torch.sum(likelihoods * answers)) / count
        if not math.isfinite(loss):
            break
    model.hidden1.weight.index_add_(1, lit, torch.mm(slopes.T, images))
    return loss


def _lit_pixels(model: FullyConnected, samples: Pairs, order: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The pixels that are black in not all of the images, and these of the images in order (n, pixels).

    The others' weights do not count and do not move. Of handwritten digits of two kinds they are a third.
    """
    pixels = samples.inputs.flatten(1)
    lit = pixels.any(0).nonzero().squeeze(1)
    return lit.to(model.device), pixels.index_select(1, lit)[order].to(model.device)


def _step(
    model: FullyConnected, units: torch.Tensor, wanted: torch.Tensor, rate: float, likelihood: torch.Tensor
) -> None:
    """One step of the second and the last layer, in place.

    Parameters
    ----------
    units : float32 tensor (n, units)
        The first layer's outputs; then −η times the slopes of the batch's mean cross-entropy there.
    wanted : float32 tensor (n, classes)
        One-hot labels.
    likelihood : float32 tensor (n, classes)
        Is given the logarithms of the likelihoods before the step.
    """
    second, last = model.hidden2.weight, model.output.weight
    hidden1 = units.relu()
    hidden2 = torch.mm(hidden1, second.T).relu_()
    torch.log_softmax(torch.mm(hidden2, last.T), 1, out=likelihood)
    # What is sent back is −η times the slopes of the mean; those of ReLU are 0 or 1.
    back = likelihood.exp().sub_(wanted).mul_(-rate / len(wanted))
    back2 = torch.mm(back, last)
    last.addmm_(back.T, hidden2)
    back2 *= hidden2.sign_()
    torch.mm(back2, second, out=units)
    second.addmm_(back2.T, hidden1)
    units *= hidden1.sign_()
