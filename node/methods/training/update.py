"""What a client's round of training comes to, before it is masked."""

from dataclasses import dataclass

from fedgrove.node.base.tensors import Tensors
from fedgrove.node.protocol.metric_words import MetricSums


@dataclass(frozen=True)
class ModelUpdate:
    """Trained tensors, and the metrics of the model that the round began with, where the terms ask for them.

    In the round that only evaluates the last model there are no tensors. ``unmeasured`` says why a member whose metrics
    are asked for states none, in one clause.
    """

    tensors: Tensors
    metrics: MetricSums | None = None
    unmeasured: str = ""

    @property
    def caution(self) -> str:
        """For people: that and why the member's metrics are missing; empty where they are not."""
        return f"without this member's metrics: {self.unmeasured}" if self.unmeasured else ""
