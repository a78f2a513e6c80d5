"""The coordinator's work on the models of clusters: it evaluates them and states their scores."""

from collections.abc import Callable, Sequence

import numpy as np

from fedgrove.chain.crypto.keys import Keys
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.networks import evaluate
from fedgrove.node.learning.samples import Samples
from fedgrove.node.masking.keys import public_key
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.stated import Counts
from fedgrove.node.methods.procfl.statements import ClusterStatements
from fedgrove.node.methods.procfl.terms import terms_of
from fedgrove.node.methods.training.learner import LearnedData, learning_of
from fedgrove.node.protocol.method import Aides, Evaluated, Evaluator
from fedgrove.node.protocol.terms import FederationConfig


def aides(config: FederationConfig, keys: Keys | None, test: LearnedData | None) -> Aides[ClusterState]:
    """The coordinator's work in addition to driving rounds; see ``Method.aides``."""
    terms = terms_of(config)
    if keys is None:
        return Aides() if test is None else Aides(mean_evaluator(_model_evaluator(config, test)))
    if terms.counter_key not in map(public_key, (keys.mailbox, *keys.past_mailboxes)):
        raise InvalidConfig("procfl.counter is not the coordinator's mailbox key: see `fedgrove keys show`")
    if terms.signer.lower() != keys.address.lower():
        raise InvalidConfig("procfl.signer is not the coordinator's account: see `fedgrove keys show`")
    if test is None:
        if terms.seats:
            raise InvalidConfig("procfl.seats is above 0: give test data to score the models on")
        return Aides(statements=ClusterStatements(keys))
    public = public_test(config, test) if terms.seats and isinstance(test, Samples) else None
    return Aides(mean_evaluator(_model_evaluator(config, test)), ClusterStatements(keys, public))


def _model_evaluator(config: FederationConfig, test: LearnedData) -> Evaluator[Tensors]:
    """How well one cluster's model does, without the public samples."""
    return learning_of(config).evaluator(split_public(config, test)[0] if isinstance(test, Samples) else test)


def public_test(config: FederationConfig, test: Samples) -> Callable[[Tensors], tuple[Counts, Counts]]:
    """Maps a cluster's model to right answers on the public samples, and the number of these, of each label."""
    public = split_public(config, test)[1]

    def right(model: Tensors) -> tuple[Counts, Counts]:
        result = evaluate(config.network, model, public)
        return tuple(map(int, result.right)), tuple(map(int, result.per_label))

    return right


def split_public(config: FederationConfig, test: Samples) -> tuple[Samples, Samples]:
    """Test samples for evaluation, and those on which clusters' models are watched: as in a simulation."""
    if not terms_of(config).seats:
        return test, test.take(np.empty(0, np.intp))
    order = np.random.default_rng([config.federation.seed, 3]).permutation(len(test))
    cut = min(terms_of(config).public_samples, len(test) // 2)
    return test.take(np.sort(order[cut:])), test.take(np.sort(order[:cut]))


def mean_evaluator(evaluate_model: Evaluator[Tensors]) -> Evaluator[ClusterState]:
    """The mean over those who trained the models of clusters."""

    def score(state: ClusterState) -> Evaluated:
        if not state.trained:
            return Evaluated(accuracy=0.0)
        results = [evaluate_model(model) for model in state.models]
        members = [len(group) for group in state.groups] if len(state.groups) == len(results) else [1]
        shares = [count / max(1, sum(members)) for count in members]
        loss = sum(share * found.loss for share, found in zip(shares, results, strict=True))
        accuracy = _weighted([found.accuracy for found in results], shares)
        only = {found.only_class for found in results}
        return Evaluated(accuracy, loss, results[0].samples, only.pop() if len(only) == 1 else None)

    return score


def _weighted(accuracies: Sequence[float | None], shares: Sequence[float]) -> float | None:
    """The weighted mean; None where answers are not right or wrong."""
    known = [found for found in accuracies if found is not None]
    if len(known) < len(accuracies):
        return None
    return min(1.0, sum(share * found for share, found in zip(shares, known, strict=True)))
