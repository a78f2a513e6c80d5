"""Accuracy of five methods on two data sets and four splits (section 4.4, table 4)."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fedgrove.node.learning.settings import PartitionSettings
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.figures import draw_curves
from fedgrove.node.simulation.record import RunRecord
from fedgrove_lab.experiments.base import Experiment, Findings, Report
from fedgrove_lab.experiments.curves import MORE_TRIALS, REFRESH
from fedgrove_lab.experiments.measures import LAST, circumstances, end_accuracy, spread_of
from fedgrove_lab.experiments.regimes import METHODS, NAMES, plan_of
from fedgrove_lab.tables import ABSENT, markdown, with_deviation

DATASETS = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
SPLITS = {
    "dirichlet0.1": ("α = 0.1", PartitionSettings("dirichlet", alpha=0.1)),
    "dirichlet0.2": ("α = 0.2", PartitionSettings("dirichlet", alpha=0.2)),
    "dirichlet0.5": ("α = 0.5", PartitionSettings("dirichlet", alpha=0.5)),
    "shards2": ("2 shards", PartitionSettings("shards", per_client=2)),
}
ROUNDS = 100
FIXED_OPTIONS = """\
- The rivals ran with fixed options, also where their own sweep has better ones: MOON with μ = 1 ends there at 83.9 %
  and with μ = 0.1 at 89.3 (learning rate 0.03, momentum 0.5).
- The method `share`, the only rival that also trains on the 50 shared labels, is not among the five.
- A cell is one seed. Differences of a point or two may be chance.
"""


def label_of(dataset: str, split: str, method: str) -> str:
    """Label of a cell's arm, such as mnist-dirichlet0.1-fedaom."""
    return f"{dataset}-{split}-{method}"


def arms(results: Path) -> dict[str, Scenario]:
    """40 cells; each may be run alone (``--only 'mnist-*'``)."""
    return {
        label_of(dataset, split, method): plan_of(method, dataset=dataset, partition=settings, rounds=ROUNDS)
        for dataset in DATASETS
        for split, (_, settings) in SPLITS.items()
        for method in METHODS
    }


def report(findings: Findings) -> Report:
    """The table of what is there; the best of a row is bold where all five methods are there, equally trained."""
    spreads = {label: spread_of(map(end_accuracy, group)) for label, group in findings.records.items()}
    cells = {label: spread for label, spread in spreads.items() if spread is not None}
    rows, leads = [], {}
    for dataset, name in DATASETS.items():
        for split, (split_name, _) in SPLITS.items():
            labels = {method: label_of(dataset, split, method) for method in METHODS}
            row = {method: cells[label] for method, label in labels.items() if label in cells}
            groups = [findings.records[label] for label in labels.values() if label in cells]
            best = max(row, key=lambda method: row[method]["mean"]) if comparable(groups, len(METHODS)) else None
            if best:
                leads[f"{dataset}-{split}"] = best
            texts = {method: with_deviation(row.get(method), 100, 2) for method in METHODS}
            entries = [f"**{text}**" if method == best else text for method, text in texts.items()]
            rows.append([f"{name}, {split_name}", _extent(groups), *entries])
    head = ["data, split", "rounds, samples, seeds", *(NAMES[method] for method in METHODS)]
    legend = (
        f"Test accuracy in percent, mean of the last {LAST} rounds; ± is the standard deviation over the seeds. "
        f"{ABSENT} was not run, or diverged. Samples: of the training set, dealt to the clients. Bold: the highest "
        "mean of a row in which all methods were run alike.\n"
    )
    return Report({"cells": cells, "leads": leads}, markdown(head, rows) + "\n" + legend, _figures(findings.records))


def comparable(groups: Sequence[Sequence[RunRecord]], expected: int) -> bool:
    """Whether all methods of a row are there, run alike and with the same seeds."""
    runs = {(circumstances(group[0].scenario), *(record.scenario.seed for record in group)) for group in groups}
    return len(groups) == expected and len(runs) == 1


def _extent(groups: Sequence[Sequence[RunRecord]]) -> str:
    """Rounds, training samples and number of seeds; several where the groups differ."""
    found = [
        f"{group[0].scenario.rounds}, {group[0].scenario.cast.train_samples or 'all'}, {len(group)}"
        for group in groups
        if group
    ]
    return "; ".join(dict.fromkeys(found)) or ABSENT


def _figures(records: Mapping[str, Sequence[RunRecord]]) -> dict[str, Any]:
    """Curves of each row that has any run, as the paper's figures 6 and 7."""
    figures = {}
    for dataset, name in DATASETS.items():
        for split, (split_name, _) in SPLITS.items():
            labels = {NAMES[method]: label_of(dataset, split, method) for method in METHODS}
            groups = {method: records[label] for method, label in labels.items() if label in records}
            if groups:
                title = f"{name}, {split_name}"
                figures[f"{dataset}-{split}.png"] = partial(draw_curves, groups=groups, title=title)
    return figures


EXPERIMENT = Experiment(
    name="accuracy_table",
    title="Accuracy of five methods under different splits",
    paper="FedAom has the highest accuracy in most cells, and the differences shrink as α grows (table 4 is lost).",
    arms=arms,
    report=report,
    unequal=MORE_TRIALS + REFRESH + FIXED_OPTIONS,
)
