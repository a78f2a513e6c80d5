"""FedProx: Li et al. 2020, "Federated Optimization in Heterogeneous Networks", algorithm 2.

The loss gets a proximal term μ/2 · ‖w − w_t‖², which keeps the local weights w near the global ones w_t.
"""

from dataclasses import dataclass

import torch

from fedgrove.node.learning.strategies.base import Batch, LocalTerm, RoundStart, Strategy, Weight
from fedgrove.node.learning.strategies.penalty import proximity
from fedgrove.node.learning.tasks.model import TaskModel


@dataclass(frozen=True)
class FedProx(Strategy):
    """FedProx's option.

    Attributes
    ----------
    mu : float
        μ, the weight of the proximal term; the paper tries 0.001, 0.01, 0.1 and 1. With 0 it is FedAvg.
    """

    mu: Weight = 0.01

    def begin(self, model: TaskModel, start: RoundStart) -> LocalTerm:
        return ProximalTerm(self.mu, model) if self.mu else LocalTerm()


class ProximalTerm(LocalTerm):
    """μ/2 · ‖w − w_t‖², the squared norm over all weights."""

    def __init__(self, mu: float, model: TaskModel) -> None:
        self._mu = mu
        self._parameters = list(model.parameters())
        self._global = [parameter.detach().clone() for parameter in self._parameters]

    def loss(self, batch: Batch) -> torch.Tensor:
        return proximity(self._parameters, self._global, self._mu)
