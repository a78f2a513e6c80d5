"""FedAom with FedSAM's step: the gradient of both losses is taken where their sum is larger nearby.

Neither paper has it. FedAom keeps decisions on the shared set where the global model has them, FedSAM leads to flat
minima of the client's own samples; the comparison asks whether together they do better than each (docs/results).
"""

from collections.abc import Callable
from dataclasses import dataclass

from fedgrove.node.learning.strategies.base import LocalTerm, RoundStart, Weight
from fedgrove.node.learning.strategies.fedaom import BehaviourTerm, FedAom
from fedgrove.node.learning.strategies.fedsam import SharpnessTerm
from fedgrove.node.learning.tasks.model import TaskModel


@dataclass(frozen=True)
class FedAomSam(FedAom):
    """Options of FedAom with SAM's step; all but ρ are FedAom's.

    Attributes
    ----------
    beta, epsilon, q, shared_batch, refresh : float or int
        As with `fedaom`.
    rho : float
        ρ, the distance from the weights at which the gradient is taken, as with `fedsam`. With 0 it is FedAom.
    """

    rho: Weight = 0.05

    def begin(self, model: TaskModel, start: RoundStart) -> LocalTerm:
        """Hold the model to the global behaviour, and take gradients where the loss is larger."""
        if not self.rho:
            return super().begin(model, start)
        return SharpnessTerm(self.rho, model) if start.prepared is None else SharpenedTerm(self, model, start)


class SharpenedTerm(BehaviourTerm):
    """FedAom's, with gradients of the whole loss at w + ρ · g/‖g‖; both passes draw the same shared samples."""

    def __init__(self, options: FedAomSam, model: TaskModel, start: RoundStart) -> None:
        super().__init__(options, model, start)
        self._sharpness = SharpnessTerm(options.rho, model)
        self._drawn_from = self._generator.get_state()

    def before_step(self, again: Callable[[], object]) -> None:
        self._generator.set_state(self._drawn_from)
        self._sharpness.before_step(again)
        self._drawn_from = self._generator.get_state()
