"""The members' metrics in a round's uploads: words behind those of the model (spec 07)."""

from collections.abc import Collection

import numpy as np
from fedgrove.node.learning.settings import LOSSES
from fedgrove.node.methods.training.update import ModelUpdate
from fedgrove.node.protocol.members_metrics import MembersMetrics, of_sums, with_course
from fedgrove.node.protocol.metric_words import ImplausibleMetrics, from_words, to_words, words_for
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.terms import FederationConfig


def metric_names(config: FederationConfig) -> tuple[str, ...]:
    """Names of the sums, in the order of their words; none where the terms ask for no evaluation."""
    return (*config.evaluation.metrics, *LOSSES) if config.evaluation is not None else ()


def words_behind(config: FederationConfig) -> int:
    """How many words follow the model's in every upload."""
    return words_for(metric_names(config)) if config.evaluation is not None else 0


def metric_words(config: FederationConfig, update: ModelUpdate) -> np.ndarray:
    """A client's words behind those of its model."""
    if config.evaluation is None:
        return np.empty(0, np.uint32)
    if update.metrics is None:
        raise TypeError("the terms ask for metrics, but the update has none")
    return to_words(update.metrics, metric_names(config))


def members_metrics(inputs: RoundInputs, words: np.ndarray, positions: Collection[int]) -> MembersMetrics | None:
    """What a round states of the model that it began with: the sum over the clients at these leaf positions.

    Raises
    ------
    StoreError, InvalidBlob
        What the round before stated cannot be read.
    """
    settings = inputs.config.evaluation
    if settings is None:
        return None
    held_out = [settings.samples_of(inputs.graph.participants[position].samples) for position in positions]
    expected = sum(count or 0 for count in held_out) if settings.held_out else None
    try:
        found = of_sums(from_words(words, metric_names(inputs.config), len(positions)), expected)
    except ImplausibleMetrics as fault:
        found = MembersMetrics(0, {}, str(fault))
    patience = inputs.config.federation.patience
    before = inputs.stated.members if patience and inputs.stated is not None else None
    return with_course(found, before.course if before is not None else None, patience)
