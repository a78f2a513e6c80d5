"""Figures of experiments: masked models, and runs under client-level privacy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedgrove.node.simulation.figures import SERIES, in_percent, line_style
from fedgrove.node.simulation.record import RunRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHANCE = 0.1
SCALES = {
    "between_clients_variance": "V_c, variance between the clients",
    "update_scale": "U_s, square of the mean update",
}


@dataclass(frozen=True)
class Masked:
    """A local model's accuracy in [0, 1] on its client's own training data, bare and under each kind of mask."""

    client: int
    before: float
    after: Mapping[str, float]


def draw_masked(figure: "Figure", models: Sequence[Masked]) -> None:
    """Draw the accuracy of local models before and after masking, as the paper's figure 10; chance as a line."""
    figure.set_size_inches(8.0, 4.4)
    axes = figure.add_subplot()
    kinds = list(models[0].after) if models else []
    bars = [("before masking", [model.before for model in models])]
    bars += [(f"after, {kind}", [model.after[kind] for model in models]) for kind in kinds]
    width = 0.8 / len(bars)
    places = np.arange(len(models))
    for index, (label, heights) in enumerate(bars):
        axes.bar(places + (index - (len(bars) - 1) / 2) * width, heights, width, label=label, color=SERIES[index])
    in_percent(axes)
    axes.axhline(CHANCE, color="#777777", linewidth=0.8, linestyle=(0, (4, 3)), label=f"chance, {CHANCE:.0%}")
    axes.set(xlabel="client", ylabel="accuracy on own training data", ylim=(0, 1.02))
    axes.set_xticks(places, [str(model.client) for model in models])
    axes.grid(False, axis="x")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)


def draw_scales(figure: "Figure", groups: Mapping[str, Sequence[RunRecord]]) -> None:
    """Draw V_c, how far clients' updates differ, and U_s, how large their mean is, over the rounds, logarithmic.

    A line a record, one colour a group. Groups without a privacy mechanism are left out: nobody clips there, and
    nothing was measured.
    """
    figure.set_size_inches(9.6, 4.4)
    private = {
        label: records for label, records in groups.items() if any(_points(each, "update_scale") for each in records)
    }
    for axes, (name, title) in zip(figure.subplots(1, 2, sharex=True), SCALES.items(), strict=True):
        for index, (label, records) in enumerate(private.items()):
            color, line = line_style(index)
            for position, record in enumerate(records):
                rounds, values = zip(*_points(record, name), strict=True)
                axes.plot(rounds, values, label="" if position else label, linewidth=1.4, color=color, linestyle=line)
        axes.set(xlabel="communication round", ylabel=f"{title}, a parameter", xscale="log", yscale="log")
    axes.legend(loc="upper right")


def _points(record: RunRecord, name: str) -> list[tuple[int, float]]:
    """Round and value, where somebody was drawn."""
    values = ((result.round, (result.privacy or {}).get(name)) for result in record.rounds)
    return [(number, value) for number, value in values if value is not None and value > 0]
