"""SignDS against FedAvg on MNIST: accuracy and the bytes of an upload (Jiang et al. 2022)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fedgrove.node.learning.settings import PartitionSettings, TrainingSettings
from fedgrove.node.privacy.settings import SignDsSettings
from fedgrove.node.scenario.reading import MANY
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.figures import draw_curves
from fedgrove.node.simulation.record import RunRecord
from fedgrove_lab.experiments.base import Experiment, Findings, Report
from fedgrove_lab.experiments.curves import BASE, named
from fedgrove_lab.experiments.measures import LAST, TARGET, end_accuracy, spread_of
from fedgrove_lab.experiments.regimes import NAMES
from fedgrove_lab.tables import ABSENT, markdown, with_deviation

SETTINGS = SignDsSettings(epsilon=100.0, top=0.05, dimensions=50, step=2.5, step_decay=0.955)


def arms(results: Path) -> dict[str, Scenario]:
    """The same federation with dense uploads and with SignDS."""
    plan = MANY.changed(
        cast={"dataset": "mnist", "clients": 1_000},
        federation={"sampling_rate": 0.1, "rounds": 60},
        model={"name": "small-cnn"},
        training=TrainingSettings(
            epochs=2, batch_size=10, learning_rate=0.1, learning_rate_decay=0.99, momentum=0.5, weight_decay=0.0
        ),
        partition=PartitionSettings("iid"),
    )
    return {BASE: plan, "signds": replace(plan, privacy=SETTINGS)}


def report(findings: Findings) -> Report:
    """Accuracy at the end, the distance to FedAvg, and the bytes of an upload."""
    results = {label: _result(group) for label, group in findings.records.items()}
    base = results.get(BASE, {}).get("end_accuracy")
    for result in results.values():
        own = result["end_accuracy"]
        result["below_fedavg"] = base["mean"] - own["mean"] if base and own else None
    draw = partial(draw_curves, groups=named(findings.records), target=TARGET)
    return Report({"arms": results}, _table(results), {"accuracy.png": draw})


def _result(group: Sequence[RunRecord]) -> dict[str, Any]:
    last, privacy = group[0].rounds[-1], group[0].scenario.privacy
    return {
        "end_accuracy": spread_of(map(end_accuracy, group)),
        "upload_bytes": last.figure("upload_bytes") if last.privacy else None,
        "upload_fraction": last.figure("upload_bytes") / last.figure("dense_bytes") if last.privacy else 1.0,
        "epsilon_of_an_upload": privacy.epsilon if last.privacy and privacy else None,
    }


def _table(results: Mapping[str, Any]) -> str:
    head = ("method", f"accuracy, mean of the last {LAST} rounds, %", "below FedAvg, points", "bytes of an upload")
    rows = []
    for label, result in results.items():
        below, size, epsilon = (result[name] for name in ("below_fedavg", "upload_bytes", "epsilon_of_an_upload"))
        rows.append(
            [
                NAMES[label],
                with_deviation(result["end_accuracy"], 100, 2),
                ABSENT if below is None else f"{100 * below:.2f}",
                f"{size:,} ({result['upload_fraction']:.2%} of dense)" if size else "dense",
                ABSENT if epsilon is None else f"{epsilon:g}",
            ]
        )
    return markdown((*head, "ε of an upload"), rows) + "\n" + LEGEND


LEGEND = (
    "± is the standard deviation over the seeds. A client's ε adds up over its uploads; one of 100 is no privacy to "
    "speak of. What is measured is the accuracy that is left when a client sends so little.\n"
)


EXPERIMENT = Experiment(
    name="signds",
    title="SignDS against FedAvg on MNIST",
    paper="SignDS trains nearly as well as FedAvg with uploads of a few hundred bytes (MindSpore: 176 at ε = 100).",
    arms=arms,
    report=report,
    seeds=(0,),
)
