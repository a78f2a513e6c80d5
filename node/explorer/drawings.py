"""Drawings as SVG, made by the server: the cooperation tree, a round's phases by block, lines and bars over rounds.

Colours come from classes in the style sheet, so that light and dark, and print, look right. Only numbers and
fixed words go into a drawing, and ``Markup`` escapes whatever does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedgrove.chain import tree
from markupsafe import Markup


@dataclass(frozen=True)
class Leaf:
    """A drawn client at its position: ``survived``, ``recovered`` (left after sharing) or ``left`` (before).

    ``released``: it released shares for the recovery. ``link`` may be empty. ``stated``: the number that it
    stated. ``masks``: others can mask with it, as its key is a sound one.
    """

    client: int
    state: str
    released: bool
    link: str = ""
    stated: int | None = None
    masks: bool = True


STATES = {
    "survived": "committed",
    "recovered": "left after sharing: the others removed its masks",
    "left": "left before sharing: it has no masks in the sum",
    "running": "drew; the round is still running",
}


def cooperation_tree(leaves: Sequence[Leaf], title: str) -> Markup:
    """The tree with its branches below the leaves and, above them, an arc between any two partners."""
    return _Tree(leaves).draw(title)


class _Tree:
    """Geometry of one tree: leaves in a row, the trunk below."""

    def __init__(self, leaves: Sequence[Leaf]) -> None:
        self._leaves = leaves
        n = len(leaves)
        self._step = max(9.0, min(84.0, 1040 / max(n, 1)))
        self._radius = min(17.0, self._step * 0.4)
        self._levels = max(1, math.ceil(math.log2(max(n, 2))))
        self._rise = max(26.0, min(54.0, 230 / self._levels))
        self._margin = 28.0
        self._width = 2 * self._margin + self._step * max(n - 1, 1)
        widest = self._step * max(n - 1, 1) / 2
        self._canopy = min(150.0, 26 + widest * 0.5)
        self._row = self._canopy + self._radius + 18
        self._height = self._row + self._radius + self._rise * self._levels + 50

    def draw(self, title: str) -> Markup:
        parts = [*self._branches(0, len(self._leaves), 0), *self._arcs(), *map(self._leaf, range(len(self._leaves)))]
        return Markup(
            '<svg class="tree" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" '
            'role="group" aria-label="{title}">{parts}</svg>'
        ).format(width=self._width, height=self._height, title=title, parts=Markup("").join(parts))

    def _x(self, position: float) -> float:
        return self._margin + self._step * position

    def _point(self, lo: int, hi: int, depth: int) -> tuple[float, float]:
        """Where a node over [lo, hi) is: leaves in the row, the root lowest."""
        if hi - lo == 1:
            return self._x(lo), self._row
        level = math.ceil(math.log2(hi - lo))
        return self._x((lo + hi - 1) / 2), self._row + self._radius + 8 + level * self._rise

    def _branches(self, lo: int, hi: int, depth: int) -> list[Markup]:
        if hi - lo < 1:
            return []
        x, y = self._point(lo, hi, depth)
        drawn = [] if depth else [self._branch(x, self._height, x, y, hi - lo)]
        if hi - lo == 1:
            return drawn
        mid = lo + (hi - lo + 1) // 2
        for start, end in ((lo, mid), (mid, hi)):
            child_x, child_y = self._point(start, end, depth + 1)
            drawn.append(self._branch(x, y, child_x, child_y, end - start))
            drawn += self._branches(start, end, depth + 1)
        return drawn

    def _branch(self, x: float, y: float, to_x: float, to_y: float, leaves: int) -> Markup:
        thick = 1.2 + 7 * math.sqrt(leaves / max(len(self._leaves), 1))
        bend = y - (y - to_y) * 0.55
        return Markup(
            '<path class="branch" stroke-width="{:.1f}" d="M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}"/>'
        ).format(thick, x, y, x, bend, to_x, bend, to_x, to_y)

    def _arcs(self) -> list[Markup]:
        n = len(self._leaves)
        pairs = sorted({tuple(sorted((a, b))) for a in range(n) for b in tree.partners(a, n)})
        return [self._arc(a, b) for a, b in pairs]

    def _arc(self, a: int, b: int) -> Markup:
        states = {self._leaves[a].state, self._leaves[b].state}
        kind = "unused" if "left" in states else "dangling" if "recovered" in states else "held"
        span = (b - a) / max(len(self._leaves) - 1, 1)
        x, to_x, y = self._x(a), self._x(b), self._row - self._radius
        height = 10 + (self._canopy - 14) * math.sqrt(span) * 1.33
        return Markup(
            '<path class="arc {}" data-ends="{} {}" d="M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}"/>'
        ).format(kind, a, b, x, y, x, y - height, to_x, y - height, to_x, y)

    def _leaf(self, position: int) -> Markup:
        leaf = self._leaves[position]
        x, y, r = self._x(position), self._row, self._radius
        partners = ", ".join(str(self._leaves[other].client) for other in tree.partners(position, len(self._leaves)))
        said = f"client {leaf.client}: {STATES[leaf.state]}; partners {partners or 'none'}"
        marks = [Markup("<title>{}</title>").format(said)]
        marks.append(Markup('<circle class="leaf" cx="{:.1f}" cy="{:.1f}" r="{:.1f}"/>').format(x, y, r))
        if r >= 7:
            size = min(13.0, r * (1.05 if leaf.client < 100 else 0.8))
            marks.append(
                Markup('<text class="number" x="{:.1f}" y="{:.1f}" font-size="{:.1f}">{}</text>').format(
                    x, y + size * 0.36, size, leaf.client
                )
            )
        if leaf.released:
            marks.append(
                Markup('<circle class="released" cx="{:.1f}" cy="{:.1f}" r="{:.1f}"/>').format(
                    x, y + r + 6, max(1.6, r * 0.2)
                )
            )
        inside = Markup("").join(marks)
        if not leaf.link:
            return Markup('<g class="place {}" data-position="{}">{}</g>').format(leaf.state, position, inside)
        return Markup('<a class="place {}" data-position="{}" href="{}" aria-label="{}">{}</a>').format(
            leaf.state, position, leaf.link, said, inside
        )


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


def lines(points: Sequence[tuple[int, float]], last: int, title: str, kind: str, top: float | None = None) -> Markup:
    """A line over rounds 1 to ``last``; ``top`` fixes the upper end of the scale, else the data do."""
    return _Chart(last, top or max((value for _, value in points), default=1.0), title, kind).line(points)


def curves(lines: Sequence[tuple[str, Sequence[tuple[int, float]]]], last: int, title: str) -> Markup:
    """Lines over rounds 1 to ``last`` on a scale from 0 to 1, by the class that gives them their colour."""
    return _Chart(last, 1.0, title, "curves").curves(lines)


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
        if len(points) <= 60:
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

    def bars(self, values: Sequence[tuple[int, float]]) -> Markup:
        wide = min(26.0, (WIDTH - LEFT - RIGHT) / self._last * 0.72)
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
                LEFT, self._y(tick), WIDTH - RIGHT, LEFT - 6, self._y(tick) + 4, short(tick)
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

    def _x(self, number: int) -> float:
        """Rounds lie in the middle of equal slots."""
        return LEFT + (WIDTH - LEFT - RIGHT) * (number - 0.5) / self._last

    def _y(self, value: float) -> float:
        share = min(max(value / self._top, 0.0), 1.0)
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share


def short(value: float) -> str:
    """A number in at most four digits: 0.125, 37, 4.1k, 12.5M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{unit}"
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
