"""What an experiment leaves in its folder: summary.json, README.md and figures.

Equal records, made by the same commands, give equal bytes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedgrove.node.base.files import write_atomically
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.figures import write_figure
from fedgrove_lab.experiments.base import Experiment, Findings, Report
from fedgrove_lab.made import Made, read_made
from fedgrove_lab.tables import markdown

SUMMARY = "summary.json"
README = "README.md"


def write_report(out: Path, experiment: Experiment, report: Report, findings: Findings) -> dict[str, Any]:
    """Write all files of an experiment and return what summary.json holds."""
    if experiment.simulates:
        shown = {label: group[0].scenario for label, group in findings.records.items()}
        seeds = {label: [record.scenario.seed for record in group] for label, group in findings.records.items()}
    else:
        shown, seeds = findings.plans, {label: [plan.seed] for label, plan in findings.plans.items()}
    plans = {label: _settings(plan, simulated=experiment.simulates) for label, plan in shown.items()}
    summary = {
        "experiment": experiment.name,
        "paper": experiment.paper,
        "scenarios": plans,
        "seeds": seeds,
        "results": report.results,
    }
    if not shown:
        report = replace(report, figures={})
    for name, draw in report.figures.items():
        write_figure(out / name, draw)
    write_atomically(out / SUMMARY, (json.dumps(summary, indent=1, sort_keys=True) + "\n").encode())
    write_atomically(out / README, _page(experiment, report, plans, seeds, read_made(out)).encode())
    return summary


def reported_results(out: Path) -> dict[str, Any]:
    """The results of the last report in a folder; empty if there is none."""
    path = out / SUMMARY
    return json.loads(path.read_bytes())["results"] if path.is_file() else {}


def _made_text(experiment: Experiment, made: Sequence[Made]) -> str:
    """The commands behind the results, and where the runs stand."""
    runs = "Each run's plan and rounds stand in `runs/`.\n" if experiment.simulates else ""
    if not made:
        return f"Written by `fedgrove experiment {experiment.name}`. {runs}".strip() + "\n"
    return "\n".join(["Made by:\n", *(each.text for each in made), f"\n{runs}"])


def _page(
    experiment: Experiment,
    report: Report,
    plans: Mapping[str, Any],
    seeds: Mapping[str, Sequence[int]],
    made: Sequence[Made],
) -> str:
    figures = "".join(f"![{name.removesuffix('.png')}]({name})\n" for name in report.figures)
    parts = [
        f"# {experiment.title}\n",
        f"The paper: {experiment.paper}\n",
        _made_text(experiment, made),
        "## Measured\n",
        report.text,
        figures,
        f"## What was unequal\n\n{experiment.unequal}\n" if experiment.unequal else "",
        "## Settings\n",
        settings_text(plans, seeds),
    ]
    return "\n".join(part for part in parts if part)


def settings_text(plans: Mapping[str, Any], seeds: Mapping[str, Sequence[int]]) -> str:
    """What all arms (plans as JSON) have in common as one paragraph, what differs as a table."""
    if not plans:
        return "Nothing was run yet.\n"
    flat = {label: {**_flat(plan), "seeds": ", ".join(map(str, seeds[label]))} for label, plan in plans.items()}
    names = list(dict.fromkeys(name for values in flat.values() for name in values))
    same = [name for name in names if len({values.get(name) for values in flat.values()}) == 1]
    different = [name for name in names if name not in same]
    first = next(iter(flat.values()))
    text = "All arms: " + ", ".join(f"{name} {first[name]}" for name in same if first[name] != "") + ".\n"
    if not different:
        return text
    rows = [[label, *(values.get(name, "") or "–" for name in different)] for label, values in flat.items()]
    return text + "\n" + markdown(["arm", *different], rows)


def _settings(plan: Scenario, simulated: bool) -> dict[str, Any]:
    """A scenario as JSON: what was run except for the seed, or what was split."""
    values = plan.to_json()
    if not simulated:
        cast = {name: values["scenario"][name] for name in ("dataset", "clients", "train_samples")}
        return {"scenario": cast, "partition": values["partition"]}
    federation = {name: value for name, value in values["federation"].items() if name != "seed"}
    return {**values, "federation": federation}


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, entry in value.items():
        if isinstance(entry, Mapping):
            flat |= _flat(entry, "" if name in ("scenario", "federation", "training", "run") else f"{name}.")
        else:
            flat[prefix + name] = f"{entry:g}" if isinstance(entry, float) else str(entry)
    return flat
