"""FedDyn: Acar et al. 2021, "Federated Learning Based on Dynamic Regularization", algorithm 1.

Client i minimises its own loss, less the linear part that it had at its last optimum, near the server's weights θ:

    θ_i = argmin L_i(w) − ⟨g_i, w⟩ + α/2 · ‖w − θ‖²,   g_i⁺ = g_i − α · (θ_i − θ).

At a fixed point all θ_i are θ, and g_i is the gradient of L_i there. The server keeps h, the mean of the g_i, and goes
on from θ⁺ = mean θ_i − h⁺/α. With d_i = −g_i/α, all moves of client i so far, and D = −h/α, their mean, that is

    L_i(w) + α/2 · ‖w − (θ − d_i)‖² + constant,   d_i⁺ = d_i + (θ_i − θ),   θ⁺ = mean θ_i + D⁺,

in which everything has the size of weights, whatever α is.

The model on the ledger is mean θ_i, which the authors' code evaluates, too. D goes with it, and clients add it when
they begin. So weights are uploaded as they are, with D + (|P|/m) · (θ_i − θ), which is no larger than they are. For
clients that drop out see ``strategies.alongside``. Unlike the paper's, means are weighted by sample counts: what is
minimised is FedAvg's weighted loss. As in the authors' code, argmin is as far as the local epochs of SGD come.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from msgspec import Meta

from fedgrove.common.settings import Share
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.strategies.alongside import by_name, carried_on, of_parameters, zeros_for
from fedgrove.node.learning.strategies.base import Batch, LocalTerm, RoundEnd, RoundStart, Strategy
from fedgrove.node.learning.strategies.penalty import proximity
from fedgrove.node.learning.tasks.model import TaskModel

MAX_DRIFT = 1.0


@dataclass(frozen=True)
class FedDyn(Strategy):
    """FedDyn's options.

    No value of D is taken to be beyond ±1: so far at most clients start from the mean of their models, whatever others
    send.

    Attributes
    ----------
    alpha : float
        α, the weight of the dynamic regularizer; the authors' code has 0.01 for CIFAR-10.
    forget : float
        φ, which forgets what went wrong with the mean of the clients' moves: members that dropped out, lost state,
        lies. 0 is the paper's formula, which never does; with 1 the mean is a moving average.
    """

    alpha: Annotated[float, Meta(ge=1e-6, le=1000)] = 0.01
    forget: Share = 0.0

    remembers: ClassVar[bool] = True

    @property
    def kind(self) -> str:
        return f"{self.name}/drift/"

    def initial_extras(self, weights: Tensors) -> Tensors:
        return zeros_for(weights, self.kind)

    def begin(self, model: TaskModel, start: RoundStart) -> LocalTerm:
        """Go on from mean θ_i + D; d_i is 0 in a client's first round."""
        return DynamicTerm(self, model, start)


class DynamicTerm(LocalTerm):
    """α/2 · ‖w − (θ − d_i)‖², and at the end d_i and this client's share of D."""

    @torch.no_grad()
    def __init__(self, options: FedDyn, model: TaskModel, start: RoundStart) -> None:
        self._options, self._model, self._rate = options, model, start.sampling_rate
        self._parameters: list[torch.Tensor] = list(model.parameters())
        self._drift = [each.clamp(-MAX_DRIFT, MAX_DRIFT) for each in of_parameters(model, start.extras, options.kind)]
        own = of_parameters(model, start.state, "") if start.state else map(torch.zeros_like, self._drift)
        self._own = list(own)
        torch._foreach_add_(self._parameters, self._drift)
        self._begun = [parameter.detach().clone() for parameter in self._parameters]
        self._anchor = torch._foreach_sub(self._begun, self._own)

    def loss(self, batch: Batch) -> torch.Tensor | None:
        """The dynamic regularizer without its constant; it does not depend on the batch."""
        return proximity(self._parameters, self._anchor, self._options.alpha)

    @torch.no_grad()
    def finish(self) -> RoundEnd:
        parts = zip(self._own, self._parameters, self._begun, strict=True)
        new = [own + (after - before) for own, after, before in parts]
        sent = carried_on(self._drift, self._own, new, self._rate, self._options.forget)
        return RoundEnd(by_name(self._model, sent, self._options.kind), by_name(self._model, new))
