"""Rounds to 90 % on MNIST at α = 0.1 (section 4.4, figure 7), at settings like the paper's."""

from functools import partial
from pathlib import Path

from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.figures import accuracy_figure
from fedgrove_lab.experiments.base import Experiment, Findings, Report
from fedgrove_lab.experiments.measures import TARGET, WINDOW
from fedgrove_lab.experiments.regimes import METHODS, by_method
from fedgrove_lab.experiments.tables import NAMES, curve_results, curve_table, ratio_lines, ratios


def arms(results: Path) -> dict[str, Scenario]:
    """Every strategy at the paper-like settings."""
    return by_method((*METHODS, "share"))


def report(findings: Findings) -> Report:
    """Rounds to the target, the end, steadiness, and each method's rounds over FedAvg's."""
    results = curve_results(findings.records)
    found = ratios(findings.records)
    groups = {NAMES.get(label, label): group for label, group in findings.records.items()}
    return Report(
        {"target": TARGET, "window": WINDOW, "arms": results, "ratio_to_fedavg": found},
        curve_table(results) + "\n" + ratio_lines(found),
        {
            "accuracy.png": partial(accuracy_figure, groups, target=TARGET),
            "accuracy-mean-of-5.png": partial(accuracy_figure, groups, target=TARGET, window=WINDOW),
        },
    )


EXPERIMENT = Experiment(
    name="rounds_to_90",
    title="Rounds to 90 % on MNIST, Dirichlet 0.1, paper-like settings",
    paper="FedAom reaches a mean accuracy of 90 % in about 75 rounds, FedAvg in about 120: a ratio of 0.625.",
    arms=arms,
    report=report,
    usual=("fedavg", "fedaom"),
)
