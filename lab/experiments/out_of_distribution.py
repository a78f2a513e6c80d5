"""Accuracy of local models out of their own distribution (section 4.5, figure 8, table 5)."""

from functools import partial
from pathlib import Path

from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.figures import draw_curves
from fedgrove_lab.experiments.base import Experiment, Findings, Report
from fedgrove_lab.experiments.curves import named
from fedgrove_lab.experiments.measures import LAST, TARGET, end_accuracy, ood_end, spread_of
from fedgrove_lab.experiments.regimes import METHODS, NAMES, by_method
from fedgrove_lab.tables import markdown, with_deviation

PROBE_EVERY = 10


def arms(results: Path) -> dict[str, Scenario]:
    """Five methods at α = 0.2."""
    return by_method(METHODS, alpha=0.2, rounds=60, run={"probe_every": PROBE_EVERY})


def report(findings: Findings) -> Report:
    """Accuracy out of distribution at the end, next to the global model's test accuracy."""
    results, rows = {}, []
    for label, group in findings.records.items():
        ood, end = spread_of(map(ood_end, group)), spread_of(map(end_accuracy, group))
        results[label] = {"ood_accuracy": ood, "end_accuracy": end}
        name, seeds = NAMES.get(label, label), str(len(group))
        rows.append([name, seeds, with_deviation(ood, 100, 2), with_deviation(end, 100, 2)])
    head = ["method", "seeds", "out-of-distribution accuracy, %", "test accuracy of the global model, %"]
    legend = (
        "Out of distribution: each drawn client's local model is tested class by class; the mean of these accuracies, "
        "weighted with the inverse of the class's share in the client's own data (smoothed, so that absent classes "
        f"have a weight), and then over the clients. Both columns: mean of the last {LAST} rounds.\n"
    )
    draw = partial(draw_curves, groups=named(findings.records))
    figures = {"ood.png": partial(draw, what="ood"), "accuracy.png": partial(draw, target=TARGET)}
    return Report(results, markdown(head, rows) + "\n" + legend, figures)


EXPERIMENT = Experiment(
    name="out_of_distribution",
    title="Local models out of their own distribution, MNIST, Dirichlet 0.2",
    paper="FedAom's local models do best on the classes that their own data have few of (figure 8; table 5 is lost).",
    arms=arms,
    report=report,
)
