"""How the splits distribute the classes over clients (section 4.3, figure 5)."""

from functools import partial
from pathlib import Path

import numpy as np

from fedgrove.node.learning.settings import PartitionSettings
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.data import deal_data
from fedgrove.node.simulation.figures import draw_partition
from fedgrove_lab.experiments.base import Experiment, Findings, Report
from fedgrove_lab.experiments.regimes import plan_of
from fedgrove_lab.tables import markdown

SHOWN = 20


def arms(results: Path) -> dict[str, Scenario]:
    """CIFAR-10 as the accuracy table deals it."""
    splits = {f"dirichlet-{alpha:g}": PartitionSettings("dirichlet", alpha=alpha) for alpha in (0.1, 0.2, 0.5)}
    splits["shards-2"] = PartitionSettings("shards", per_client=2)
    return {label: plan_of("fedavg", dataset="cifar10", partition=split) for label, split in splits.items()}


def report(findings: Findings) -> Report:
    """A figure a split, and how skewed it is in figures."""
    rows, results, figures = [], {}, {}
    for label, plan in findings.plans.items():
        dealt = deal_data(plan, findings.laboratory.dataset(plan.cast.dataset), with_shared=False)
        sizes = np.array([len(part) for part in dealt.parts])
        classes = np.array([len(np.unique(dealt.training.y[part])) for part in dealt.parts])
        largest = np.array([np.bincount(dealt.training.y[part]).max() / len(part) for part in dealt.parts])
        results[label] = {
            "samples": {"least": int(sizes.min()), "mean": float(sizes.mean()), "most": int(sizes.max())},
            "mean_classes": float(classes.mean()),
            "mean_share_of_largest_class": float(largest.mean()),
        }
        spread = f"{sizes.min()} … {sizes.max()}"
        rows.append([label, spread, f"{classes.mean():.1f}", f"{largest.mean():.0%}"])
        figures[f"{label}.png"] = partial(draw_partition, labels=dealt.training.y, parts=dealt.parts, clients=SHOWN)
    head = ["split", "samples a client", "classes a client, mean", "share of its largest class, mean"]
    return Report(results, markdown(head, rows), figures)


EXPERIMENT = Experiment(
    name="partition_picture",
    title="How the splits deal CIFAR-10 to 100 clients",
    paper="Figure 5 shows the first 20 clients at α = 0.1: few classes each, and unequal numbers of samples.",
    arms=arms,
    report=report,
    seeds=(0,),
    simulates=False,
)
