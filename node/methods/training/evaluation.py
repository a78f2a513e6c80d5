"""How well a model does on a coordinator's test data."""

import math

import numpy as np

from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.networks import evaluate, probabilities
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.scores import StatedScores, class_scores
from fedgrove.node.learning.settings import MAX_CONFUSED
from fedgrove.node.protocol.method import Evaluated, Evaluator
from fedgrove.node.protocol.terms import FederationConfig


def evaluator(config: FederationConfig, test: Samples) -> Evaluator[Tensors]:
    """Maps a model to how it does on ``test``; its loss is in nats."""

    def score(model: Tensors) -> Evaluated:
        result = evaluate(config.trained, model, test)
        found = (result.accuracy, finite(result.loss), result.samples, result.only_class)
        return Evaluated(*found, _scores(config, model, test))

    return score


def _scores(config: FederationConfig, model: Tensors, test: Samples) -> StatedScores | None:
    """AUC and the like; None where there are many classes, or the model overflows."""
    if len(config.classes) > MAX_CONFUSED:
        return None
    values = probabilities(config.trained, model, test.x)
    return class_scores(values, test.y, config.classes).statement() if np.isfinite(values).all() else None


def finite(loss: float) -> float:
    """The loss of a model, a very large one if it overflows: a poisoned model would else give metrics that are none."""
    return loss if math.isfinite(loss) else 1e300
