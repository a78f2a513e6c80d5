"""Figures of experiments: masked models, and runs under client-level privacy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedgrove.node.simulation.figures import LINES, SERIES, drawing, in_percent
from fedgrove.node.simulation.record import RunRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Masked:
    """A local model's accuracy in [0, 1] on its client's own training data, bare and under each kind of mask."""

    client: int
    before: float
    after: Mapping[str, float]


def masked_figure(models: Sequence[Masked], path: Path, *, chance: float = 0.1) -> None:
    """Write the accuracy of local models before and after masking, as the paper's figure 10; chance as a line."""
    with drawing(path, (8.0, 4.4)) as figure:
        draw_masked(figure, models, chance)


def draw_masked(figure: "Figure", models: Sequence[Masked], chance: float = 0.1) -> None:
    """Draw what ``masked_figure`` writes."""
    axes = figure.add_subplot()
    kinds = list(models[0].after) if models else []
    bars = [("before masking", [model.before for model in models])]
    bars += [(f"after, {kind}", [model.after[kind] for model in models]) for kind in kinds]
    width = 0.8 / len(bars)
    places = np.arange(len(models))
    for index, (label, heights) in enumerate(bars):
        axes.bar(places + (index - (len(bars) - 1) / 2) * width, heights, width, label=label, color=SERIES[index])
    in_percent(axes)
    axes.axhline(chance, color="#777777", linewidth=0.8, linestyle=(0, (4, 3)), label=f"chance, {chance:.0%}")
    axes.set(xlabel="client", ylabel="accuracy on own training data", ylim=(0, 1.02))
    axes.set_xticks(places, [str(model.client) for model in models])
    axes.grid(False, axis="x")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)


def scales_figure(groups: Mapping[str, Sequence[RunRecord]], path: Path) -> None:
    """Write V_c, how far clients' updates differ, and U_s, how large their mean is, over the rounds, logarithmic.

    A line a record, one colour a group.

    Groups without a privacy mechanism are left out: nobody clips there, and nothing was measured.

    Raises
    ------
    RunFailed
        matplotlib is not installed.
    """
    private = {
        label: records for label, records in groups.items() if any(_points(each, "update_scale") for each in records)
    }
    with drawing(path, (9.6, 4.4)) as figure:
        variance, scale = figure.subplots(1, 2, sharex=True)
        _draw(variance, private, "between_clients_variance", "V_c, variance between the clients")
        _draw(scale, private, "update_scale", "U_s, square of the mean update")
        scale.legend(loc="upper right")


def _draw(axes: "Axes", groups: Mapping[str, Sequence[RunRecord]], name: str, title: str) -> None:
    for index, (label, records) in enumerate(groups.items()):
        color, line = SERIES[index % len(SERIES)], LINES[index // len(SERIES) % len(LINES)]
        for position, record in enumerate(records):
            rounds, values = zip(*_points(record, name), strict=True)
            axes.plot(rounds, values, label="" if position else label, linewidth=1.4, color=color, linestyle=line)
    axes.set(xlabel="communication round", ylabel=f"{title}, a parameter", xscale="log", yscale="log")


def _points(record: RunRecord, name: str) -> list[tuple[int, float]]:
    """Round and value, where somebody was drawn."""
    values = ((result.round, (result.privacy or {}).get(name)) for result in record.rounds)
    return [(number, value) for number, value in values if value is not None and value > 0]
