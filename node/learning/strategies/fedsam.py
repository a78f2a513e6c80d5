"""FedSAM: Qu et al. 2022, "Generalized Federated Learning via Sharpness Aware Minimization", algorithm 1.

Also Caldarola et al. 2022, "Improving Generalization in Federated Learning by Seeking Flat Minima". A client's step
takes its gradient not at w, but at w + ρ · g/‖g‖, about where the batch's loss is largest at distance ρ (Foret et al.
2021). That leads to flat minima, which are wide enough for a mean of clients to stay in them. A step takes two passes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from fedgrove.node.learning.strategies.base import LocalTerm, RoundStart, Strategy, Weight
from fedgrove.node.learning.tasks.model import TaskModel

SMALLEST = 1e-12


@dataclass(frozen=True)
class FedSam(Strategy):
    """FedSAM's option.

    Of a task all federated weights move to where the gradient is taken, those that stay at home do not. Running
    statistics come from the first pass alone.

    Attributes
    ----------
    rho : float
        ρ, the distance from the weights at which the gradient is taken, in the norm over all weights; 0.05 is Foret et
        al.'s, and FedSpeed's authors give FedSAM 0.1. With 0 it is FedAvg.
    """

    rho: Weight = 0.05

    def begin(self, model: TaskModel, start: RoundStart) -> LocalTerm:
        return SharpnessTerm(self.rho, model) if self.rho else LocalTerm()


class SharpnessTerm(LocalTerm):
    """Replaces each gradient at w by that at w + ρ · g/‖g‖."""

    def __init__(self, rho: float, model: TaskModel) -> None:
        self._rho, self._parameters, self._model = rho, list(model.parameters()), model

    def before_step(self, again: Callable[[], object]) -> None:
        moved: list[torch.Tensor] = [parameter for parameter in self._parameters if parameter.grad is not None]
        held = [*moved, *self._model.buffers()]
        with torch.no_grad():
            before = [value.clone() for value in held]
            torch._foreach_add_(moved, _ascent(moved, self._rho))
        again()
        with torch.no_grad():
            for value, kept in zip(held, before, strict=True):
                value.copy_(kept)


def _ascent(parameters: list[torch.Tensor], length: float) -> list[torch.Tensor]:
    """A step of this length along the gradients that the parameters hold."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(each) for each in gradients]))
    return [each * (length / (norm + SMALLEST)) for each in gradients]
