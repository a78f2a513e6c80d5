"""The words behind those of the model in a round's uploads: the members' metrics, and how many could not train.

Without a mechanism of privacy they are exact sums, under client-level privacy the metrics are rates within the
mechanism, and how many could not train is not counted: that would be outside its ε.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from fedgrove.common.errors import InvalidContent
from fedgrove.node.learning.local_update import HeldOutSums
from fedgrove.node.learning.settings import CONFUSION, LOSSES, RIGHT, EvaluationSettings, confusion_names, is_pair
from fedgrove.node.masking.ring import WORD
from fedgrove.node.methods.training.codec import ModelUpdate
from fedgrove.node.privacy.client_level import Rates
from fedgrove.node.protocol.local_work import CannotTakePart
from fedgrove.node.protocol.members_metrics import LossCourse, MembersMetrics, next_course, of_sums, with_course
from fedgrove.node.protocol.members_rates import MembersRates
from fedgrove.node.protocol.metric_words import (
    UNIT,
    MetricSums,
    from_words,
    limits_of,
    to_words,
    words_for,
)
from fedgrove.node.protocol.openings import Openings
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.terms import FederationConfig


def metric_names(config: FederationConfig) -> tuple[str, ...]:
    """Names of the sums, in the order of their words; none where the terms ask for no evaluation."""
    return names_of(config.evaluation, len(config.classes)) if config.evaluation is not None else ()


def names_of(settings: EvaluationSettings, classes: int = 0) -> tuple[str, ...]:
    """Names of the sums that these terms ask for; ``classes`` are those of what is shipped."""
    own = (confusion_names(classes) if name == CONFUSION and classes else (name,) for name in settings.metrics)
    return (*chain.from_iterable(own), *LOSSES)


def fault_of(found: HeldOutSums, settings: EvaluationSettings) -> str:
    """Why a member states none of its metrics, in one clause; empty where it does.

    What is no number would end at the stop of a sum and be taken for a figure. A loss that is none does end there, so
    that a model from which it follows looks as bad as it is.
    """
    if found.fault:
        return found.fault
    broken = [name for name in settings.metrics if not math.isfinite(found.totals.get(name, 0.0))]
    return f"the metric {', '.join(broken)} is not a finite number{found.place}" if broken else ""


def sums_of(found: HeldOutSums, settings: EvaluationSettings, classes: int = 0) -> MetricSums:
    """What a member measured, of the metrics in the terms; CannotTakePart where the task has none of a name.

    Nothing where ``fault_of`` says why. ``classes`` are those of what is shipped.
    """
    names = names_of(settings, classes)
    if fault_of(found, settings):
        return nothing_measured(names)
    lacking = [name for name in names if name not in found.totals]
    if lacking and found.samples:
        raise CannotTakePart(f"the task has no metric {', '.join(lacking)}, which evaluation.metrics asks for")
    return MetricSums.measured(found.samples, {name: found.totals.get(name, 0.0) for name in names})


def nothing_measured(names: Sequence[str]) -> MetricSums:
    """The metrics of a member that could not evaluate the model."""
    return MetricSums(0, dict.fromkeys(names, 0))


def are_repeated(inputs: RoundInputs) -> bool:
    """Whether somebody may know a sum of the metrics of a round's very model; noise hides who says what."""
    return inputs.config.privacy is None and Openings(inputs.rounds, inputs.config).are_repeated(inputs.current)


SENT_BEFORE = MembersMetrics(0, {}, "members sent those of this model in an earlier round")
"""What is stated of a model whose metrics ``are_repeated``."""


def rates_of(found: MetricSums | None, names: Iterable[str]) -> Rates:
    """A member's mean of each of these metrics over its samples; None for each where it measured nothing."""
    if found is None or not found.samples:
        return [None for _ in names]
    return [found.sums[name] / found.samples * (1 if name == RIGHT else UNIT) for name in names]


def figures_of(members: Iterable[HeldOutSums], settings: EvaluationSettings) -> dict[str, Any]:
    """What a closed round states of these members' evaluations, as figures; CannotTakePart as ``sums_of``."""
    found = list(members)
    pairs = max((sum(map(is_pair, each.totals)) for each in found), default=0)
    classes = math.isqrt(pairs)
    names = names_of(settings, classes)
    every = [sums_of(each, settings, classes) for each in found]
    totals = {name: sum(each.sums[name] for each in every) for name in names}
    return of_sums(MetricSums(sum(each.samples for each in every), totals)).to_figures()


def figures_of_rates(rates: Mapping[str, float], noise: float) -> dict[str, Any]:
    """What a closed round states of noisy rates, as figures."""
    return MembersRates(dict(rates), noise).to_figures()


def ending_after(rounds: Iterable[Mapping[str, Any]], patience: int, first_stage: int = 0) -> str:
    """Why no further round trains after those that state these figures, in one clause; empty where one can.

    The course of the loss begins anew in each of the ``first_stage`` rounds, so that they end nothing.
    """
    course = None
    for number, figures in enumerate(rounds, 1):
        before = None if number <= first_stage else course
        course = next_course(before, figures.get("loss"), figures.get("standard_error"), patience)
    return course.ending if course is not None else ""


def words_behind(config: FederationConfig) -> int:
    """How many words follow the model's in every upload: those of the metrics, then one that counts who raised."""
    if config.privacy is not None:
        return 0
    return 1 + (words_for(metric_names(config)) if config.evaluation is not None else 0)


def limits_behind(config: FederationConfig) -> tuple[int, ...]:
    """The largest value that a member's own word may have, for each of ``words_behind``."""
    if not words_behind(config):
        return ()
    metrics = limits_of(metric_names(config), config.ledger.max_samples) if config.evaluation is not None else ()
    return (*metrics, 1)


def metric_words(inputs: RoundInputs, update: ModelUpdate, measured: bool = False) -> np.ndarray:
    """A client's words behind those of its model: zeros where it may have said the same of this model before.

    ``measured``: those of the client's own model were summed before, though not those of all.
    """
    config = inputs.config
    if config.privacy is not None or measured or are_repeated(inputs):
        return np.zeros(words_behind(config), WORD)
    raised = np.array([update.fault is not None], WORD)
    if config.evaluation is None:
        return raised
    if update.metrics is None:
        raise TypeError("the terms ask for metrics, but the update has none")
    return np.concatenate([to_words(update.metrics, metric_names(config)), raised])


def raised_in(inputs: RoundInputs, behind: np.ndarray, clients: int) -> int | None:
    """How many of the clients in a sum could not train, or evaluate the last model.

    None where nobody counts, as in a round whose words ``are_repeated``, or where honest members cannot add up to this.
    """
    raised = int(behind[-1]) if words_behind(inputs.config) and not are_repeated(inputs) else clients + 1
    return raised if raised <= clients else None


def members_metrics(inputs: RoundInputs, words: np.ndarray, positions: Collection[int]) -> MembersMetrics | None:
    """What a round states of the model that it began with: the sum over the clients at these leaf positions.

    SENT_BEFORE where the metrics may be known already (``are_repeated``).

    Raises
    ------
    StoreError, InvalidContent
        What the round before stated cannot be read.
    """
    if inputs.config.evaluation is None:
        return None
    found = SENT_BEFORE if are_repeated(inputs) else sum_of(inputs.config, words, len(positions))
    return with_course_before(inputs, found, anew=inputs.begins_anew)


def sum_of(config: FederationConfig, words: np.ndarray, clients: int) -> MembersMetrics:
    """What this number of members measured, from the sum of their words; the terms ask for an evaluation.

    ``words`` is a uint32 array of shape (words_behind(config),), without masks.
    """
    try:
        return of_sums(from_words(words, metric_names(config), clients), least_loss(config))
    except InvalidContent as fault:
        return MembersMetrics(0, {}, str(fault))


def least_loss(config: FederationConfig) -> float:
    """The smallest sum of losses that there is: the losses of what is shipped are cross-entropies and squares."""
    return -math.inf if config.learned.bundle else 0.0


def with_course_before(inputs: RoundInputs, found: MembersMetrics, *, anew: bool) -> MembersMetrics:
    """What was measured, with the course of the loss: that of the round before goes on, or it begins ``anew``.

    Raises
    ------
    StoreError, InvalidContent
        What the round before stated cannot be read.
    """
    course = course_before(inputs)
    if inputs.only_evaluates:  # the training has ended, whatever comes of the evaluation
        return found.replace(course=course, last=True)
    return with_course(found, None if anew else course, inputs.config.federation.patience)


def course_before(inputs: RoundInputs) -> LossCourse | None:
    """How the loss went up to the round before; None where no patience is in the terms. Raises as above."""
    before = inputs.stated.members if inputs.config.federation.patience and inputs.stated is not None else None
    return before.course if before is not None else None
