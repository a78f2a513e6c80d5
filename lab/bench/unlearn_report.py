"""What ``fedgrove bench unlearn --out`` leaves in a folder: figures and a picture a dataset, and one page for all."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from fedgrove.node.base.files import write_atomically
from fedgrove.node.simulation.figures import SERIES, drawing
from fedgrove_lab.bench.rows import BenchResult
from fedgrove_lab.bench.unlearn import (
    BY_THE_PAPER,
    METHODS,
    ON_LEDGER,
    PLAIN,
    PLAIN_BY_THE_PAPER,
    REMOVAL,
    RIVAL,
    WELL_WRITTEN,
    RemovalRun,
)
from fedgrove_lab.made import Made
from fedgrove_lab.tables import markdown

README = "README.md"
_COLOURS = dict(
    zip((PLAIN, REMOVAL, RIVAL, WELL_WRITTEN, BY_THE_PAPER, ON_LEDGER, PLAIN_BY_THE_PAPER), SERIES, strict=True)
)
_HEAD = """\
# Clustering that forgets

Written by `fedgrove bench unlearn --out`; docs/unlearning.md says what is clustered, and how it forgets.

A *removal* sums differences, as in the paper; *on a ledger*, where that was measured, everybody is summed anew.
Seconds are of processor time on one core: the slowest client's, then the server's. *As the paper counts* leaves out
masks and decoding, in the removal and in the retraining that it is compared with, and of the removal the server where
no centroid was hit. Speed-ups are means divided by means over the same requests. DC-K-means knows no masks. The plain
retraining runs scikit-learn's K-means on as many points at the server as there are at the clients, as the paper's does;
the well-written one is this program's, on weighted bins.

Gaussian points are split by the components that they were drawn from, and all columns of Covtype are divided by one
number. The paper does neither, and losses depend on it: `fedgrove bench unlearn-losses` shows how much.
"""


def write_report(out: Path, result: BenchResult, runs: Sequence[RemovalRun], made: Made) -> None:
    """Write one dataset's figures and how they were made, and the page of all that lie in the folder."""
    out.mkdir(parents=True, exist_ok=True)
    dataset = result.setting["dataset"]
    removal_figure(runs, out / f"{dataset}.png")
    document = {**result.to_json(), "made": asdict(made)}
    write_atomically(out / f"{dataset}.json", (json.dumps(document, indent=1) + "\n").encode())
    documents = [json.loads(path.read_text()) for path in sorted(out.glob("*.json"))]
    write_atomically(out / README, page(documents).encode())


def page(documents: Sequence[Mapping]) -> str:
    """The page, a section a dataset."""
    parts = [_HEAD]
    for each in documents:
        kinds, rows = each["kinds"], {row["name"]: row for row in each["rows"]}
        split = {name: name.split(": ", 1) for name in rows}
        others = [[name, _value(row), row["note"]] for name, row in rows.items() if split[name][0] not in kinds]
        note = {words[-1]: rows[name]["note"] for name, words in split.items() if words[0] in kinds}
        compared = [[name, *(_value(rows.get(f"{kind}: {name}")) for kind in kinds), note[name]] for name in note]
        parts += [f"## {each['dataset']}\n", f"{each['split']}. Made by:\n", Made(**each["made"]).text + "\n"]
        parts += [markdown(["", "", "note"], others, notes=1)]
        parts += [markdown(["removals", *kinds, "note"], compared, notes=1)]
        parts.append(f"![accumulated removal time]({each['dataset']}.png)\n")
    return "\n".join(parts)


def _value(row: Mapping | None) -> str:
    """A figure with its unit; a dash where no request was of that sort."""
    if row is None:
        return "–"
    value = row["value"]
    if isinstance(value, str):
        return value
    shown = f"{value:,}" if isinstance(value, int) else f"{value:,.1f}" if value >= 1000 else f"{value:.4g}"
    return f"{shown} {row['unit']}".strip()


def removal_figure(runs: Sequence[RemovalRun], path: Path) -> None:
    """Write accumulated removal time, a panel for each kind of requests, as the paper's figures 3 to 5."""
    across = min(2, len(runs))
    down = -(-len(runs) // across)
    with drawing(path, (4.2 * across, 0.9 + 2.7 * down)) as figure:
        panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
        for panel, run in zip(panels, runs, strict=False):
            requests = np.arange(1, len(run.hits) + 1)
            for method in METHODS:
                panel.plot(requests, np.cumsum(run.seconds[method]), color=_COLOURS[method], label=method)
            panel.set_yscale("log")
            panel.set_title(run.removals.text, fontsize="medium")
        for panel in panels[len(runs) :]:
            panel.set_visible(False)
        for panel in panels[-across:]:
            panel.set_xlabel("requests")
        for panel in panels[::across]:
            panel.set_ylabel("seconds, accumulated")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize="small")
