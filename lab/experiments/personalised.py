"""Personalised accuracy where clients fall into groups: ProCFL, IFCA, one model for all (Xu et al. 2025)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fedgrove.node.learning.settings import PartitionSettings, TrainingSettings
from fedgrove.node.scenario.clusters import (
    GlobalSettings,
    IfcaSettings,
    SimulatedProCfl,
)
from fedgrove.node.scenario.method import MethodChoice, TrainingChoice
from fedgrove.node.scenario.reading import MANY
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.figures import draw_curves
from fedgrove.node.simulation.record import RunRecord
from fedgrove_lab.experiments.base import Experiment, Findings, Report
from fedgrove_lab.experiments.measures import circumstances, diverged, spread_of
from fedgrove_lab.tables import markdown, with_deviation

# The end of a run: the mean of its last evaluations.
LAST = 5
GROUPS = 5

METHODS: dict[str, tuple[str, MethodChoice]] = {
    "procfl": ("ProCFL", SimulatedProCfl(alpha=0.5, global_share=0.5)),
    "ifca": ("IFCA", IfcaSettings(GROUPS)),
    "ifca3": ("IFCA, k = 3", IfcaSettings(3)),
    "ifca10": ("IFCA, k = 10", IfcaSettings(10)),
    "fedavg": ("FedAvg, one model", GlobalSettings()),
}
WRONG_K = ("ifca3", "ifca10")
TRAINING = {
    "mnist": TrainingSettings(epochs=1, batch_size=20, learning_rate=0.03, momentum=0.9),
    "cifar10": TrainingSettings(epochs=1, batch_size=20, learning_rate=0.02, momentum=0.9),
}
NAMES = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
MODELS = {"mnist": "small-cnn", "cifar10": "small-cnn-centred"}
# These, and λ, were chosen on seed 100, on CIFAR-10 with 100 samples a client: with one local epoch one model of all
# had 40 % after 75 rounds, so that clusters gained little by what it had learned.
EPOCHS = 5
# Of a label's samples so much goes to clients of all groups alike.
OTHERS = (0.2, 0.5)
CLIENTS = 100
# Samples of a client, and rounds: all samples that there are, or so few that clusters alone have little to learn from.
EACH = {"": (0, 30), "-each100": (100, 60)}


def arms(results: Path) -> dict[str, Scenario]:
    """Data sets × skews × many samples or few × methods; only where there are few, IFCA is told wrong k, too."""
    return {
        f"{dataset}-others{others:g}{suffix}-{method}": MANY.changed(
            cast={"dataset": dataset, "clients": CLIENTS, "train_samples": CLIENTS * each},
            federation={"sampling_rate": 0.3, "rounds": rounds},
            model={"name": MODELS[dataset]},
            run={"evaluate_every": 2},
            training=replace(TRAINING[dataset], epochs=EPOCHS),
            partition=PartitionSettings("groups", groups=GROUPS, others=others),
            method=settings,
        )
        for dataset in NAMES
        for suffix, (each, rounds) in EACH.items()
        for others in OTHERS
        for method, (_, settings) in METHODS.items()
        if each or method not in WRONG_K
    }


def report(findings: Findings) -> Report:
    """Personalised and plain accuracy at the end, and by how much ProCFL is ahead, seed by seed."""
    results = {label: _result(group) for label, group in findings.records.items()}
    settings = tuple(dict.fromkeys(label.rpartition("-")[0] for label in findings.records))
    ahead = {setting: _ahead(findings.records, setting) for setting in settings}
    ahead = {setting: found for setting, found in ahead.items() if found}
    figures = {}
    for setting in settings:
        found = {m: findings.records[f"{setting}-{m}"] for m in METHODS if f"{setting}-{m}" in findings.records}
        groups = {METHODS[method][0]: group for method, group in found.items()}
        figures[f"{setting}.png"] = partial(draw_curves, groups=groups, what="personal")
    return Report({"arms": results, "ahead": ahead}, _table(results) + "\n" + LEGEND + _lines(ahead), figures)


LEGEND = (
    "Personalised: expected accuracy, in percent, of a client's model on new data with the client's own shares of "
    "labels, averaged over the clients; plain: on all test samples alike. "
    f"Mean of the last {LAST} evaluations, ± the standard deviation over the seeds. Models: how many were trained in "
    "the last round; IFCA is told k, the right one where nothing else is said, and sends each client k models a round. "
    "The methods share data, split, clients drawn, rounds and training settings, which like λ were chosen on another "
    "seed.\n"
)


def _result(group: Sequence[RunRecord]) -> dict[str, Any]:
    return {
        "seeds": [record.scenario.seed for record in group],
        "rounds": [len(record.rounds) for record in group],
        "personalised": spread_of(map(end_personal, group)),
        "plain": spread_of(map(_end_plain, group)),
        "models": [sum(map(bool, record.rounds[-1].clusters.groups)) for record in group],
    }


def end_personal(record: RunRecord) -> float | None:
    """Mean personalised accuracy of the last evaluations; None for a run that diverged."""
    found = [result.clusters.personal_accuracy for result in record.rounds]
    return _mean_of_last(record, [value for value in found if value is not None])


def _end_plain(record: RunRecord) -> float | None:
    return _mean_of_last(record, [result.accuracy for result in record.rounds if result.accuracy is not None])


def _mean_of_last(record: RunRecord, values: Sequence[float]) -> float | None:
    return None if diverged(record) or not values else sum(values[-LAST:]) / len(values[-LAST:])


def _ahead(records: Mapping[str, Sequence[RunRecord]], setting: str) -> dict[str, Any]:
    """Personalised accuracy of ProCFL minus a rival's, of seeds that both were run with alike."""
    own = {record.scenario.seed: record for record in records.get(f"{setting}-procfl", ())}
    found = {}
    for rival in [method for method in METHODS if method != "procfl"]:
        pairs = [(own[r.scenario.seed], r) for r in records.get(f"{setting}-{rival}", ()) if r.scenario.seed in own]
        alike = [pair for pair in pairs if _circumstances(pair[0]) == _circumstances(pair[1])]
        values = [(end_personal(first), end_personal(second)) for first, second in alike]
        differences = [first - second for first, second in values if first is not None and second is not None]
        if differences:
            found[rival] = {"by_seed": differences, **(spread_of(differences) or {})}
    return found


def _circumstances(record: RunRecord) -> str:
    return circumstances(replace(record.scenario, method=TrainingChoice()))


def _lines(ahead: Mapping[str, Any]) -> str:
    lines = [
        f"- {_setting(setting)}: ProCFL is {100 * found['mean']:+.1f} points from {METHODS[rival][0]} "
        f"(by seed: {', '.join(f'{100 * value:+.1f}' for value in found['by_seed'])})."
        for setting, rivals in ahead.items()
        for rival, found in rivals.items()
    ]
    return "\n" + "\n".join(lines) + "\n" if lines else ""


def _table(results: Mapping[str, Any]) -> str:
    head = ("data, samples of all labels", "method", "rounds", "seeds", "personalised, %", "plain, %", "models")
    rows = []
    for label, result in results.items():
        setting, _, method = label.rpartition("-")
        rows.append(
            [
                _setting(setting),
                METHODS[method][0],
                str(max(result["rounds"])),
                str(len(result["seeds"])),
                *(with_deviation(result[name], 100, 1) for name in ("personalised", "plain")),
                ", ".join(map(str, result["models"])),
            ]
        )
    return markdown(head, rows)


def _setting(setting: str) -> str:
    dataset, _, rest = setting.partition("-others")
    others, _, each = rest.partition("-each")
    return f"{NAMES[dataset]}, {float(others):.0%}" + (f", {each} samples a client" if each else "")


EXPERIMENT = Experiment(
    name="personalised",
    title="Personalised accuracy where clients fall into groups",
    paper="ProCFL's personal models beat the global model and other clustered methods (Xu et al. 2025).",
    arms=arms,
    report=report,
)
