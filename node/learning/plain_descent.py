"""Plain SGD on a fully connected network, with its gradients written out.

Small batches of a large network cost what it takes to move the weights through the processor. Automatic differentiation
writes every gradient to memory and reads it again to subtract it; here the subtraction is part of the matrix product.
A pixel that is black in all of a client's images has no gradient, so its weights are left where they are. Sums come in
another order than in ``node.learning.training``: the same mathematics, other last bits.
"""

import math

import torch

from node.learning.models import FullyConnected, Network
from node.learning.samples import Samples
from node.learning.settings import TrainingSettings
from node.learning.strategies.base import LocalTerm


def suits(model: Network, term: LocalTerm, settings: TrainingSettings) -> bool:
    """Whether a round is nothing but w ← w − η·∇ on a fully connected network without biases."""
    plain = not (settings.momentum or settings.weight_decay or settings.crop or settings.flip or settings.erase)
    return plain and isinstance(model, FullyConnected) and type(term) is LocalTerm


@torch.no_grad()
def descend(
    model: FullyConnected, samples: Samples, settings: TrainingSettings, rate: float, generator: torch.Generator
) -> float:
    """Run the local epochs; return the mean cross-entropy of the last, not finite as soon as one epoch's is not."""
    images, labels = torch.from_numpy(samples.x).flatten(1), torch.from_numpy(samples.y)
    seen = images.any(0)
    images = images[:, seen]
    classes = model.output.out_features
    wanted = torch.nn.functional.one_hot(labels, classes).to(images.dtype)
    weights = model.hidden1.weight[:, seen], model.hidden2.weight.detach(), model.output.weight.detach()
    loss = math.nan
    for _ in range(settings.epochs):
        order = torch.randperm(len(labels), generator=generator)
        batches = zip(images[order].split(settings.batch_size), wanted[order].split(settings.batch_size), strict=True)
        loss = sum((_step(weights, x, y, rate) for x, y in batches), torch.zeros(())).item() / len(labels)
        if not math.isfinite(loss):
            break
    model.hidden1.weight[:, seen] = weights[0]
    return loss


def _step(weights: tuple[torch.Tensor, ...], x: torch.Tensor, wanted: torch.Tensor, rate: float) -> torch.Tensor:
    """One step on the mean cross-entropy of a batch, in place; the sum of its cross-entropies before it.

    Parameters
    ----------
    weights : tensors (units, inputs) of the three layers
    x : float32 tensor (n, pixels)
    wanted : float32 tensor (n, classes)
        One-hot labels.
    """
    first, second, last = weights
    hidden1 = torch.mm(x, first.T).relu_()
    hidden2 = torch.mm(hidden1, second.T).relu_()
    log_likelihood = torch.mm(hidden2, last.T).log_softmax(1)
    loss = -torch.sum(log_likelihood * wanted)
    # Slopes of the summed loss at the layers' outputs; those of ReLU are 0 or 1.
    slope = log_likelihood.exp_().sub_(wanted)
    slope2 = torch.mm(slope, last)
    last.addmm_(slope.T, hidden2, alpha=-rate / len(x))
    slope2 *= hidden2.sign_()
    slope1 = torch.mm(slope2, second)
    second.addmm_(slope2.T, hidden1, alpha=-rate / len(x))
    slope1 *= hidden1.sign_()
    first.addmm_(slope1.T, x, alpha=-rate / len(x))
    return loss
