"""Drawings as SVG, made by the server: a round's phases by block, lines and bars over rounds.

Places along an axis are per cent of the width, so that a drawing fits any screen and its labels keep their size.
Colours come from classes in the style sheet, so that light and dark, and print, look right. Only numbers and
fixed words go into a drawing, and ``Markup`` escapes whatever does.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fedgrove.node.explorer.figures import percent, short

Reading = tuple[int, float, list[tuple[str, str, str, float]]]


@dataclass(frozen=True)
class PhaseWindow:
    """A window of blocks (first, last, both included), and the blocks in which records of it lie."""

    name: str
    first: int
    last: int
    records: tuple[int, ...] = ()


def timeline(phases: Sequence[PhaseWindow], ended: int | None, head: int, title: str) -> Markup:
    """The phases of a round below each other, a tick for each record, and where the round ended or the chain is now."""
    first, last = phases[0].first, phases[-1].last
    end = ended if ended is not None else head
    scale = 100.0 / max(last - first + 1, 1)
    mark = Markup("")
    if first <= end <= last:
        place = (end - first + 0.5) * scale
        mark = Markup('<line class="{}" x1="{:.2f}%" x2="{:.2f}%" y1="0" y2="100%"/>').format(
            "end" if ended is not None else "now", place, place
        )
    rows = Markup("").join(_phase(phase, first, scale, mark) for phase in phases)
    said = f"{'Ended' if ended is not None else 'Now'} in block {end:,}."
    return Markup('<div><ol class="timeline" aria-label="{}">{}</ol><p class="small">{}</p></div>').format(
        title, rows, said
    )


def _phase(phase: PhaseWindow, first: int, scale: float, mark: Markup) -> Markup:
    x, wide = (phase.first - first) * scale, (phase.last - phase.first + 1) * scale
    places = ((block - first + 0.5) * scale for block in sorted(set(phase.records)))
    ticks = Markup("").join(
        Markup('<line class="tick" x1="{0:.2f}%" x2="{0:.2f}%" y1="4" y2="16"/>').format(place) for place in places
    )
    count = len(phase.records)
    window = f"{phase.first:,}" + (f"–{phase.last:,}" if phase.last > phase.first else "")
    return Markup(
        '<li><span class="phase-name">{}</span><svg height="20" aria-hidden="true">'
        '<rect class="window" x="{:.2f}%" y="0" width="{:.2f}%" height="20" rx="3"/>{}{}</svg>'
        '<span class="phase-blocks">{}<small>{} record{}</small></span></li>'
    ).format(phase.name, x, max(wide, 0.3), ticks, mark, window, count, "" if count == 1 else "s")


HEIGHT, TOP = 168, 8
"""Pixels from the top of a chart's plot to its zero line, and to its highest value."""

COLOURS = 8
"""Of lines and clusters; then they come again."""

_MOST_DOTS = 60
_MOST_READ = 400  # rounds whose values a chart reads out; of more, every second, third, …
_LABEL = 13.0  # height of the number at a line's end
_NEAR = 6.0  # per cent of the width that such a number takes


@dataclass(frozen=True)
class Series:
    """A line or a row of bars: the class that gives it its colour, its name (empty if alone), values by round."""

    kind: str
    name: str
    points: Sequence[tuple[int, float]]


def lines(points: Sequence[tuple[int, float]], last: int, title: str, kind: str, top: float | None = None) -> Markup:
    """A line over rounds 1 to ``last``; ``top`` fixes the upper end of the scale, else the data do; 1: shares."""
    return _Chart([Series("", "", points)], last, title, kind, top).lines()


def curves(series: Sequence[Series], last: int, title: str) -> Markup:
    """Lines over rounds 1 to ``last`` on a scale from 0 to 1."""
    return _Chart(series, last, title, "curves", 1.0).lines()


def compared(
    lines: Sequence[tuple[int, Sequence[tuple[int, float]]]], last: int, title: str, top: float | None = None
) -> Markup:
    """A line for each of several runs, by the run's number from 1, which also stands at the line's end."""
    series = [Series(f"k{(number - 1) % COLOURS}", str(number), points) for number, points in lines if points]
    return _Chart(series, last, title, "compared", top).lines(ends=True)


def bars(values: Sequence[tuple[int, float]], last: int, title: str, kind: str) -> Markup:
    """A bar for each round."""
    return _Chart([Series("", "", values)], last, title, kind).bars()


class _Chart:
    """One chart over rounds. Its labels are HTML's size on every screen: only lines and bars grow with its width."""

    def __init__(self, series: Sequence[Series], last: int, title: str, kind: str, top: float | None = None) -> None:
        highest = top or max((value for each in series for _, value in each.points), default=1.0)
        self._series = series
        self._last = max(last, 1)
        self._ticks = _ticks(highest)
        self._say = percent if top == 1.0 else short
        self._title = title
        self._kind = kind

    def lines(self, ends: bool = False) -> Markup:
        paths = [self._path(each) for each in self._series if len(each.points) > 1]
        parts = [
            Markup('<svg viewBox="0 0 1000 {0}" preserveAspectRatio="none" width="100%" height="{0}">{1}</svg>').format(
                HEIGHT, Markup("").join(paths)
            )
        ]
        parts += [
            Markup('<circle class="dot {}" cx="{:.2f}%" cy="{:.1f}" r="3"/>').format(
                each.kind, self._x(n), self._y(value)
            )
            for each in self._series
            if len(each.points) <= _MOST_DOTS
            for n, value in each.points
        ]
        if ends:
            last = [(self._y(each.points[-1][1]), self._x(each.points[-1][0]), each.name) for each in self._series]
            parts += map(_end_label, _apart(last))
        return self._draw(parts)

    def bars(self) -> Markup:
        wide = min(72.0 / self._last, 12.0)
        parts = [
            Markup('<rect class="bar" x="{:.2f}%" y="{:.1f}" width="{:.2f}%" height="{:.1f}" rx="1.5"/>').format(
                self._x(n) - wide / 2, self._y(value), wide, HEIGHT - self._y(value)
            )
            for each in self._series
            for n, value in each.points
        ]
        return self._draw(parts)

    def _path(self, series: Series) -> Markup:
        path = "L".join(f"{10 * self._x(n):.1f} {self._y(value):.1f}" for n, value in series.points)
        return Markup('<path class="line {}" d="M{}"/>').format(series.kind, path)

    def _draw(self, parts: Sequence[Markup]) -> Markup:
        heights = [(self._y(tick), tick) for tick in self._ticks]
        grid = [Markup('<line class="grid" x1="0" x2="100%" y1="{0:.1f}" y2="{0:.1f}"/>').format(y) for y, _ in heights]
        scale = [Markup('<text x="100%" y="{:.1f}">{}</text>').format(y + 4, self._tick(tick)) for y, tick in heights]
        rounds = [
            Markup('<text x="{:.2f}%" y="13">{}</text>').format(self._x(number), number)
            for number in _round_labels(self._last)
        ]
        readings = self._readings()
        latest = readings[-1] if readings else None
        return Markup(
            '<div class="chart {kind}" role="img" aria-label="{title}{said}" data-chart="{readings}">'
            '<p class="readout" aria-hidden="true">{readout}</p>'
            '<svg class="scale" height="{height}" aria-hidden="true">{scale}</svg>'
            '<svg class="plot" height="{height}" aria-hidden="true">{grid}{parts}</svg>'
            '<svg class="rounds" height="18" aria-hidden="true">{rounds}</svg></div>'
        ).format(
            kind=self._kind,
            title=self._title,
            said=f". {_said(latest)}" if latest else "",
            readings=json.dumps(readings, ensure_ascii=False, separators=(",", ":")),
            readout=_readout(latest) if latest else "",
            height=HEIGHT + 6,
            scale=Markup("").join(scale),
            grid=Markup("").join(grid),
            parts=Markup("").join(parts),
            rounds=Markup("").join(rounds),
        )

    def _readings(self) -> list[Reading]:
        """What the chart reads out, a round each: its number, where it is, and class, name, text and height of each."""
        values: dict[int, list[tuple[str, str, str, float]]] = {}
        for each in self._series:
            for n, value in each.points:
                reading = (each.kind, each.name, self._say(value), round(self._y(value), 1))
                values.setdefault(n, []).append(reading)
        rounds = sorted(values)
        step = -(-len(rounds) // _MOST_READ) or 1
        return [(n, round(self._x(n), 2), values[n]) for n in rounds[::-1][::step][::-1]]

    def _tick(self, value: float) -> str:
        return f"{100 * value:.0f} %" if self._say is percent else short(value)

    def _x(self, number: int) -> float:
        """Rounds lie in the middle of equal slots; per cent of the width."""
        return 100.0 * (number - 0.5) / self._last

    def _y(self, value: float) -> float:
        share = min(max(value / self._ticks[-1], 0.0), 1.0)
        return HEIGHT - (HEIGHT - TOP) * share


def _said(reading: Reading) -> str:
    number, _, values = reading
    return f"Round {number}: " + ", ".join(f"{name} {text}".strip() for _, name, text, _ in values)


def _readout(reading: Reading) -> Markup:
    """The same with the colours of the lines; scripts write it anew for the round that is pointed at."""
    number, _, values = reading
    shown = [
        Markup("<span>{}<b>{}</b></span>").format(
            Markup('<span class="key {}"></span>{} ').format(kind, name) if name else "", text
        )
        for kind, name, text, _ in values
    ]
    return Markup("<span>Round {}</span> {}").format(number, Markup(" ").join(shown))


def _apart(ends: Sequence[tuple[float, float, str]]) -> list[tuple[float, float, str]]:
    """Ends of lines (y, x, name) from the top down, moved so that no label of one column covers another."""
    found: list[tuple[float, float, str]] = []
    for y, x, name in sorted(ends):
        above = max((other for other, place, _ in found if abs(place - x) < _NEAR), default=-_LABEL)
        found.append((max(y, above + _LABEL), x, name))
    excess = max([y for y, _, _ in found], default=0.0) - HEIGHT
    return [(y - max(0.0, excess), x, name) for y, x, name in found]


def _end_label(end: tuple[float, float, str]) -> Markup:
    y, x, name = end
    return Markup('<text class="ending" x="{:.2f}%" dx="8" y="{:.1f}">{}</text>').format(x, y + 4, name)


def _ticks(top: float) -> list[float]:
    """Round numbers from 0 to at least ``top``, four or five of them."""
    if not 1e-12 < top < 1e300:  # what a model's metrics say may be any float
        return [0.0, 1.0]
    rough = top / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough * 0.999)
    return [step * index for index in range(math.ceil(top / step * 0.999) + 1)]


def _round_labels(last: int) -> list[int]:
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 1 << 62) if last / s <= 10)
    return [number for number in range(1, last + 1) if number % step == 0]
