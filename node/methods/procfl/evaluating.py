"""The members' evaluation where there are clusters: each evaluates the model that it trains from.

Each group's metrics are summed apart, as its models are. Impossible metrics leave out their own group alone.
"""

from collections import Counter
from collections.abc import Sequence

from fedgrove.node.methods.procfl.round_inputs import course_of
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.sums import GroupSum
from fedgrove.node.methods.training.metric_sums import (
    SENT_BEFORE,
    are_repeated,
    course_before,
    least_loss,
    raised_in,
    sum_of,
    with_course_before,
)
from fedgrove.node.protocol.members_metrics import MembersMetrics, of_sums
from fedgrove.node.protocol.metric_words import MetricSums
from fedgrove.node.protocol.round_inputs import RoundInputs


def evaluated(inputs: RoundInputs[ClusterState], sums: Sequence[GroupSum]) -> MembersMetrics | None:
    """What a round states of the models that it began with, over all groups; None where the terms ask for nothing."""
    if inputs.config.evaluation is None:
        return None
    summed = [each for each in sums if each.words is not None]
    fresh = _fresh(inputs, sums)
    found = [sum_of(inputs.config, each.behind, len(each.group)) for each in fresh]
    repeated = are_repeated(inputs) or (summed and not fresh)
    together = SENT_BEFORE if repeated else _together(found, least_loss(inputs.config))
    course = course_of(inputs.config)
    # A loss that stays with one model for all may well fall with a model for each cluster, so it ends nothing.
    first_stage = course.is_global(inputs.previous) and course.last_global < course.training_rounds
    return with_course_before(inputs, together, anew=first_stage)


def not_evaluated(inputs: RoundInputs[ClusterState]) -> MembersMetrics | None:
    """What a round states in which nobody trains: how the loss went before, where the terms have a patience."""
    course = course_before(inputs)
    return None if course is None else MembersMetrics(0, {}, course=course)


def _fresh(inputs: RoundInputs[ClusterState], sums: Sequence[GroupSum]) -> list[GroupSum]:
    """The sums whose models' metrics were not summed before."""
    known = inputs.previous.is_measured
    return [each for number, each in enumerate(sums) if each.words is not None and not known(number)]


def _together(found: list[MembersMetrics], least: float) -> MembersMetrics:
    """The metrics of all groups that have some; where none has, why."""
    known = [each for each in found if each.there]
    if not known:
        return next((each for each in found if each.void), MembersMetrics(0, {}))
    totals: Counter[str] = Counter()
    for each in known:
        totals.update(each.sums)
    return of_sums(MetricSums(sum(each.samples for each in known), dict(totals)), least)


def raised(inputs: RoundInputs[ClusterState], sums: Sequence[GroupSum]) -> int | None:
    """How many members could not train, over all groups that can be summed; None where nobody counts."""
    found = [raised_in(inputs, each.behind, len(each.group)) for each in _fresh(inputs, sums)]
    stated = [count for count in found if count is not None]
    return sum(stated) if stated else None
