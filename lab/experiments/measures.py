"""What is read off accuracy curves: rounds to a target, the accuracy at the end, steadiness, deviations over seeds."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean, stdev
from typing import Any

from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.draws import last_round
from fedgrove.node.simulation.record import RunRecord

TARGET = 0.9
WINDOW = 5
LAST = 20


Spread = dict[str, Any]
"""``mean``, sample standard ``deviation`` (None of a single value) and how many ``seeds``, as a summary has them."""


def spread_of(values: Iterable[float | None]) -> Spread | None:
    """The spread of values that are all there; None as soon as one is missing, or there are none."""
    listed = list(values)
    there = [value for value in listed if value is not None]
    if not there or len(there) < len(listed):
        return None
    return {"mean": fmean(there), "deviation": stdev(there) if len(there) > 1 else None, "seeds": len(there)}


def circumstances(plan: Scenario) -> str:
    """Digest of a plan without its method, what is tuned for a method, and the seed.

    Methods are compared where it is the same: same data, split, clients, rounds and local work.
    """
    tuned = {"learning_rate": 1.0, "learning_rate_decay": 1.0, "momentum": 0.0, "weight_decay": 0.0}
    training = replace(plan.training, **tuned)
    return plan.changed(
        strategy={"name": "fedavg", "options": {}},
        federation={"seed": 0},
        run={"probe_every": 0},
        training=training,
        server=None,
    ).digest()


def diverged(record: RunRecord) -> bool:
    """Whether the run ended before its last round, or before that which its privacy budget affords."""
    return len(record.rounds) < last_round(record.scenario)


def curve(record: RunRecord) -> list[tuple[int, float]]:
    """(round, test accuracy in [0, 1]) of the rounds that were evaluated."""
    return [(result.round, result.accuracy) for result in record.rounds if result.accuracy is not None]


def smoothed(points: Sequence[tuple[int, float]], window: int = WINDOW) -> list[tuple[int, float]]:
    """Mean of each point and the ``window`` − 1 before it; the first ``window`` − 1 points have none."""
    values = [value for _, value in points]
    return [(points[end - 1][0], fmean(values[end - window : end])) for end in range(window, len(points) + 1)]


def rounds_to(record: RunRecord, target: float = TARGET, window: int = WINDOW) -> int | None:
    """The first round in which the mean accuracy of the last ``window`` evaluations reaches ``target``, or None."""
    return next((number for number, mean in smoothed(curve(record), window) if mean >= target), None)


def end_accuracy(record: RunRecord, last: int = LAST) -> float | None:
    """Mean test accuracy of the last ``last`` evaluated rounds (the paper's measure, section 4.4).

    None for a run that diverged.
    """
    return None if diverged(record) else fmean(value for _, value in curve(record)[-last:])


def end_deviation(record: RunRecord, last: int = LAST) -> float | None:
    """Standard deviation of the test accuracy within the last ``last`` rounds: small is steady.

    None for a run that diverged, as all measures of steadiness.
    """
    if diverged(record):
        return None
    values = [value for _, value in curve(record)[-last:]]
    return stdev(values) if len(values) > 1 else 0.0


def mean_change(record: RunRecord) -> float | None:
    """Mean absolute change of the test accuracy from one evaluation to the next, over the whole run."""
    if diverged(record):
        return None
    return fmean(abs(change) for change in _changes(record)) if len(curve(record)) > 1 else 0.0


def largest_drop(record: RunRecord) -> float | None:
    """The largest fall of the test accuracy from one evaluation to the next; 0 if it never fell."""
    return None if diverged(record) else max([0.0, *(-change for change in _changes(record))])


def ood_end(record: RunRecord, last: int = LAST) -> float | None:
    """Mean out-of-distribution accuracy of the probed rounds among the last ``last`` (the last probe at least)."""
    if diverged(record):
        return None
    probes = [(result.round, result.ood_accuracy) for result in record.rounds if result.ood_accuracy is not None]
    if not probes:
        return None
    first = min(len(record.rounds) - last + 1, probes[-1][0])
    return fmean(value for number, value in probes if number >= first)


def _changes(record: RunRecord) -> list[float]:
    values = [value for _, value in curve(record)]
    return [after - before for before, after in pairwise(values)]
