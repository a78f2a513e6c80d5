"""What a coordinator computes with the model itself: the first one, and how well a closed one does."""

import math
from collections.abc import Callable

import numpy as np
from fedgrove.chain.keys import Keys
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import Layout, Tensors, dump
from fedgrove.node.learning.models import initial_tensors
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.learning.training import evaluate
from fedgrove.node.masking.keys import public_key
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.stated import Counts
from fedgrove.node.methods.procfl.statements import ClusterStatements
from fedgrove.node.methods.registry import kind_of
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.roles.coordinator import Evaluator


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
    return dump(model) if config.clusters is None else ClusterState.first(model).to_bytes()


def evaluator(config: FederationConfig, test: Samples) -> Evaluator:
    """Maps a model to its accuracy, mean loss (nats) and number of samples on ``test``.

    Where there are clusters, it is the mean over those who trained their models, without the public samples.
    """
    if config.clusters is not None:
        return _mean_evaluator(config, split_public(config, test)[0])

    def score(model: Tensors) -> tuple[float, float, int]:
        result = evaluate(config.model, model, test)
        return result.accuracy, _finite(result.loss), result.samples

    return score


def coordinator_tasks(config: FederationConfig, keys: Keys, test: Samples | None) -> dict[str, Callable]:
    """What a coordinator does beside driving rounds: it evaluates models, and states what clusters need.

    Parameters
    ----------
    test : Samples or None
        Without, nothing is evaluated.

    Raises
    ------
    InvalidConfig
        Clusters cannot do without the test samples, or the keys are not those that the terms name.
    """
    tasks: dict[str, Callable] = {} if test is None else {"evaluate": evaluator(config, test)}
    if config.clusters is None:
        return tasks
    if config.clusters.psi == "ecdh" and config.clusters.counter_key not in map(
        public_key, (keys.mailbox, *keys.past_mailboxes)
    ):
        raise InvalidConfig("clusters.counter is not the mailbox key of the coordinator: see fedgrove keys show")
    if config.clusters.states and config.clusters.signer.lower() != keys.address.lower():
        raise InvalidConfig("clusters.signer is not the account of the coordinator: see fedgrove keys show")
    if test is None and config.clusters.seats:
        raise InvalidConfig("clusters.seats is above 0: give test data, on which models are watched")
    watch = public_test(config, test) if config.clusters.seats else None
    return {**tasks, "statements": ClusterStatements(keys, watch)}


def public_test(config: FederationConfig, test: Samples) -> Callable[[Tensors], tuple[Counts, Counts]]:
    """Maps a cluster's model to right answers on the public samples, and the number of these, of each label."""
    public = split_public(config, test)[1]

    def right(model: Tensors) -> tuple[Counts, Counts]:
        result = evaluate(config.model, model, public)
        return tuple(map(int, result.right)), tuple(map(int, result.per_label))

    return right


def split_public(config: FederationConfig, test: Samples) -> tuple[Samples, Samples]:
    """Test samples for evaluation, and those on which clusters' models are watched: as in a simulation."""
    if not config.clusters.seats:
        return test, test.take(np.empty(0, np.intp))
    order = np.random.default_rng([config.federation.seed, 3]).permutation(len(test))
    cut = min(config.clusters.public_samples, len(test) // 2)
    return test.take(np.sort(order[cut:])), test.take(np.sort(order[:cut]))


def _mean_evaluator(config: FederationConfig, test: Samples) -> Evaluator:
    def score(state: ClusterState) -> tuple[float, float, int]:
        if not state.trained:
            return 0.0, 0.0, 0
        results = [evaluate(config.model, model, test) for model in state.models]
        members = [len(group) for group in state.groups] if len(state.groups) == len(results) else [1]
        share = [count / max(1, sum(members)) for count in members]
        accuracy = sum(part * result.accuracy for part, result in zip(share, results, strict=True))
        loss = sum(part * _finite(result.loss) for part, result in zip(share, results, strict=True))
        return min(1.0, accuracy), loss, len(test)

    return score


def _finite(loss: float) -> float:
    """The loss of a model, a very large one if it overflows: a poisoned model would else give metrics that are none."""
    return loss if math.isfinite(loss) else 1e300
