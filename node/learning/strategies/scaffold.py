"""SCAFFOLD: Karimireddy et al. 2020, "Stochastic Controlled Averaging for Federated Learning", algorithm 1.

Clients with skewed data drift towards their own optima while they train. Each keeps a control variate c_i, the gradient
of its own loss as it was in its last round, and a step takes the gradient g − c_i + c, in which c, the mean of all c_i,
stands in for the gradient of the common loss.

After K steps c_i⁺ is the mean of the K gradients g. For plain SGD that is the paper's option II,
c_i − c + (x − y_i)/(K·η). Written as a mean it also holds with momentum, weight decay or a task's own optimiser. The
server's step has η_g = 1, as in the paper's experiments.

c travels with the model. How the server's mean of what clients send becomes c + (|S|/N) · mean (c_i⁺ − c_i), and what
clients that drop out do to that, is in ``strategies.alongside``. Unlike the paper's, means are weighted by sample
counts, for x and for c: what is minimised is FedAvg's weighted loss.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch

from fedgrove.common.settings import Share
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.strategies.alongside import by_name, carried_on, of_parameters, zeros_for
from fedgrove.node.learning.strategies.base import LocalTerm, RoundEnd, RoundStart, Strategy
from fedgrove.node.learning.tasks.model import TaskModel

CONTROL = "scaffold/control/"
MAX_CONTROL = 1.0


@dataclass(frozen=True)
class Scaffold(Strategy):
    """SCAFFOLD's option.

    No value of c or c_i is beyond ±1: larger ones are taken as ±1, when they arise and when they arrive. So what is
    sent lies within ±3, and a client that lies cannot make the others' steps longer than 2 · learning_rate a weight.

    Attributes
    ----------
    forget : float
        φ, which forgets what went wrong with the mean of the control variates: members that dropped out, lost state,
        lies. 0 is the paper's formula, which never does; with 1 the mean is a moving average.
    """

    forget: Share = 0.0

    remembers: ClassVar[bool] = True

    def initial_extras(self, weights: Tensors) -> Tensors:
        """c = 0: the first round is FedAvg's."""
        return zeros_for(weights, CONTROL)

    def begin(self, model: TaskModel, start: RoundStart) -> LocalTerm:
        """Correct the steps by c − c_i; c_i is 0 in a client's first round."""
        return ControlTerm(self.forget, model, start)


class ControlTerm(LocalTerm):
    """Adds c − c_i to each step's gradient, and sums the gradients as they were before."""

    def __init__(self, forget: float, model: TaskModel, start: RoundStart) -> None:
        self._model, self._forget, self._rate = model, forget, start.sampling_rate
        self._parameters = list(model.parameters())
        self._common = _bounded(of_parameters(model, start.extras, CONTROL))
        own = of_parameters(model, start.state, "") if start.state else map(torch.zeros_like, self._common)
        self._own = _bounded(list(own))
        self._correction = torch._foreach_sub(self._common, self._own)
        self._sums, self._steps = list(map(torch.zeros_like, self._common)), 0

    @torch.no_grad()
    def before_step(self, again: Callable[[], object]) -> None:
        for parameter in self._parameters:
            if parameter.grad is None:  # the loss does not depend on it
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        torch._foreach_add_(self._sums, gradients)
        torch._foreach_add_(gradients, self._correction)
        self._steps += 1

    def finish(self) -> RoundEnd:
        new = _bounded([total / self._steps for total in self._sums]) if self._steps else self._own
        sent = carried_on(self._common, self._own, new, self._rate, self._forget)
        return RoundEnd(by_name(self._model, sent, CONTROL), by_name(self._model, new))


def _bounded(values: list[torch.Tensor]) -> list[torch.Tensor]:
    return [value.clamp(-MAX_CONTROL, MAX_CONTROL) for value in values]
