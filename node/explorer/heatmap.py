"""The matrix of similarity as SVG: a row and a column a client, darker where the row's has more in common with it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fedgrove.node.explorer.drawings import COLOURS

MAX_CLIENTS = 128
"""A matrix of more is not drawn, nor written as a table."""

_SHADES = 10
_TITLED = 40  # clients, up to which a cell says on pointing at it what it stands for
_SIDE = 560.0
_MARGIN = 40.0


@dataclass(frozen=True)
class Heatmap:
    """What is drawn, all in one order of the clients.

    Attributes
    ----------
    clients, homes : sequence of int
        A client's number, and that of its cluster from 0, whose colour is shown next to its row.
    ism : sequence of (sequence of float)
        ISMₙ[m] in [0, 1].
    alike : sequence of (sequence of bool)
        Where it is at least α: these cells are green, others grey.
    """

    clients: Sequence[int]
    homes: Sequence[int]
    ism: Sequence[Sequence[float]]
    alike: Sequence[Sequence[bool]]

    @property
    def step(self) -> float:
        """Side of a cell."""
        return max(4.0, min(30.0, _SIDE / len(self.clients)))

    def draw(self, title: str) -> Markup:
        """The picture, for whom its title stands in its place."""
        side = _MARGIN + self.step * len(self.clients) + 6
        cells = self._titled() if len(self.clients) <= _TITLED else self._merged()
        return Markup(
            '<svg class="heatmap" viewBox="0 0 {side:.0f} {side:.0f}" width="{side:.0f}" height="{side:.0f}" '
            'role="img" aria-label="{title}">{parts}</svg>'
        ).format(side=side, title=title, parts=Markup("").join([*cells, *self._homes(), *self._names()]))

    def _titled(self) -> list[Markup]:
        """A cell of its own for each pair."""
        return [
            Markup(
                '<rect class="{}" fill-opacity="{:.2f}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">'
                "<title>client {} with {}: {:.3f}</title></rect>"
            ).format(
                self._kind(row, column), share, self._at(column), self._at(row), self.step, self.step,
                self.clients[row], self.clients[column], share,
            )
            for row, shares in enumerate(self.ism)
            for column, share in enumerate(shares)
        ]  # fmt: skip

    def _merged(self) -> list[Markup]:
        """One path for all cells of a shade: this many elements would be slow."""
        paths: dict[tuple[str, int], list[str]] = defaultdict(list)
        for row, shares in enumerate(self.ism):
            for column, share in enumerate(shares):
                place = f"M{self._at(column):.1f} {self._at(row):.1f}h{self.step:.1f}v{self.step:.1f}h-{self.step:.1f}z"
                paths[self._kind(row, column), round(share * _SHADES)].append(place)
        return [
            Markup('<path class="{}" fill-opacity="{:.1f}" d="{}"/>').format(kind, shade / _SHADES, "".join(places))
            for (kind, shade), places in sorted(paths.items())
            if shade
        ]

    def _homes(self) -> list[Markup]:
        return [
            Markup('<rect class="home k{}" x="{:.1f}" y="{:.1f}" width="5" height="{:.1f}"/>').format(
                home % COLOURS, _MARGIN - 8, self._at(row), self.step
            )
            for row, home in enumerate(self.homes)
        ]

    def _names(self) -> list[Markup]:
        """Numbers of clients next to and above, as many as there is room for."""
        middle = self.step / 2
        return [
            Markup('<text x="{:.1f}" y="{:.1f}">{}</text><text class="top" x="{:.1f}" y="{:.1f}">{}</text>').format(
                _MARGIN - 12, self._at(row) + middle + 4, client, self._at(row) + middle, _MARGIN - 8, client
            )
            for row, client in enumerate(self.clients)
            if row % max(1, round(18 / self.step)) == 0
        ]

    def _kind(self, row: int, column: int) -> str:
        return "alike" if self.alike[row][column] else "other"

    def _at(self, place: int) -> float:
        return _MARGIN + self.step * place
