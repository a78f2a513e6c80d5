"""Records made by hand, so that what is measured on them is known."""

from collections.abc import Sequence

from fedgrove.node.scenario.reading import MANY
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.record import RoundResult, RunRecord


def record_of(
    accuracies: Sequence[float | None], plan: Scenario | None = None, *, seed: int = 0, ood=None
) -> RunRecord:
    """A record with these test accuracies, one a round; ``ood`` maps rounds to accuracies out of distribution."""
    plan = plan or MANY.changed(federation={"rounds": len(accuracies)})
    rounds = [
        RoundResult(number, accuracy, 1 / 3, 1 / 3, tuple(range(90, 100)), 6000, (ood or {}).get(number))
        for number, accuracy in enumerate(accuracies, 1)
    ]
    return RunRecord(plan.with_seed(seed), tuple(rounds), "00" * 32)
