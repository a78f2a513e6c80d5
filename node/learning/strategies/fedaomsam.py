"""FedAom with FedSAM's step: the gradient of both losses is taken where their sum is larger nearby.

Neither paper has it. FedAom keeps decisions on the shared set where the global model has them, FedSAM leads to flat
minima of the client's own samples; the comparison asks whether together they do better than each (docs/results).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from fedgrove.node.learning.strategies.base import Batch, LocalTerm, RoundEnd, RoundStart, Weight
from fedgrove.node.learning.strategies.fedaom import FedAom
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
        held = super().begin(model, start)
        return SharpenedTerm(held, SharpnessTerm(self.rho, model), start.generator) if self.rho else held


class SharpenedTerm(LocalTerm):
    """Another term's loss, with gradients of the whole at w + ρ · g/‖g‖; both passes draw the same shared samples."""

    def __init__(self, held: LocalTerm, sharpness: SharpnessTerm, generator: torch.Generator) -> None:
        self._held, self._sharpness, self._generator = held, sharpness, generator
        self._drawn_from = generator.get_state()

    def start_epoch(self, epoch: int) -> None:
        self._held.start_epoch(epoch)

    def companions(self) -> Any:
        return self._held.companions()

    def loss(self, batch: Batch) -> torch.Tensor | None:
        return self._held.loss(batch)

    def before_step(self, again: Callable[[], object]) -> None:
        """Repeat the pass where the loss is larger, with the shared samples of the first."""
        self._generator.set_state(self._drawn_from)
        self._sharpness.before_step(again)
        self._drawn_from = self._generator.get_state()

    def finish(self) -> RoundEnd:
        return self._held.finish()
