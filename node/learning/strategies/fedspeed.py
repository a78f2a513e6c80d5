"""FedSpeed: Sun et al. 2023, "Larger Local Interval, Less Communication Round, and Higher Generalization Accuracy".

Algorithm 1 is FedDyn's local problem with FedSAM's gradient. A step goes along

    ∇L_i(w + ρ · g/‖g‖) − g_i + α · (w − θ),   g = ∇L_i(w),   α = 1/λ,   g_i⁺ = g_i − α · (θ_i − θ),

where g_i is the paper's prox-correction. The paper's server takes the mean of the drawn clients' θ_i − λ · g_i⁺. The
authors' code adds the mean of −λ · g_i⁺ over all clients to mean θ_i, as FedDyn does, and so does this (see
``strategies.feddyn``). Also as in that code, a = 1 in the paper's mixture (1 − a) · ∇L_i(w) + a · ∇L_i(w + ρ · g/‖g‖).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
from msgspec import Meta

from fedgrove.node.learning.strategies.base import Batch, LocalTerm, RoundStart, Weight
from fedgrove.node.learning.strategies.feddyn import DynamicTerm, FedDyn
from fedgrove.node.learning.strategies.fedsam import SharpnessTerm
from fedgrove.node.learning.tasks.model import TaskModel


@dataclass(frozen=True)
class FedSpeed(FedDyn):
    """FedSpeed's options; the defaults of α and ρ are those of the authors' code.

    Attributes
    ----------
    alpha : float
        α, the weight of the proximal term, 1/λ in the paper.
    forget : float
        φ, as with `feddyn`.
    rho : float
        ρ, the distance from the weights at which the gradient is taken. With 0 it is FedDyn.
    """

    alpha: Annotated[float, Meta(ge=1e-6, le=1000)] = 0.1
    rho: Weight = 0.1

    def begin(self, model: TaskModel, start: RoundStart) -> LocalTerm:
        return SpeedTerm(self, model, start) if self.rho else DynamicTerm(self, model, start)


class SpeedTerm(DynamicTerm):
    """Replaces each gradient by that at w + ρ · g/‖g‖, and then adds the dynamic regularizer's."""

    def __init__(self, options: FedSpeed, model: TaskModel, start: RoundStart) -> None:
        super().__init__(options, model, start)
        self._sharpness = SharpnessTerm(options.rho, model)

    def loss(self, batch: Batch) -> torch.Tensor | None:
        """Nothing: where the loss is larger is not for the regularizer to say."""
        return None

    def before_step(self, again: Callable[[], object]) -> None:
        """Take the gradient nearby, and add α · (w − (θ − d_i))."""
        self._sharpness.before_step(again)
        with torch.no_grad():
            for parameter, anchor in zip(self._parameters, self._anchor, strict=True):
                pull = self._options.alpha * (parameter - anchor)
                parameter.grad = pull if parameter.grad is None else parameter.grad + pull
