"""What a client's round of training comes to, before it is masked."""

from dataclasses import dataclass

from fedgrove.node.base.tensors import Tensors
from fedgrove.node.protocol.metric_words import MetricSums


@dataclass(frozen=True)
class ModelUpdate:
    """Trained tensors, and the metrics of the model that the round began with, where the terms ask for them.

    In the round that only evaluates the last model there are no tensors.
    """

    tensors: Tensors
    metrics: MetricSums | None = None
