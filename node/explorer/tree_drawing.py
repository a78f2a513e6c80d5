"""The cooperation tree as SVG: lying for wide windows, standing for narrow ones, where nothing may scroll sideways.

Colours come from classes in the style sheet. ``Markup`` escapes whatever goes into a drawing.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from fedgrove.chain.crypto import tree
from fedgrove.chain.crypto.tree import partners


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


def cooperation_tree(leaves: Sequence[Leaf], title: str, standing: bool = False) -> Markup:
    """The tree: an arc between any two partners, the leaves in a row, the branches to the trunk.

    Lying, the row goes from left to right and the trunk is below. Standing, it goes down, the trunk is on the left, and
    no tree is wider than a phone.
    """
    return _Tree(leaves, _standing(len(leaves)) if standing else _lying(len(leaves))).draw(title)


@dataclass(frozen=True)
class _Measures:
    """Sizes of a drawing in pixels, along the row of leaves (``step``) and across it (the others)."""

    standing: bool
    step: float
    radius: float
    canopy: float
    rise: float
    trunk: float


def _lying(count: int) -> _Measures:
    step = max(9.0, min(84.0, 1040 / max(count, 1)))
    canopy = min(150.0, 26 + step * max(count - 1, 1) / 4)
    rise = max(26.0, min(54.0, 230 / _levels(count)))
    return _Measures(False, step, min(17.0, step * 0.4), canopy, rise, 50.0)


def _standing(count: int) -> _Measures:
    """Leaves far enough from each other for fingers."""
    canopy = min(104.0, 30 + 30.0 * max(count - 1, 1) / 4)
    return _Measures(True, 32.0, 12.0, canopy, min(44.0, 150 / _levels(count)), 26.0)


def _levels(count: int) -> int:
    return max(1, math.ceil(math.log2(max(count, 2))))


class _Tree:
    """Geometry of one tree: places are along the row of leaves, and across it from the arcs to the trunk."""

    def __init__(self, leaves: Sequence[Leaf], measures: _Measures) -> None:
        self._leaves = leaves
        self._sizes = measures
        self._margin = 28.0
        self._length = 2 * self._margin + measures.step * max(len(leaves) - 1, 1)
        self._row = measures.canopy + measures.radius + 18
        self._depth = self._row + measures.radius + measures.rise * _levels(len(leaves)) + measures.trunk

    def draw(self, title: str) -> Markup:
        parts = [*self._branches(0, len(self._leaves), 0), *self._arcs(), *map(self._leaf, range(len(self._leaves)))]
        width, height = (self._depth, self._length) if self._sizes.standing else (self._length, self._depth)
        return Markup(
            '<svg class="tree {kind}" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
            'height="{height:.0f}" role="group" aria-label="{title}">{parts}</svg>'
        ).format(
            kind="standing" if self._sizes.standing else "lying",
            width=width,
            height=height,
            title=title,
            parts=Markup("").join(parts),
        )

    def _at(self, along: float, across: float) -> str:
        """Coordinates of a place."""
        x, y = (self._depth - across, along) if self._sizes.standing else (along, across)
        return f"{x:.1f} {y:.1f}"

    def _along(self, position: float) -> float:
        return self._margin + self._sizes.step * position

    def _point(self, lo: int, hi: int) -> tuple[float, float]:
        """Where a node over [lo, hi) is: leaves in the row, the root farthest from it."""
        if hi - lo == 1:
            return self._along(lo), self._row
        level = math.ceil(math.log2(hi - lo))
        return self._along((lo + hi - 1) / 2), self._row + self._sizes.radius + 8 + level * self._sizes.rise

    def _branches(self, lo: int, hi: int, depth: int) -> list[Markup]:
        if hi - lo < 1:
            return []
        node = self._point(lo, hi)
        drawn = [] if depth else [self._branch((node[0], self._depth), node, hi - lo)]
        if hi - lo == 1:
            return drawn
        mid = lo + (hi - lo + 1) // 2
        for start, end in ((lo, mid), (mid, hi)):
            drawn.append(self._branch(node, self._point(start, end), end - start))
            drawn += self._branches(start, end, depth + 1)
        return drawn

    def _branch(self, start: tuple[float, float], end: tuple[float, float], leaves: int) -> Markup:
        thick = 1.2 + 7 * math.sqrt(leaves / max(len(self._leaves), 1))
        bend = start[1] - (start[1] - end[1]) * 0.55
        bends = f"{self._at(start[0], bend)} {self._at(end[0], bend)}"
        return Markup('<path class="branch" stroke-width="{:.1f}" d="M{}C{} {}"/>').format(
            thick, self._at(*start), bends, self._at(*end)
        )

    def _arcs(self) -> list[Markup]:
        n = len(self._leaves)
        pairs = sorted({tuple(sorted((a, b))) for a in range(n) for b in tree.partners(a, n)})
        return [self._arc(a, b) for a, b in pairs]

    def _arc(self, a: int, b: int) -> Markup:
        states = {self._leaves[a].state, self._leaves[b].state}
        kind = "unused" if "left" in states else "dangling" if "recovered" in states else "held"
        span = (b - a) / max(len(self._leaves) - 1, 1)
        start, end, foot = self._along(a), self._along(b), self._row - self._sizes.radius
        top = foot - 10 - (self._sizes.canopy - 14) * math.sqrt(span) * 1.33
        bends = f"{self._at(start, top)} {self._at(end, top)}"
        return Markup('<path class="arc {}" data-ends="{} {}" d="M{}C{} {}"/>').format(
            kind, a, b, self._at(start, foot), bends, self._at(end, foot)
        )

    def _circle(self, kind: str, along: float, across: float, radius: float) -> Markup:
        x, y = self._at(along, across).split()
        return Markup('<circle class="{}" cx="{}" cy="{}" r="{:.1f}"/>').format(kind, x, y, radius)

    def _leaf(self, position: int) -> Markup:
        leaf, count = self._leaves[position], len(self._leaves)
        partners = ", ".join(str(self._leaves[other].client) for other in tree.partners(position, count))
        said = f"client {leaf.client}: {STATES[leaf.state]}; partners {partners or 'none'}"
        inside = Markup("").join([Markup("<title>{}</title>").format(said), *self._marks(leaf, self._along(position))])
        if not leaf.link:
            return Markup('<g class="place {}" data-position="{}">{}</g>').format(leaf.state, position, inside)
        return Markup('<a class="place {}" data-position="{}" href="{}" aria-label="{}">{}</a>').format(
            leaf.state, position, leaf.link, said, inside
        )

    def _marks(self, leaf: Leaf, along: float) -> list[Markup]:
        """The ring that shows the keyboard's focus, the leaf, its number, and a dot for released shares."""
        r = self._sizes.radius
        marks = [self._circle("ring", along, self._row, r + 5), self._circle("leaf", along, self._row, r)]
        if r >= 7:
            marks.append(self._number(leaf.client, along))
        if leaf.released:
            marks.append(self._circle("released", along, self._row + r + 6, max(1.6, r * 0.2)))
        return marks

    def _number(self, client: int, along: float) -> Markup:
        size = min(13.0, self._sizes.radius * (1.05 if client < 100 else 0.8))
        x, y = map(float, self._at(along, self._row).split())
        return Markup('<text class="number" x="{:.1f}" y="{:.1f}" font-size="{:.1f}">{}</text>').format(
            x, y + size * 0.36, size, client
        )


MAX_LEAVES = 1024
"""A tree of more leaves is not drawn."""


@dataclass(frozen=True)
class Tree:
    """A tree; who masks with nobody is in one without branches.

    Attributes
    ----------
    name : str
        Whose, for a heading; empty where there is one only.
    leaves : sequence of Leaf
        In the order that the ledger has sealed.
    partners : sequence of (sequence of int)
        The leaves, from 0, with which each masks.
    drawing, standing : Markup
        For wide and for narrow windows; empty where it is too large, or has no branches.
    """

    name: str
    leaves: Sequence[Leaf]
    partners: Sequence[Sequence[int]]
    drawing: Markup = field(default_factory=Markup)
    standing: Markup = field(default_factory=Markup)


def trees_of(leaves: Sequence[Leaf], groups: Sequence[Sequence[int]] | None, of: str, what: str) -> list[Tree]:
    """The trees over the leaves of a sealed round.

    Parameters
    ----------
    groups : sequence of (sequence of int) or None
        Clients that are summed apart; None: all are summed together.
    """
    if not leaves:
        return []
    if groups is None:
        return [_tree("", leaves, f"Cooperation tree of {of}")]
    home = {client: number for number, group in enumerate(groups, 1) for client in group}
    members: dict[int, list[Leaf]] = defaultdict(list)
    for leaf in leaves:
        members[home.get(leaf.client, 0)].append(leaf)
    alone = members.pop(0, [])
    found = []
    for number, own in sorted(members.items()):
        name = f"{what} {number}" if len(groups) > 1 else ""
        found.append(_tree(name.capitalize(), own, f"Cooperation tree of {of}{name and f', {name}'}"))
    return [*found, Tree("Without masks", alone, [()] * len(alone))] if alone else found


def _tree(name: str, leaves: Sequence[Leaf], title: str) -> Tree:
    count = len(leaves)
    drawings = [cooperation_tree(leaves, title, standing) for standing in (False, True) if count <= MAX_LEAVES]
    return Tree(name, leaves, [partners(position, count) for position in range(count)], *drawings)
