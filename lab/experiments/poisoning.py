"""Poisoned clustered training: who is found, who is wronged, what accuracy is left, compared with robust means."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedgrove.node.learning.settings import PartitionSettings
from fedgrove.node.scenario.clusters import GlobalSettings, SimulatedProCfl
from fedgrove.node.scenario.method import MethodChoice
from fedgrove.node.scenario.poisoning import ATTACKS, AttackSettings
from fedgrove.node.scenario.reading import MANY
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.record import RunRecord
from fedgrove_lab.experiments.base import Experiment, Findings, Report
from fedgrove_lab.experiments.measures import spread_of
from fedgrove_lab.experiments.personalised import GROUPS, MODELS, NAMES, TRAINING, end_personal
from fedgrove_lab.tables import ABSENT, markdown, with_deviation

ROUNDS = {"mnist": 20, "cifar10": 32}
# Attackers behave until models are good, as a drop is what raises suspicion.
START = {"mnist": 13, "cifar10": 25}
SHARES = (0.1, 0.2, 0.3, 0.4)
PLACEMENTS = ("concentrated", "spread")
ALPHA = 0.5

GUARDED = SimulatedProCfl(alpha=ALPHA, seats=5)
METHODS: dict[str, tuple[str, MethodChoice]] = {
    "guarded": ("ProCFL with committees", GUARDED),
    "procfl": ("ProCFL without", replace(GUARDED, seats=0)),
    "fedavg": ("FedAvg", GlobalSettings()),
    "krum": ("Krum", GlobalSettings("krum")),
    "multi-krum": ("multi-Krum", GlobalSettings("multi-krum")),
    "median": ("median", GlobalSettings("median")),
    "trimmed": ("trimmed mean", GlobalSettings("trimmed-mean")),
}


def arms(results: Path) -> dict[str, Scenario]:
    """Data sets × attacks × placements × shares × methods, and each method without attack."""
    found = {}
    for dataset in NAMES:
        for method, (_, settings) in METHODS.items():
            plan = _plan(dataset, settings)
            found[f"{dataset}-none-{method}"] = plan
            for label, attack in _attacks(START[dataset]):
                found[f"{dataset}-{label}-{method}"] = replace(plan, attack=attack)
    return found


def _attacks(start: int) -> Iterator[tuple[str, AttackSettings]]:
    for kind in ATTACKS:
        for placement in PLACEMENTS:
            for share in SHARES:
                attack = AttackSettings(kind, share, placement, alpha=ALPHA, start=start)
                yield f"{kind}-{placement}-{share:g}", attack


def _plan(dataset: str, settings: MethodChoice) -> Scenario:
    return MANY.changed(
        cast={"dataset": dataset, "clients": 50, "train_samples": 10_000, "test_samples": 2_500},
        federation={"sampling_rate": 1.0, "rounds": ROUNDS[dataset]},
        model={"name": MODELS[dataset]},
        run={"evaluate_every": ROUNDS[dataset]},
        training=TRAINING[dataset],
        partition=PartitionSettings("groups", groups=GROUPS, others=0.3),
        method=settings,
    )


def report(findings: Findings) -> Report:
    """A table of what committees found, and one of the accuracy that is left."""
    results = {label: _result(group) for label, group in findings.records.items()}
    tables = (
        (_detection(results), DETECTION),
        (_by_method(results, "personalised"), ACCURACY),
        (_by_method(results, "backdoor"), BACKDOOR),
    )
    return Report({"arms": results}, "\n".join(f"{table}\n{legend}" for table, legend in tables))


SHARES_FOUND = {
    "found": ("found", ("attackers",)),
    "of majorities": ("found_of_majority", ("majority",)),
    "wronged": ("wronged", ("honest",)),
    "judged": ("judged", ("attackers", "honest")),
}
"""Columns of what committees found: a count, and the counts together that it is a share of."""
DETECTION = (
    "Found: attackers expelled, of all attackers, and of those that were more than half of a cluster when they began. "
    "Wronged: honest clients expelled, of all honest clients. Judged: members of suspected clusters, honest and not, "
    "that showed their models to a committee, of all clients. All seeds together. An attack that makes no model fall "
    "raises no suspicion: its attackers are neither judged nor found.\n"
)
ACCURACY = (
    "Personalised accuracy of the honest clients in percent at the end, ± the standard deviation over the seeds; one "
    "seed where there is none. Krum, multi-Krum and the trimmed mean are told how many attackers there are. A backdoor "
    "is meant not to show in this.\n"
)
BACKDOOR = (
    "Share of test images of other labels, in percent, that the honest clients' models take for the attackers' label "
    "when they bear the trigger.\n"
)


def _result(group: Sequence[RunRecord]) -> dict[str, Any]:
    counted = [_counts(record) for record in group]
    backdoor = [record.rounds[-1].clusters.backdoor for record in group]
    return {
        "seeds": [record.scenario.seed for record in group],
        **{name: sum(counts[name] for counts in counted) for name in counted[0]},
        "personalised": spread_of(map(end_personal, group)),
        "backdoor": spread_of(backdoor),
    }


def _counts(record: RunRecord) -> dict[str, int]:
    attackers = set(record.rounds[-1].clusters.attackers)
    judgements = [found for result in record.rounds for found in result.clusters.judgements]
    expelled = {client for found in judgements for client in found.expelled}
    majority = _majorities(record, attackers)
    return {
        "attackers": len(attackers),
        "found": len(attackers & expelled),
        "majority": len(majority),
        "found_of_majority": len(majority & expelled),
        "honest": record.scenario.clients - len(attackers),
        "wronged": len(expelled - attackers),
        "judged": len({client for found in judgements for client in found.members}),
    }


def _majorities(record: RunRecord, attackers: set[int]) -> set[int]:
    """Attackers that were more than half of those who trained a model in the attack's first round."""
    begun = record.rounds[record.scenario.attack.start - 1].clusters.groups if record.scenario.attack else ()
    won = [group for group in begun if 2 * len(attackers.intersection(group)) > len(group)]
    return attackers.intersection(client for group in won for client in group)


def _detection(results: Mapping[str, Any]) -> str:
    head = (*("data, attack", "placement", "attackers", "seeds"), *(f"{name}, %" for name in SHARES_FOUND))
    rows = []
    for label, result in results.items():
        if not label.endswith("-guarded"):
            continue
        rows.append(
            [
                *_names(label),
                str(len(result["seeds"])),
                *(_percent(result[part], sum(result[name] for name in whole)) for part, whole in SHARES_FOUND.values()),
            ]
        )
    return markdown(head, rows)


def _by_method(results: Mapping[str, Any], name: str) -> str:
    """A table of a result: settings where some method has it, against the methods."""
    rows = []
    for setting in dict.fromkeys(_setting(label) for label in results):
        cells = [results.get(f"{setting}-{method}", {}).get(name) for method in METHODS]
        if any(cells):
            rows.append([*_names(f"{setting}-guarded"), *(with_deviation(cell, 100, 1) for cell in cells)])
    return markdown(("data, attack", "placement", "attackers", *(name for name, _ in METHODS.values())), rows)


def _setting(label: str) -> str:
    return next(label.removesuffix(f"-{method}") for method in reversed(METHODS) if label.endswith(f"-{method}"))


def _names(label: str) -> list[str]:
    """Data and attack, placement and share of an arm."""
    dataset, _, rest = _setting(label).partition("-")
    if rest == "none":
        return [f"{NAMES[dataset]}, no attack", ABSENT, "0 %"]
    kind, placement, share = rest.rsplit("-", 2)
    return [f"{NAMES[dataset]}, {kind}", placement, f"{float(share):.0%}"]


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}" if whole else ABSENT


EXPERIMENT = Experiment(
    name="poisoning",
    title="Poisoned clusters: detection and accuracy",
    paper="committees of similar clients find malicious members even where they are a majority (Xu et al. 2025).",
    arms=arms,
    report=report,
)
