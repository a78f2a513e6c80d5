"""The figure of a run under client-level privacy: how far the clients' updates differ, and how large their mean is."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedgrove.node.simulation.figures import LINES, SERIES, drawing
from fedgrove.node.simulation.record import RunRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def scales_figure(groups: Mapping[str, Sequence[RunRecord]], path: Path) -> None:
    """Write V_c and U_s over the rounds, on logarithmic scales: a line a record, one colour a group.

    Groups without a privacy mechanism are left out: nobody clips there, and nothing was measured.

    Raises
    ------
    FiguresUnavailable
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
