"""What a coordinator computes with the model itself: the first one, and how well a closed one does."""

from node.config import FederationConfig, InvalidConfig
from node.coordinator import Evaluator
from node.learning.models import initial_tensors
from node.learning.samples import Samples
from node.learning.strategies import make_strategy
from node.learning.training import evaluate
from node.tensors import Layout, Tensors, dump
from node.uploads.kinds import kind_of


def initial_model(config: FederationConfig) -> bytes:
    """Safetensors bytes of θ₁, a function of the terms: seeded weights, and what the strategy sends beside them.

    Raises
    ------
    InvalidConfig
        The privacy mechanism does not suit the model.
    """
    spec = config.model
    weights = initial_tensors(spec.name, spec.input_shape, spec.classes, config.federation.seed)
    extras = make_strategy(config.strategy.name, config.strategy.options).initial_extras(weights)
    model = {**weights, **extras}
    try:
        kind_of(config).upload_bytes(Layout.of(model))
    except ValueError as fault:
        raise InvalidConfig(f"privacy: {fault}") from None
    return dump(model)


def evaluator(config: FederationConfig, test: Samples) -> Evaluator:
    """Maps a model to its accuracy, mean loss (nats) and number of samples on ``test``."""

    def score(model: Tensors) -> tuple[float, float, int]:
        result = evaluate(config.model, model, test)
        return result.accuracy, result.loss, result.samples

    return score
