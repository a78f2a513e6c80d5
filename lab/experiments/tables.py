"""Markdown tables of results, and the JSON next to them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedgrove.node.simulation.record import RunRecord
from fedgrove_lab.experiments.measures import (
    LAST,
    TARGET,
    WINDOW,
    Spread,
    circumstances,
    diverged,
    end_accuracy,
    end_deviation,
    largest_drop,
    mean_change,
    rounds_to,
)

ABSENT = "–"
NAMES = {
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "fedcurv": "FedCurv",
    "moon": "MOON",
    "fedaom": "FedAom",
    "fedaom_eq7": "FedAom, eq. 7",
    "fedaomsam": "FedAom with SAM",
    "fedacg": "FedACG",
    "fedadam": "FedAdam",
    "fedavgm": "FedAvgM",
    "share": "share",
    "scaffold": "SCAFFOLD",
    "feddyn": "FedDyn",
    "fedlc": "FedLC",
    "fedntd": "FedNTD",
    "fedsam": "FedSAM",
    "fedspeed": "FedSpeed",
}


MEASURES: dict[str, Callable[[RunRecord], float | None]] = {
    "mean_rounds_to_target": rounds_to,
    "end_accuracy": end_accuracy,
    "deviation_of_last_rounds": end_deviation,
    "mean_change": mean_change,
    "largest_drop": largest_drop,
}


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the first column is text, the others are numbers."""
    lines = [list(head), ["---", *["--:"] * (len(head) - 1)], *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def with_deviation(spread: Spread | None, scale: float = 1.0, digits: int = 1) -> str:
    """``mean ± deviation``, scaled (100 gives percent)."""
    if spread is None:
        return ABSENT
    mean = f"{scale * spread.mean:.{digits}f}"
    return mean if spread.deviation is None else f"{mean} ± {scale * spread.deviation:.{digits}f}"


def curve_results(records: Mapping[str, Sequence[RunRecord]]) -> dict[str, Any]:
    """What is measured on each arm's accuracy curves, by label.

    Rounds are None where the target was not reached, and a mean where one of its values is missing.
    """
    return {
        label: {
            "seeds": [record.scenario.seed for record in group],
            "rounds": group[0].scenario.rounds,
            "diverged": [record.scenario.seed for record in group if diverged(record)],
            "rounds_to_target": [rounds_to(record) for record in group],
            **{name: to_json(Spread.of_all(map(measure, group))) for name, measure in MEASURES.items()},
        }
        for label, group in records.items()
    }


def curve_table(results: Mapping[str, Any]) -> str:
    """The results of ``curve_results`` as a table with its legend."""
    head = (
        *("method", "seeds", f"rounds to {TARGET:.0%}", "by seed", "accuracy at the end, %"),
        *(f"deviation of the last {LAST} rounds, points", "mean change a round, points", "largest fall, points"),
    )
    rows = []
    for label, result in results.items():
        by_seed = [str(rounds) if rounds else "never" for rounds in result["rounds_to_target"]]
        mean, *points = (_spread(result[name]) for name in MEASURES)
        shown = [with_deviation(mean), ", ".join(by_seed), *(with_deviation(spread, 100, 2) for spread in points)]
        rows.append([NAMES.get(label, label), str(len(result["seeds"])), *shown])
    lost = [f"{label} (seed {_listed(result['diverged'])})" for label, result in results.items() if result["diverged"]]
    legend = (
        f"Rounds to {TARGET:.0%}: the first round in which the mean test accuracy of the last {WINDOW} rounds reaches "
        f"{TARGET}. At the end: mean of the last {LAST} rounds. ± is the standard deviation over the seeds. Small "
        "deviations, changes and falls are a steady curve.\n"
    )
    return markdown(head, rows) + "\n" + legend + (f"\nDiverged: {', '.join(lost)}.\n" if lost else "")


def ratios(records: Mapping[str, Sequence[RunRecord]], base: str = "fedavg") -> dict[str, Any]:
    """Rounds to the target of each arm over those of ``base``, seed by seed: same split, same clients drawn.

    Only arms that were run like ``base`` are compared, in seeds in which both reached the target; ``seeds_run`` is in
    how many both were run.
    """
    found: dict[str, Any] = {}
    base_rounds = {record.scenario.seed: rounds_to(record) for record in records.get(base, ())}
    for label, group in records.items():
        if (
            label == base
            or not base_rounds
            or circumstances(group[0].scenario) != circumstances(records[base][0].scenario)
        ):
            continue
        both = [record for record in group if record.scenario.seed in base_rounds]
        pairs = [(rounds_to(record), base_rounds[record.scenario.seed]) for record in both]
        by_seed = [own / other for own, other in pairs if own and other]
        if by_seed:
            found[label] = {"by_seed": by_seed, "seeds_run": len(both), **Spread.of(by_seed).to_json()}
    return found


def ratio_lines(found: Mapping[str, Any], base: str = "fedavg") -> str:
    """The ratios as sentences."""
    lines = [
        f"- {NAMES.get(label, label)} needs {with_deviation(_spread(ratio), 1, 3)} × the rounds of "
        f"{NAMES.get(base, base)} ({_by_seed(ratio)})."
        for label, ratio in found.items()
    ]
    return "\n".join(lines) + ("\n" if lines else "")


def _by_seed(ratio: Mapping[str, Any]) -> str:
    """The ratios of the seeds, and of how many they are where some are left out."""
    text = "by seed: " + ", ".join(f"{value:.3f}" for value in ratio["by_seed"])
    if ratio["seeds"] == ratio["seeds_run"]:
        return text
    return f"{text}; only the {ratio['seeds']} of {ratio['seeds_run']} seeds in which both reached the target"


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))


def to_json(spread: Spread | None) -> dict[str, Any] | None:
    """A spread for a JSON document."""
    return None if spread is None else spread.to_json()


def _spread(value: Mapping[str, Any] | None) -> Spread | None:
    return None if value is None else Spread(value["mean"], value["deviation"], value["seeds"])
