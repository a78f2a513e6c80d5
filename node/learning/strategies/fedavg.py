"""FedAvg: McMahan et al. 2017, "Communication-Efficient Learning of Deep Networks from Decentralized Data".

Local SGD on the task's loss alone. The other strategies extend it.
"""

from dataclasses import dataclass
from typing import Any

from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.strategies.base import LocalTerm, RoundStart
from fedgrove.node.learning.tasks.model import TaskModel


@dataclass(frozen=True)
class FedAvg:
    """Plain federated averaging; no options."""

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    @property
    def needs_shared(self) -> bool:
        return False

    @property
    def remembers(self) -> bool:
        return False

    def initial_extras(self, weights: Tensors) -> Tensors:
        """Only the weights are sent."""
        return {}

    def local_data(self, samples: Any, shared: Any) -> Any:
        """The client's own samples."""
        return samples

    def prepare(self, model: TaskModel, shared: Any, *, number: int, rounds: int) -> object:
        """Nothing is common to a round's clients but the model."""
        return None

    def begin(self, model: TaskModel, start: RoundStart) -> LocalTerm:
        """Add nothing to the loss."""
        return LocalTerm()
