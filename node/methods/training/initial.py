"""The model that training starts from."""

from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.models import initial_tensors
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.protocol.terms import FederationConfig


def initial_model(config: FederationConfig) -> Tensors:
    """θ₁, a function of the terms: seeded weights, and the strategy's additional tensors."""
    spec = config.trained
    weights = initial_tensors(spec.name, spec.input_shape, spec.classes, config.federation.seed)
    return {**weights, **make_strategy(config.strategy.name, config.strategy.options).initial_extras(weights)}
