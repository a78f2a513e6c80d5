"""How well a model does on a coordinator's test data."""

import math

from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.training import evaluate
from fedgrove.node.protocol.method import Evaluated, Evaluator
from fedgrove.node.protocol.terms import FederationConfig


def evaluator(config: FederationConfig, test: Samples) -> Evaluator[Tensors]:
    """Maps a model to how it does on ``test``; its loss is in nats."""

    def score(model: Tensors) -> Evaluated:
        result = evaluate(config.trained, model, test)
        return Evaluated(result.accuracy, finite(result.loss), result.samples, result.only_class)

    return score


def finite(loss: float) -> float:
    """The loss of a model, a very large one if it overflows: a poisoned model would else give metrics that are none."""
    return loss if math.isfinite(loss) else 1e300
