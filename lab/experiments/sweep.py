"""The sweep that gives each method its settings for the tuned regime: the same number of trials for all."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.common.text import command_line
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.record import RunRecord
from fedgrove_lab.experiments.base import Experiment, Findings, Report
from fedgrove_lab.experiments.measures import TARGET, WINDOW, curve, diverged, rounds_to
from fedgrove_lab.experiments.regimes import METHODS, PAPER_LIKE, TUNED_ROUNDS, plan_of
from fedgrove_lab.experiments.tables import ABSENT, NAMES, markdown

MOMENTA = (0.5, 0.9)
RATES = (0.03, 0.1)
# A method with an option of its own tries two values of it at each rate; the others try twice as many rates.
MORE_RATES = (0.01, 0.03, 0.05, 0.1)
OPTIONS: dict[str, tuple[str, tuple[float, float]]] = {
    "fedprox": ("mu", (0.01, 0.1)),
    "fedcurv": ("weight", (1.0, 100.0)),
    "moon": ("mu", (0.1, 1.0)),
    "fedaom": ("shared_batch", (10, 30)),
}


def arms(results: Path) -> dict[str, Scenario]:
    """Eight trials a method; the label says what is tried."""
    return {label: plan for method in (*METHODS, "share") for label, plan in trials(method).items()}


def trials(method: str) -> dict[str, Scenario]:
    """A method's trials by label, such as moon-lr0.1-momentum0.9-mu1."""
    name, values = OPTIONS.get(method, ("", ()))
    found = {}
    for rate in RATES if values else MORE_RATES:
        for momentum in MOMENTA:
            training = replace(PAPER_LIKE, learning_rate=rate, momentum=momentum)
            label = f"{method}-lr{rate:g}-momentum{momentum:g}"
            for value in values or (None,):
                options = {} if value is None else {name: value}
                end = "" if value is None else f"-{name}{value:g}"
                found[label + end] = plan_of(method, training=training, options=options, rounds=TUNED_ROUNDS)
    return found


def score(group: Sequence[RunRecord]) -> tuple[float, float]:
    """What is best is largest: fewest rounds to the target (mean over the seeds), then the highest last mean of 5."""
    if any(diverged(record) for record in group):
        return -(group[0].scenario.rounds + 1.0), 0.0
    reached = [rounds_to(record) or record.scenario.rounds + 1 for record in group]
    last = [fmean(value for _, value in curve(record)[-WINDOW:]) for record in group]
    return -sum(reached) / len(reached), sum(last) / len(last)


def report(findings: Findings) -> Report:
    """All trials, and each method's best."""
    best: dict[str, Any] = {}
    rows, results = [], {}
    for method in (*METHODS, "share"):
        scores = {
            label: score(group)
            for label, group in findings.records.items()
            if group[0].scenario.strategy.name == method
        }
        if not scores:
            continue
        diverging = {label for label in scores if any(map(diverged, findings.records[label]))}
        sound = [label for label in scores if label not in diverging]
        chosen = max(sound, key=lambda label: scores[label], default=None)
        if chosen is not None:
            plan = findings.records[chosen][0].scenario
            best[method] = {
                "label": chosen,
                "training": plan.to_json()["training"],
                "options": dict(plan.strategy.options),
            }
        for label, (rounds, accuracy) in scores.items():
            reached = -rounds <= findings.records[label][0].scenario.rounds
            lost = label in diverging
            results[label] = {
                "rounds_to_target": -rounds if reached else None,
                "last_mean": None if lost else accuracy,
            }
            text = label.removeprefix(f"{method}-")
            shown = f"{-rounds:g}" if reached else ABSENT
            bold = "**" if label == chosen else ""
            end = "diverged" if lost else f"{100 * accuracy:.2f}"
            rows.append([f"{NAMES[method]} {bold}{text}{bold}", shown, end])
    head = ["trial", f"rounds to {TARGET:.0%}", f"mean accuracy of the last {WINDOW} rounds, %"]
    legend = (
        f"Bold: a method's best, by fewest rounds to {TARGET:.0%} ({WINDOW}-round mean; {ABSENT}: not reached), then "
        "by the mean accuracy of the last rounds. In a whole sweep every method has the same number of trials. The "
        "seed is none of those that the comparison runs with; the test samples are the same, as none are set aside for "
        "validation.\n"
    )
    return Report({"best": best, "trials": results}, markdown(head, rows) + "\n" + legend)


def best_settings(results: Path) -> Mapping[str, Any]:
    """Each method's best, as the sweep's summary among the other results says.

    Raises
    ------
    InvalidInput
        There is no sweep yet.
    """
    path = results / EXPERIMENT.name / "summary.json"
    try:
        return dict(json.loads(path.read_bytes())["results"]["best"])
    except OSError:
        raise InvalidInput(
            f"there is no sweep in {path}: run `{command_line('experiment', 'sweep', '--out', path.parent)}` first"
        ) from None
    except (ValueError, KeyError, TypeError, InvalidContent, InvalidInput):
        raise InvalidInput(f"{path} is no summary of a sweep: run the sweep again") from None


def tuned_plan(method: str, settings: Mapping[str, Any]) -> Scenario:
    """A method's plan with the settings that its sweep chose."""
    try:
        plan = plan_of(method, rounds=TUNED_ROUNDS).to_json()
        strategy = {**plan["strategy"], "options": settings["options"]}
        return Scenario.from_tables({**plan, "training": settings["training"], "strategy": strategy})
    except (KeyError, TypeError, InvalidConfig) as fault:
        raise InvalidInput(f"the sweep's settings of {method} cannot be used ({fault}): run it again") from None


EXPERIMENT = Experiment(
    name="sweep",
    title="Learning rate, momentum and each method's own option, MNIST, Dirichlet 0.1",
    paper="It does not say how its settings were chosen, and the settings (tables 2 and 3) are lost.",
    arms=arms,
    report=report,
    seeds=(100,),
)
