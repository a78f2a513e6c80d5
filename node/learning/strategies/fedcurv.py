"""FedCurv: Shoham et al. 2019, "Overcoming Forgetting in Federated Learning on Non-IID Data", section 3.

Each client j sends, with its weights w_j, how sharply its loss is curved at them: the diagonal F_j of the Fisher
information, and F_j · w_j. In the next round clients are held to w_j where F_j is large.

The paper's client s adds λ Σ_{j≠s} F_j · (w − w_j)², the sum over the last round's clients. The server takes means
here, weighted by p_j = n_j/N, so what is added is

    λ Σ_j p_j F_j · (w − w_j)² = λ Σ (F̄ · w² − 2 · F̄w̄ · w) + constant,   F̄ = Σ_j p_j F_j,   F̄w̄ = Σ_j p_j F_j w_j.

For m clients with as many samples each that is the paper's term with λ/m for λ, with one exception: a client that took
part in the last round is not left out, as a strategy is not told with which share p_s, if at all, its update went into
the mean. Its own part of the term has that share and holds it to its own last weights. With a sampling rate r it is
there in a fraction r of the client's rounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.models import Classifier
from fedgrove.node.learning.strategies.alongside import of_parameters, zeros_for
from fedgrove.node.learning.strategies.base import Batch, LocalTerm, RoundEnd, RoundStart
from fedgrove.node.learning.strategies.fedavg import FedAvg
from fedgrove.node.learning.strategies.options import check_option
from fedgrove.node.learning.strategies.penalty import curvature
from torch import nn
from torch.nn import functional

FISHER = "fedcurv/fisher/"
MOMENT = "fedcurv/moment/"
FISHER_BATCH = 16
MAX_FISHER = 1.0


@dataclass(frozen=True)
class FedCurv(FedAvg):
    """FedCurv's option.

    Values of F are sent as they are, but none larger than 1. So F and F · w stay within any bound of 1 or more that the
    weights stay within. On digits and MNIST a client's largest value is 1e-4 to 0.7, and the values below 2⁻²⁷, which
    the masked sum cannot hold, make up less than a thousandth of all.

    Attributes
    ----------
    weight : float
        λ, the weight of the penalty, for means of F over the clients. The best one depends on data and model: sweep it
        upwards. Since no F exceeds 1, the penalty alone cannot make SGD diverge while λ is below 1/learning_rate; at
        about ten times that value it did on MNIST, where λ = 1 changed next to nothing. With 0 the weights are
        FedAvg's.
    """

    weight: float = 10.0

    def __post_init__(self) -> None:
        check_option(self.name, 0 <= self.weight <= 1e9, "weight", "from 0 to 1000000000")

    def initial_extras(self, weights: Tensors) -> Tensors:
        """Zeros for F and F · w of each tensor: nobody is held to anything in the first round."""
        return zeros_for(weights, FISHER) | zeros_for(weights, MOMENT)

    def begin(self, model: Classifier, start: RoundStart) -> LocalTerm:
        """Hold the model to what the last round's clients sent."""
        return CurvatureTerm(self.weight, model, start)


class CurvatureTerm(LocalTerm):
    """λ Σ (F̄ · w² − 2 · F̄w̄ · w), and at the end this client's own F and F · w."""

    def __init__(self, weight: float, model: Classifier, start: RoundStart) -> None:
        self._model = model
        self._samples = start.samples
        self._parameters = list(model.parameters())
        self._diagonal = [2 * weight * fisher for fisher in of_parameters(model, start.extras, FISHER)]
        self._linear = [2 * weight * moment for moment in of_parameters(model, start.extras, MOMENT)]
        self._holds = any(bool(fisher.any()) for fisher in self._diagonal)

    def loss(self, batch: Batch) -> torch.Tensor | None:
        """The penalty without its constant; it does not depend on the batch."""
        return curvature(self._parameters, self._diagonal, self._linear) if self._holds else None

    def finish(self) -> RoundEnd:
        """F at the trained weights on the client's samples, as they are without augmentation, and F · w."""
        images, labels = torch.from_numpy(self._samples.x), torch.from_numpy(self._samples.y)
        return self.sent(fisher_diagonal(self._model, images, labels))

    def sent(self, found: Sequence[torch.Tensor]) -> RoundEnd:
        """What is uploaded of F, a tensor for each of the model's parameters."""
        fisher, moment = {}, {}
        for (name, weights), values in zip(self._model.named_parameters(), found, strict=True):
            fisher[name] = values.clamp(max=MAX_FISHER).cpu().numpy()
            moment[name] = fisher[name] * weights.detach().cpu().numpy()
        return RoundEnd(_extras(fisher, moment))


def _extras(fisher: Tensors, moment: Tensors) -> Tensors:
    """F and F · w by the names under which they are sent."""
    return {FISHER + name: value for name, value in fisher.items()} | {
        MOMENT + name: value for name, value in moment.items()
    }


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
