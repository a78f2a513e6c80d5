"""What five shared samples a class are good for: FedAom, "share" and FedAvg (section 4.6, figure 9)."""

from functools import partial
from pathlib import Path

from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.figures import accuracy_figure
from fedgrove_lab.experiments.base import Experiment, Findings, Report
from fedgrove_lab.experiments.regimes import by_method
from fedgrove_lab.experiments.tables import NAMES, curve_results, curve_table, ratio_lines, ratios


def arms(results: Path) -> dict[str, Scenario]:
    """FedAvg without the shared set, and the two ways to use it."""
    return by_method(("fedavg", "share", "fedaom"))


def report(findings: Findings) -> Report:
    """Speed and steadiness."""
    results = curve_results(findings.records)
    found = ratios(findings.records)
    groups = {NAMES.get(label, label): group for label, group in findings.records.items()}
    text = curve_table(results) + "\n" + ratio_lines(found)
    return Report({"arms": results, "ratio_to_fedavg": found}, text, {"accuracy.png": partial(accuracy_figure, groups)})


EXPERIMENT = Experiment(
    name="shared_data",
    title="Use of the shared data, MNIST, Dirichlet 0.1",
    paper="Both uses of the shared data speed learning up; FedAom and share are steadier than FedAvg (figure 9).",
    arms=arms,
    report=report,
)
