"""How well a model does on a coordinator's test data."""

import math

from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.training import evaluate
from fedgrove.node.protocol.method import Evaluator
from fedgrove.node.protocol.terms import FederationConfig


def evaluator(config: FederationConfig, test: Samples) -> Evaluator[Tensors]:
    """Maps a model to its accuracy, mean loss (nats) and number of samples on ``test``."""

    def score(model: Tensors) -> tuple[float, float, int]:
        result = evaluate(config.trained, model, test)
        return result.accuracy, finite(result.loss), result.samples

    return score


def finite(loss: float) -> float:
    """The loss of a model, a very large one if it overflows: a poisoned model would else give metrics that are none."""
    return loss if math.isfinite(loss) else 1e300
