"""Drawings as SVG, made by the server: a round's phases by block, lines and bars over rounds.

Colours come from classes in the style sheet, so that light and dark, and print, look right. Only numbers and
fixed words go into a drawing, and ``Markup`` escapes whatever does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup


@dataclass(frozen=True)
class PhaseWindow:
    """A window of blocks (first, last, both included), and the blocks in which records of it lie."""

    name: str
    first: int
    last: int
    records: tuple[int, ...] = ()


def timeline(phases: Sequence[PhaseWindow], ended: int | None, head: int, title: str) -> Markup:
    """The phases of a round side by side, a tick for each record, and where the round ended or the chain is now."""
    first, last = phases[0].first, phases[-1].last
    width, scale = 1000.0, 1000.0 / max(last - first + 1, 1)
    parts = []
    for number, phase in enumerate(phases):
        x, wide = (phase.first - first) * scale, (phase.last - phase.first + 1) * scale
        parts.append(
            Markup(
                '<rect class="window {}" x="{:.1f}" y="22" width="{:.1f}" height="46" rx="3">'
                "<title>{}: blocks {} to {}, {} records</title></rect>"
            ).format(
                "odd" if number % 2 else "even",
                x + 0.5,
                max(wide - 1, 1),
                phase.name,
                phase.first,
                phase.last,
                len(phase.records),
            )
        )
        if wide > 8.5 * len(phase.name):
            parts.append(Markup('<text class="label" x="{:.1f}" y="14">{}</text>').format(x + 3, phase.name))
        ticks = "".join(f"M{(block - first + 0.5) * scale:.1f} 30V60" for block in sorted(set(phase.records)))
        parts.append(Markup('<path class="tick" d="{}"/>').format(ticks) if ticks else "")
    end = ended if ended is not None else head
    if first <= end <= last:
        x = (end - first + 0.5) * scale
        what = "end" if ended is not None else "now"
        parts.append(Markup('<path class="{}" d="M{:.1f} 18V74"/>').format(what, x))
        anchor = "end" if x > width - 60 else "start"
        parts.append(
            Markup('<text class="label {}" x="{:.1f}" y="86" text-anchor="{}">{} in block {:,}</text>').format(
                what, x, anchor, "ended" if ended is not None else "now", end
            )
        )
    parts.append(
        Markup('<text class="label" x="0" y="86">block {:,}</text>').format(first)
        if end - first > (last - first) * 0.2
        else ""
    )
    return Markup('<svg class="timeline" viewBox="0 0 1000 92" role="img" aria-label="{}">{}</svg>').format(
        title, Markup("").join(parts)
    )


WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 460, 200, 46, 24, 12, 8
COLOURS = 8
"""Of lines and clusters; then they come again."""

_MOST_DOTS = 60
_SMALL = 1e-3  # smaller numbers have exponents, so that they fit next to a chart
_LABEL = 13.0  # height of the number at a line's end


def lines(points: Sequence[tuple[int, float]], last: int, title: str, kind: str, top: float | None = None) -> Markup:
    """A line over rounds 1 to ``last``; ``top`` fixes the upper end of the scale, else the data do."""
    return _Chart(last, top or max((value for _, value in points), default=1.0), title, kind).line(points)


def curves(lines: Sequence[tuple[str, Sequence[tuple[int, float]]]], last: int, title: str) -> Markup:
    """Lines over rounds 1 to ``last`` on a scale from 0 to 1, by the class that gives them their colour."""
    return _Chart(last, 1.0, title, "curves").curves(lines)


def compared(
    lines: Sequence[tuple[int, Sequence[tuple[int, float]]]], last: int, title: str, top: float | None = None
) -> Markup:
    """A line for each of several runs, by the run's number from 1, which also stands at the line's end."""
    highest = max((value for _, points in lines for _, value in points), default=1.0)
    return _Chart(last, top or highest, title, "compared").numbered(lines)


def bars(values: Sequence[tuple[int, float]], last: int, title: str, kind: str) -> Markup:
    """A bar for each round."""
    return _Chart(last, max((value for _, value in values), default=1.0), title, kind).bars(values)


class _Chart:
    """Scales and grid of one chart over rounds."""

    def __init__(self, last: int, top: float, title: str, kind: str) -> None:
        self._last = max(last, 1)
        self._ticks = _ticks(top)
        self._top = self._ticks[-1]
        self._title = title
        self._kind = kind

    def line(self, points: Sequence[tuple[int, float]]) -> Markup:
        places = [(self._x(number), self._y(value)) for number, value in points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts = [Markup('<path class="line" d="M{}"/>').format(path)] if len(places) > 1 else []
        if len(points) <= _MOST_DOTS:
            parts += [
                Markup('<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="3"><title>round {}: {}</title></circle>').format(
                    x, y, number, short(value)
                )
                for (number, value), (x, y) in zip(points, places, strict=True)
            ]
        return self._draw(parts)

    def curves(self, lines: Sequence[tuple[str, Sequence[tuple[int, float]]]]) -> Markup:
        parts = []
        for kind, points in lines:
            places = [(self._x(number), self._y(value)) for number, value in points]
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
            parts.append(Markup('<path class="line {}" d="M{}"/>').format(kind, path))
            parts += [
                Markup('<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="3"/>').format(kind, *at) for at in places
            ]
        return self._draw(parts)

    def numbered(self, lines: Sequence[tuple[int, Sequence[tuple[int, float]]]]) -> Markup:
        drawn = [(number, points) for number, points in lines if points]
        parts = [part for number, points in drawn for part in self._numbered(number, points)]
        ends = [(self._y(points[-1][1]), self._x(points[-1][0]), number) for number, points in drawn]
        return self._draw([*parts, *map(_end_label, _apart(ends))])

    def _numbered(self, number: int, points: Sequence[tuple[int, float]]) -> list[Markup]:
        kind = f"k{(number - 1) % COLOURS}"
        places = [(self._x(place), self._y(value)) for place, value in points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts = [Markup('<path class="line {}" d="M{}"/>').format(kind, path)]
        if len(points) <= _MOST_DOTS:
            parts += [
                Markup('<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="2.6"><title>{}</title></circle>').format(
                    kind, x, y, f"run {number}, round {place}: {short(value)}"
                )
                for (place, value), (x, y) in zip(points, places, strict=True)
            ]
        return parts

    def bars(self, values: Sequence[tuple[int, float]]) -> Markup:
        wide = min(26.0, (WIDTH - LEFT - self._right) / self._last * 0.72)
        parts = [
            Markup(
                '<rect class="bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="1.5">'
                "<title>round {}: {}</title></rect>"
            ).format(self._x(n) - wide / 2, self._y(value), wide, HEIGHT - BOTTOM - self._y(value), n, short(value))
            for n, value in values
        ]
        return self._draw(parts)

    def _draw(self, parts: list[Markup]) -> Markup:
        grid = [
            Markup('<path class="grid" d="M{} {:.1f}H{}"/><text class="scale" x="{}" y="{:.1f}">{}</text>').format(
                LEFT, self._y(tick), WIDTH - self._right, LEFT - 6, self._y(tick) + 4, short(tick)
            )
            for tick in self._ticks
        ]
        rounds = [
            Markup('<text class="round" x="{:.1f}" y="{}">{}</text>').format(self._x(number), HEIGHT - 6, number)
            for number in _round_labels(self._last)
        ]
        return Markup('<svg class="chart {}" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
            self._kind, WIDTH, HEIGHT, self._title, Markup("").join([*grid, *rounds, *parts])
        )

    @property
    def _right(self) -> int:
        """Margin on the right: lines that are numbered need room for that."""
        return 22 if self._kind == "compared" else RIGHT

    def _x(self, number: int) -> float:
        """Rounds lie in the middle of equal slots."""
        return LEFT + (WIDTH - LEFT - self._right) * (number - 0.5) / self._last

    def _y(self, value: float) -> float:
        share = min(max(value / self._top, 0.0), 1.0)
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share


def _apart(ends: Sequence[tuple[float, float, int]]) -> list[tuple[float, float, int]]:
    """Ends of lines (y, x, number) from the top down, moved so that no label of one column covers another."""
    found: list[tuple[float, float, int]] = []
    for y, x, number in sorted(ends):
        above = max((other for other, beside, _ in found if abs(beside - x) < _LABEL), default=-_LABEL)
        found.append((max(y, above + _LABEL), x, number))
    excess = max([y for y, _, _ in found], default=0.0) - (HEIGHT - BOTTOM)
    return [(y - max(0.0, excess), x, number) for y, x, number in found]


def _end_label(end: tuple[float, float, int]) -> Markup:
    y, x, number = end
    return Markup('<text class="ending" x="{:.1f}" y="{:.1f}">{}</text>').format(x + 8, y + 4, number)


def short(value: float) -> str:
    """A number in at most four digits: 1.25e-4, 0.125, 37, 4.1k, 12.5M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{unit}"
    if 0 < abs(value) < _SMALL:
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return f"{value:.3g}"


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
