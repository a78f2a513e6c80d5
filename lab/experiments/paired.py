"""Compare methods seed by seed: means, and paired differences with their intervals (docs/results/PROTOCOL.md).

    python -m fedgrove_lab.experiments.paired docs/results/accuracy_table mnist-dirichlet0.1

Reads stored runs ``CELL-METHOD-seedN.json`` and runs nothing. Methods stand in alphabetical order.
"""

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from fedgrove.common.errors import InvalidInput
from fedgrove.node.simulation.record import RunRecord
from fedgrove_lab.experiments.measures import LAST, circumstances, diverged, end_accuracy, spread_of
from fedgrove_lab.experiments.regimes import NAMES
from fedgrove_lab.experiments.store import RUNS, read_record
from fedgrove_lab.tables import ABSENT, markdown, with_deviation

BASE = "fedavg"
FEWEST = 3  # seeds of an interval
_SURE = 0.975  # two-sided: 95 %
_CHANCE = 0.1  # a run that diverged, on ten classes

Runs = Mapping[str, Mapping[int, RunRecord]]
"""By method and seed."""


@dataclass(frozen=True)
class Paired:
    """A method's differences to another, over the seeds that both have.

    Attributes
    ----------
    half : float or None
        Half the width of the 95 % interval of Student's t; None with fewer than ``FEWEST`` seeds.
    """

    mean: float
    half: float | None
    seeds: int

    @property
    def above_zero(self) -> bool:
        """Whether the whole interval is."""
        return self.half is not None and self.mean > self.half

    @property
    def text(self) -> str:
        """In points."""
        if self.half is None:
            return f"{100 * self.mean:+.1f} (too few seeds for an interval)"
        return f"{100 * self.mean:+.1f} [{100 * (self.mean - self.half):+.1f}, {100 * (self.mean + self.half):+.1f}]"


def paired(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Paired | None:
    """The differences of accuracies by seed; None without a seed in common."""
    differences = [ours[seed] - theirs[seed] for seed in sorted(set(ours) & set(theirs))]
    if not differences:
        return None
    count = len(differences)
    half = _quantile(count - 1) * stdev(differences) / math.sqrt(count) if count >= FEWEST else None
    return Paired(fmean(differences), half, count)


def first(ends: Mapping[str, Mapping[int, float]]) -> str:
    """The method whose interval to every other is above zero; empty if there is none."""
    for method, own in ends.items():
        others = [paired(own, other) for name, other in ends.items() if name != method]
        if others and all(each is not None and each.above_zero for each in others):
            return method
    return ""


def table(runs: Runs, last: int = LAST) -> str:
    """Mean, deviation and paired difference to FedAvg of each method; who is first, if anybody.

    The accuracy of a run is the mean of its ``last`` evaluations.

    Raises
    ------
    InvalidInput
        The runs differ in more than method, tuning and seed.
    """
    if len({circumstances(record.scenario) for group in runs.values() for record in group.values()}) > 1:
        raise InvalidInput("these runs differ in data, split, clients, rounds or local work: they cannot be compared")
    ends = accuracies(runs, last)
    base, rows = ends.get(BASE, {}), []
    for method, own in ends.items():
        difference = paired(own, base) if method != BASE else None
        seeds = ", ".join(map(str, sorted(own)))
        accuracy = with_deviation(spread_of(own.values()), 100, 2) + _mark(runs[method])
        rows.append([NAMES[method], seeds, accuracy, difference.text if difference else ABSENT])
    head = ["method", "seeds", "accuracy at the end, %", f"difference to {NAMES[BASE]}, points [95 % interval]"]
    best = first(ends)
    return markdown(head, rows) + f"\nFirst: {NAMES[best] if best else 'nobody, by these seeds'}.\n"


def read_cell(folder: Path, cell: str) -> Runs:
    """Stored runs of a cell, as ``mnist-dirichlet0.1``; without a cell arms are named by their methods."""
    found: dict[str, dict[int, RunRecord]] = {}
    for method in NAMES:
        label = f"{cell}-{method}" if cell else method
        records = (read_record(path) for path in sorted((folder / RUNS).glob(f"{label}-seed*.json")))
        group = {record.scenario.seed: record for record in records}
        if group:
            found[method] = group
    return found


def accuracies(runs: Runs, last: int = LAST) -> dict[str, dict[int, float]]:
    """Means of the ``last`` evaluations, by method in alphabetical order and seed; chance where a run diverged."""
    return {
        method: {
            seed: _CHANCE if (end := end_accuracy(record, last)) is None else end for seed, record in group.items()
        }
        for method, group in sorted(runs.items())
    }


def _mark(runs: Mapping[int, RunRecord]) -> str:
    """Which of a method's runs count as chance, in parentheses; empty if none does."""
    seeds = [str(seed) for seed, record in sorted(runs.items()) if diverged(record)]
    return f" (diverged, counts as {100 * _CHANCE:.0f}: seed {', '.join(seeds)})" if seeds else ""


def _quantile(freedom: int) -> float:
    from scipy.stats import t  # heavy

    return float(t.ppf(_SURE, freedom))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="an experiment's folder")
    parser.add_argument("cell", nargs="?", default="", help="for example mnist-dirichlet0.1")
    options = parser.parse_args()
    print(table(read_cell(options.folder, options.cell)))


if __name__ == "__main__":
    main()
