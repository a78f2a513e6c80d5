"""What the members' own evaluation of a model came to, as a closed round states it, and when a federation ends by it.

The members evaluate the model that a round begins with, so a round's statement is about the model before it. Behind the
last round that trains comes one in which they only evaluate.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from fedgrove.common.wire import Table
from fedgrove.node.learning.scores import ConfusionFigures
from fedgrove.node.learning.settings import (
    LOSSES,
    MAX_CONFUSED,
    MAX_METRICS,
    RIGHT,
    confusion_names,
    is_count,
    is_metric,
    is_pair,
)
from fedgrove.node.protocol.members_rates import MembersRates, Reason
from fedgrove.node.protocol.metric_words import STOP, UNIT, MetricSums

_MOST_SAMPLES = 1 << 31
_Samples = Annotated[int, Meta(ge=0, lt=_MOST_SAMPLES)]
_OTHER_FIGURES = ("accuracy", "noise", "last", "epsilon", "ledger_epsilon", "delta")  # what else figures may have


class LossCourse(Table, frozen=True):
    """How the members' loss went up to a round, where the terms have a ``federation.patience``.

    Attributes
    ----------
    least_loss : float or None
        What the loss last fell to by more than its standard error; None before the first evaluation.
    waited : int
        Rounds since then.
    ends : bool
        The terms' patience is over: no round trains after this one.
    """

    least_loss: float | None = None
    waited: _Samples = 0
    ends: bool = False

    @property
    def ending(self) -> str:
        """Why no further round trains, in one clause; empty where one can."""
        if not self.ends:
            return ""
        rounds = f"{self.waited} round{'s' if self.waited > 1 else ''}"
        return f"the members' loss has not fallen by more than its standard error for {rounds}"


class MembersMetrics(Table, frozen=True, tag_field="kind", tag="sums"):
    """The members' metrics of the model that a round began with.

    Attributes
    ----------
    samples : int
        On how many samples; 0 where there are no metrics.
    sums : dict of str to int
        By name: ``right`` and the counts of ``confusion`` as they are, ``loss``, ``squared_loss`` and the task's own in
        units of 2⁻²⁴.
    void : str
        Why there are none, in one clause: some member's words cannot be; else empty.
    course : LossCourse or None
        The loss over the rounds; None where no patience is in the terms.
    last : bool
        The round trained nothing: this is how the last model does, and no round follows.
    """

    samples: _Samples
    sums: dict[str, int]
    void: Reason = ""
    course: LossCourse | None = None
    last: bool = False

    def __post_init__(self) -> None:
        named = len(self.sums) <= MAX_METRICS + len(LOSSES) + MAX_CONFUSED**2
        if not named or not all(_is_sum(name, value) for name, value in self.sums.items()):
            raise ValueError("its sums are not those of metrics")
        if self.there and not set(LOSSES) <= set(self.sums):
            raise ValueError("it has no loss")
        if fault := _miscounted(self.samples, self.sums):
            raise ValueError(f"it counts {fault}")

    @property
    def there(self) -> bool:
        """Whether anything was measured."""
        return self.samples > 0 and not self.void

    @property
    def accuracy(self) -> float | None:
        """Share of right answers; None where they are not counted."""
        right = self.sums.get(RIGHT, None if self.confusion is None else int(np.trace(self.confusion.matrix)))
        return right / self.samples if right is not None and self.there else None

    @property
    def confusion(self) -> ConfusionFigures | None:
        """How often which class is predicted as which; None where that is not counted."""
        pairs = {name: count for name, count in self.sums.items() if is_pair(name)}
        classes = math.isqrt(len(pairs))
        if not pairs or not self.there or pairs.keys() != set(confusion_names(classes)):
            return None
        counts = [pairs[name] for name in confusion_names(classes)]
        return ConfusionFigures(np.array(counts, np.int64).reshape(classes, classes))

    @property
    def loss(self) -> float | None:
        """The mean loss."""
        return self.mean("loss")

    @property
    def standard_error(self) -> float | None:
        """The standard error of the mean loss."""
        if not self.there:
            return None
        loss, squares = (self.sums[name] for name in LOSSES)
        spread = self.samples * squares * round(1 / UNIT) - loss * loss  # in integers, as everybody must agree
        return math.sqrt(max(0, spread)) * UNIT / (self.samples * math.sqrt(self.samples))

    @property
    def stopped(self) -> tuple[str, ...]:
        """Names of the sums that are so large that a member's may have ended at its stop, so that the mean is wrong."""
        return tuple(name for name, value in self.sums.items() if not is_count(name) and abs(value) >= STOP)

    def mean(self, name: str) -> float | None:
        """The mean of a sum in fixed point."""
        return self.sums[name] / (self.samples * round(1 / UNIT)) if self.there else None

    @property
    def ending(self) -> str:
        """Why no further round trains, in one clause; empty where one can."""
        return self.course.ending if self.course is not None else ""

    def to_figures(self) -> dict[str, Any]:
        """What people are told, JSON-ready: means and the standard error by name, and why there are none.

        ``stopped`` names the sums that may have reached their stop.
        """
        if not self.there:
            return {"samples": self.samples, "void": self.void} if self.void else {"samples": 0}
        others = {name: self.mean(name) for name in self.sums if not (is_count(name) or name in LOSSES)}
        figures = {"samples": self.samples, "loss": self.loss, "standard_error": self.standard_error, **others}
        figures |= {"stopped": list(self.stopped)} if self.stopped else {}
        if self.accuracy is not None:
            figures["accuracy"] = self.accuracy
        if self.confusion is not None:
            figures["balanced_accuracy"] = self.confusion.balanced_accuracy
            figures["confusion"] = self.confusion.matrix.tolist()
        return figures

    def to_report(self) -> dict[str, Any]:
        """The same, why the training has ended, where it has, and whether the round only evaluated the last model."""
        ending = {"ending": self.ending} if self.ending else {}
        return self.to_figures() | ending | ({"last": True} if self.last else {})


MembersStatement = MembersMetrics | MembersRates
"""What a closed round states of its members' evaluation: exact, or with the noise of client-level privacy."""


def described(figures: Mapping[str, Any]) -> str:
    """What members measured, in one clause, from the figures of a statement in which something was."""
    right = f"accuracy {figures['accuracy']:.4f}" if "accuracy" in figures else ""
    if "noise" not in figures:
        loss = f"loss {figures['loss']:.4f} ± {figures['standard_error']:.4f} on {figures['samples']} samples"
        stopped = f" (at the stop of sums, so perhaps larger: {', '.join(figures.get('stopped', ()))})"
        return (f"{right}, {loss}" if right else loss) + (stopped if figures.get("stopped") else "")
    own = [f"{name} {figures[name]:.4f}" for name in figures if name not in _OTHER_FIGURES]
    return f"{', '.join(filter(None, (right, *own)))} (noise ± {figures['noise']:.4f})"


def unable(raised: int) -> str:
    """How many members could not train, or evaluate the last model, in one clause."""
    return f"{raised} {'member' if raised == 1 else 'members'} could not train and sent the model unchanged"


def of_sums(found: MetricSums, least_loss: float = -math.inf) -> MembersMetrics:
    """The statement of a sum over members, void where honest members cannot add up to it.

    ``least_loss`` is the smallest sum of losses that there is.
    """
    fault = _implausible(found, least_loss)
    return MembersMetrics(0, {}, fault) if fault else MembersMetrics(found.samples, found.sums)


def with_course(stated: MembersMetrics, before: LossCourse | None, patience: int) -> MembersMetrics:
    """A statement with the course of the loss, where the terms have a patience.

    Rounds without metrics do not count: else one member that makes them void could end the training.
    """
    if not patience:
        return stated
    return stated.replace(course=next_course(before, stated.loss, stated.standard_error, patience))


def next_course(
    before: LossCourse | None, loss: float | None, standard_error: float | None, patience: int
) -> LossCourse:
    """The course of the loss after one more round; the loss and its error are None where nothing was measured."""
    known = before or LossCourse()
    if loss is None or standard_error is None:
        return known
    if known.least_loss is None or loss < known.least_loss - standard_error:
        return LossCourse(loss)
    waited = known.waited + 1
    return LossCourse(known.least_loss, waited, waited >= patience)


def difference(stated: MembersStatement | None, computed: MembersStatement | None) -> str:
    """How a statement differs from the right one, in one clause; empty where it does not."""
    if stated == computed:
        return ""
    if stated is None or computed is None:
        return "they lack the members' metrics" if stated is None else "they state metrics of members that sent none"
    if _measured(stated) != _measured(computed):
        return "the members' metrics are not the sum of what they sent"
    return "what they state of the members' loss over the rounds, and of the end, does not follow from it"


def _measured(stated: MembersStatement) -> MembersStatement:
    """A statement without what follows from those before it."""
    if isinstance(stated, MembersRates):
        return stated.replace(last=False)
    return stated.replace(course=None, last=False)


def _implausible(found: MetricSums, least_loss: float) -> str:
    if found.samples >= _MOST_SAMPLES:
        return f"the members' words count {found.samples} samples, more than a word may"
    if fault := _miscounted(found.samples, found.sums):
        return f"the members' words count {fault}"
    if found.sums["loss"] < least_loss:
        return "the members' losses add up to less than nothing"
    return "the members' squared losses add up to less than nothing" if found.sums["squared_loss"] < 0 else ""


def _miscounted(samples: int, sums: Mapping[str, int]) -> str:
    """What counts do not fit to the number of samples, as the end of a sentence; empty where all do."""
    if not 0 <= sums.get(RIGHT, 0) <= samples:
        return f"{sums[RIGHT]} right answers of {samples}"
    pairs = [count for name, count in sums.items() if is_pair(name)]
    if pairs and sum(pairs) != samples:
        return f"{sum(pairs)} samples in the confusion matrix, and {samples} in all"
    return ""


def _is_sum(name: str, value: int) -> bool:
    return 0 <= value < _MOST_SAMPLES if is_count(name) else is_metric(name) and abs(value) < 1 << 64
