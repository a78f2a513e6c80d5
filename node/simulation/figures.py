"""Figures of simulations as PNG: accuracy curves, the partition, accuracy out of distribution.

matplotlib is an optional extra and is imported when a figure is drawn. The bytes of a figure depend on its data and on
matplotlib's version alone: no dates, and no settings of the user's.
"""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedgrove.common.errors import RunFailed
from fedgrove.node.base.files import write_atomically
from fedgrove.node.simulation.record import RoundResult, RunRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, and Tol's "muted" one for up to ten classes: both can be told apart by the colour-blind.
SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
CLASSES = (
    *("#332288", "#88CCEE", "#44AA99", "#117733", "#999933"),
    *("#DDCC77", "#CC6677", "#882255", "#AA4499", "#BBBBBB"),
)
LINES = ("-", "--", "-.", ":")
DOTS_PER_INCH = 110


def require_matplotlib() -> None:
    """Find out early that figures cannot be drawn.

    Raises
    ------
    RunFailed
        matplotlib is not installed.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise RunFailed('figures need matplotlib: pip install "fedgrove[simulation]"') from None


CURVES: dict[str, tuple[Callable[[RoundResult], float | None], str]] = {
    "accuracy": (lambda result: result.accuracy, "test accuracy"),
    "ood": (lambda result: result.ood_accuracy, "out-of-distribution accuracy"),
    "personal": (lambda result: result.clustering and result.clustering.personal_accuracy, "personalised accuracy"),
}
"""What is drawn over the rounds: the value of a round, and the name of its axis."""


def write_figure(path: Path, draw: Callable[["Figure"], None]) -> None:
    """Write what ``draw`` draws; RunFailed where matplotlib is not installed."""
    with drawing(path) as figure:
        draw(figure)


def draw_curves(
    figure: "Figure",
    groups: Mapping[str, Sequence[RunRecord]],
    what: str = "accuracy",
    *,
    window: int = 1,
    target: float | None = None,
    title: str = "",
) -> None:
    """Draw a value over the rounds: a line a group, the mean of its records, with a band over their seeds.

    Parameters
    ----------
    groups : mapping of str to sequence of RunRecord
        By label; the records of a group differ in their seeds.
    what : str
        One of ``CURVES``.
    window : int
        Each point is the mean of this many evaluations up to its round; 1 shows them as they are.
    target : float or None
        Accuracy in [0, 1] at which a line is drawn.
    """
    value, name = CURVES[what]
    axes = figure.add_subplot()
    _draw_lines(axes, groups, value, window)
    if target is not None:
        axes.axhline(target, color="#777777", linewidth=0.8, linestyle=(0, (4, 3)), label=f"{target:.0%}")
    smooth = f", mean of {window} rounds" if window > 1 else ""
    axes.set(xlabel="communication round", ylabel=f"{name}{smooth}", title=title)
    axes.legend(title=_band_name(groups), loc="lower right")


def draw_clusters(
    figure: "Figure", ism: np.ndarray, clusters: Sequence[Sequence[int]], attackers: Sequence[int] = ()
) -> None:
    """Draw the matrix of similarities, and next to it who is in which cluster, in the order of the first clusters.

    Parameters
    ----------
    ism : float array of shape (clients, clients)
        Row n is ISMₙ.
    clusters : sequence of sequences of int
        Members, numbered from 1.
    """
    figure.set_size_inches(10.5, 5.2)
    order = list(dict.fromkeys(client for members in clusters for client in members))
    places = [client - 1 for client in order]
    matrix, membership = figure.subplots(1, 2, width_ratios=(1.25, 1))
    shown = matrix.imshow(ism[np.ix_(places, places)], vmin=0, vmax=1, cmap="viridis", interpolation="nearest")
    figure.colorbar(shown, ax=matrix, label="similarity: share of the row's data that the column has too")
    inside = np.array([[client in members for members in clusters] for client in order], dtype=float)
    membership.imshow(inside, vmin=0, vmax=1.4, cmap="Blues", aspect="auto", interpolation="nearest")
    membership.set(xlabel="cluster", xticks=range(len(clusters)), xticklabels=range(1, len(clusters) + 1))
    marked = [row for row, client in enumerate(order) if client in set(attackers)]
    membership.plot([-0.8] * len(marked), marked, marker=">", linestyle="", color=SERIES[1], label="attacks")
    if marked:
        membership.legend(loc="upper left", bbox_to_anchor=(0, -0.08))
    few = len(order) <= 40
    for axes in (matrix, membership):
        axes.grid(False)
        axes.set(ylabel="client", yticks=range(len(order)) if few else (), yticklabels=order if few else ())
    matrix.set(xlabel="client", xticks=range(len(order)) if few else (), xticklabels=order if few else ())
    matrix.tick_params(axis="x", rotation=90)


def draw_partition(figure: "Figure", labels: np.ndarray, parts: Sequence[np.ndarray], clients: int = 20) -> None:
    """Draw the samples of the first clients, stacked by class, as the paper's figure 5.

    Parameters
    ----------
    labels : int array of shape (n,)
        Label of each sample.
    parts : sequence of int arrays
        Indices of each client's samples.
    """
    figure.set_size_inches(8.0, 4.4)
    axes = figure.add_subplot()
    shown = parts[:clients]
    numbers = np.arange(1, len(shown) + 1)
    bottom = np.zeros(len(shown))
    for index, label in enumerate(np.unique(labels)):
        heights = np.array([np.count_nonzero(labels[part] == label) for part in shown])
        # Past the tenth class colours come again, hatched.
        style = {"color": CLASSES[index % len(CLASSES)], "hatch": "//" if index >= len(CLASSES) else None}
        axes.bar(
            numbers, heights, bottom=bottom, width=0.8, label=str(label), edgecolor="white", linewidth=0.2, **style
        )
        bottom += heights
    axes.set(xlabel="client", ylabel="samples", xticks=numbers)
    axes.grid(False, axis="x")
    axes.legend(title="class", loc="center left", bbox_to_anchor=(1.0, 0.5))


def _draw_lines(
    axes: "Axes",
    groups: Mapping[str, Sequence[RunRecord]],
    value: Callable[[RoundResult], float | None],
    window: int,
) -> None:
    from matplotlib.ticker import MaxNLocator

    in_percent(axes)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))  # there are no half rounds
    for index, (label, records) in enumerate(groups.items()):
        rounds, values = _common_points(records, value, window)
        color, line = line_style(index)
        mean = values.mean(0)
        axes.plot(rounds, mean, label=label, linewidth=1.6, color=color, linestyle=line)
        if len(values) > 1:
            spread = values.std(0, ddof=1)
            axes.fill_between(rounds, mean - spread, mean + spread, color=color, alpha=0.18, linewidth=0)


def line_style(index: int) -> tuple[str, str]:
    """Colour and dashes of a figure's line, by its place."""
    return SERIES[index % len(SERIES)], LINES[index // len(SERIES) % len(LINES)]


def in_percent(axes: "Axes") -> None:
    """Write shares of 1 on the vertical axis as percent."""
    from matplotlib.ticker import PercentFormatter

    axes.yaxis.set_major_formatter(PercentFormatter(1.0))


def _common_points(
    records: Sequence[RunRecord], value: Callable[[RoundResult], float | None], window: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rounds (p,) in which all records have a value, and the smoothed values (records, p)."""
    curves = [{r.round: v for r in record.rounds if (v := value(r)) is not None} for record in records]
    rounds = sorted(set.intersection(*map(set, curves))) if curves else []
    values = np.array([[points[number] for number in rounds] for points in curves], dtype=np.float64)
    if not rounds or len(rounds) < window:
        return np.zeros(0), np.zeros((1, 0))
    kernel = np.full(window, 1 / window)
    return np.array(rounds[window - 1 :]), np.array([np.convolve(row, kernel, "valid") for row in values])


def _band_name(groups: Mapping[str, Sequence[RunRecord]]) -> str | None:
    counts = sorted({len(records) for records in groups.values()})
    if counts in ([], [1]):
        return None
    seeds = "–".join(map(str, sorted({counts[0], counts[-1]})))
    return f"mean of {seeds} seeds, band: ± standard deviation"


@contextmanager
def drawing(path: Path, inches: tuple[float, float] = (7.2, 4.4)) -> Iterator["Figure"]:
    """A figure of this size in plain style, written to ``path`` at the end; RunFailed without matplotlib."""
    require_matplotlib()
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "axes.grid": True,
                "grid.alpha": 0.3,
                "axes.axisbelow": True,
                "legend.edgecolor": "none",
                "font.size": 10,
                "axes.spines.top": False,
                "axes.spines.right": False,
                "legend.title_fontsize": "small",
            }
        )
        figure = Figure(inches, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
        data = io.BytesIO()
        # Without a software name and date the bytes follow from the data.
        figure.savefig(data, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    write_atomically(path, data.getvalue())
