"""All methods by one protocol: equal trials on validation samples, five seeds (docs/results/PROTOCOL.md)."""

from dataclasses import dataclass, replace
from pathlib import Path

from fedgrove.node.learning.settings import PartitionSettings
from fedgrove.node.scenario.scenario import Scenario
from fedgrove_lab.experiments.base import Experiment, Findings, Report
from fedgrove_lab.experiments.comparison_trials import CIFAR10_TRIALS, EVERY, LAST, METHODS, MNIST_TRIALS, Trials
from fedgrove_lab.experiments.paired import Runs, accuracies, first, table

CELLS = {
    "dirichlet0.1": ("Dirichlet 0.1", PartitionSettings("dirichlet", alpha=0.1)),
    "shards2": ("Two labels a client", PartitionSettings("shards", per_client=2)),
}


@dataclass(frozen=True)
class Comparison:
    """All methods that have trials on a data set, each with its best.

    Attributes
    ----------
    name, title : str
        Of the experiment.
    trials : Trials
    """

    name: str
    title: str
    trials: Trials

    def arms(self, results: Path) -> dict[str, Scenario]:
        """The methods that have trials, on each split; the label is such as shards2-moon."""
        return {
            f"{cell}-{method}": replace(plan, partition=split)
            for cell, (_, split) in CELLS.items()
            for method, plan in self.trials.best_plans(results).items()
        }

    def report(self, findings: Findings) -> Report:
        """A table of each split with paired differences; *first* as the protocol defines it."""
        results, parts = {}, []
        for cell, (title, _) in CELLS.items():
            runs = _runs_of(findings, cell)
            if runs:
                ends = accuracies(runs, LAST)
                results[cell] = {"accuracies": ends, "first": first(ends)}
                parts.append(f"### {title}\n{table(runs, LAST)}")
        legend = (
            f"Accuracy on the test samples: the mean over the last {LAST * EVERY} rounds, tested every {EVERY} "
            "rounds; ± is the standard deviation of a sample of seeds. *First* is only a method whose paired "
            "difference to each other method has a 95 % interval above zero. "
            f"[The trials](../{self.trials.name}/README.md) that chose each method's settings are all published.\n"
        )
        return Report(results, "\n".join([*parts, legend]))

    def experiment(self) -> Experiment:
        """To be registered."""
        return Experiment(
            name=self.name,
            title=self.title,
            paper="One run a cell, settings unknown; FedAom is first everywhere.",
            arms=self.arms,
            report=self.report,
            seeds=(0, 1, 2, 3, 4),
        )


def _runs_of(findings: Findings, cell: str) -> Runs:
    groups = {method: findings.records.get(f"{cell}-{method}", ()) for method in METHODS}
    return {method: {record.scenario.seed: record for record in group} for method, group in groups.items() if group}


_COMPARISONS = (
    Comparison(
        "comparison", "All methods on MNIST, 10,000 training samples, each with its best of four trials", MNIST_TRIALS
    ),
    Comparison(
        "comparison_cifar10",
        "All methods on CIFAR-10, 10,000 training samples, each with its best of four trials",
        CIFAR10_TRIALS,
    ),
)
EXPERIMENTS = tuple(comparison.experiment() for comparison in _COMPARISONS)
