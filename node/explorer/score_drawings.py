"""Figures of predictions as SVG: confusion matrix, receiver operating characteristic, calibration, predicted numbers.

For pages, whose style sheet colours them, and as files of their own (``standalone``).
"""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from fedgrove.node.explorer.drawings import COLOURS, short
from fedgrove.node.learning.scores import CalibrationBin

SIDE, MARGIN, CELL = 300.0, 46.0, 44.0

_LONGEST = 14  # characters of a class's name
_MOST_POINTS = 2000
_MOST_KNOTS = 400
_STYLE = """
text { fill: #5b6660; font: 11px system-ui, sans-serif; } .axis, .count { text-anchor: middle; }
.scale, .name { text-anchor: end; } .grid { stroke: #d8ded9; } .line { fill: none; stroke-width: 2; }
.cell { fill: #2f6f4f; } .cell.wrong { fill: #a4462f; } .even { stroke: #8a948e; stroke-dasharray: 4 4; }
.k0 { stroke: #2f6f4f; } .k1 { stroke: #a4462f; } .k2 { stroke: #3d6ea8; } .k3 { stroke: #9a7b1d; }
.k4 { stroke: #7a4f9a; } .k5 { stroke: #2f8a8a; } .k6 { stroke: #7a6a55; } .k7 { stroke: #b0487a; }
.dot { fill: #2f6f4f; fill-opacity: 0.45; } .dark { fill: #ffffff; }
"""


def standalone(drawing: Markup) -> str:
    """A drawing with its colours, as a file."""
    opening, rest = drawing.split(">", 1)
    return f'{opening} xmlns="http://www.w3.org/2000/svg"><style>{_STYLE}</style>{rest}\n'


def confusion(classes: Sequence[str], matrix: np.ndarray) -> Markup:
    """A confusion matrix: rows are what is true, shaded by their shares; what is right is green."""
    counts, left, top = matrix.tolist(), 110.0, 40.0
    parts = [Markup('<text class="axis" x="{:.0f}" y="14">predicted</text>').format(left + CELL * len(counts) / 2)]
    for row, values in enumerate(counts):
        total, y = max(1, sum(values)), top + CELL * row
        parts.append(_named("name", left - 8, y + CELL / 2 + 4, classes[row]))
        parts.append(_named("axis", left + CELL * (row + 0.5), top - 8, classes[row]))
        for column, value in enumerate(values):
            share, x = value / total, left + CELL * column
            parts.append(
                _cell(
                    "cell" if row == column else "cell wrong",
                    0.06 + 0.94 * share,
                    (x, y),
                    f"{classes[row]} predicted as {classes[column]}: {value}",
                    value,
                )
            )
    wide, high = left + CELL * len(counts) + 8, top + CELL * len(counts) + 8
    return _drawn("confusion", wide, high, "confusion matrix: rows are true classes, columns predicted ones", parts)


def _cell(kind: str, opacity: float, corner: tuple[float, float], title: str, value: int) -> Markup:
    x, y = corner
    text = "count dark" if opacity > 0.5 else "count"
    return Markup(
        '<rect class="{}" fill-opacity="{:.2f}" x="{:.0f}" y="{:.0f}" width="{:.0f}" height="{:.0f}">'
        '<title>{}</title></rect><text class="{}" x="{:.1f}" y="{:.1f}">{}</text>'
    ).format(kind, opacity, x + 1, y + 1, CELL - 2, CELL - 2, title, text, x + CELL / 2, y + CELL / 2 + 4, short(value))


def receiver(classes: Sequence[str], curves: Sequence[tuple[np.ndarray, np.ndarray]]) -> Markup:
    """Receiver operating characteristics: of the second of two classes, or of each class against the rest."""
    drawn = list(enumerate(curves))[-1:] if len(curves) == 2 else list(enumerate(curves))
    parts = [*_square("false positive rate", "true positive rate"), _diagonal()]
    for place, (false, true) in drawn:
        chosen = np.unique(np.linspace(0, len(false) - 1, _MOST_KNOTS).astype(int))
        path = "L".join(f"{_x(x):.1f} {_y(y):.1f}" for x, y in zip(false[chosen], true[chosen], strict=True))
        parts.append(
            Markup('<path class="line k{}" d="M{}"><title>{}</title></path>').format(
                place % COLOURS, path, classes[place]
            )
        )
    return _drawn("roc", SIDE + MARGIN + 8, SIDE + MARGIN + 8, "receiver operating characteristic", parts)


def calibration(bins: Sequence[CalibrationBin]) -> Markup:
    """Stated probability of the predicted class, and how often it was right."""
    parts = [*_square("stated probability", "share that is right"), _diagonal()]
    places = [(_x(each.stated), _y(each.right)) for each in bins]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    parts.append(Markup('<path class="line k0" d="M{}"/>').format(path))
    most = max((each.count for each in bins), default=1)
    parts += [
        Markup('<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="{:.1f}"><title>{} samples</title></circle>').format(
            x, y, 3 + 6 * (each.count / most) ** 0.5, each.count
        )
        for (x, y), each in zip(places, bins, strict=True)
    ]
    return _drawn("calibration", SIDE + MARGIN + 8, SIDE + MARGIN + 8, "calibration of the predicted class", parts)


def scatter(truth: np.ndarray, predicted: np.ndarray, name: str) -> Markup:
    """Predicted numbers by true ones, evenly chosen where there are many."""
    true, own = truth.reshape(-1), predicted.reshape(-1)
    chosen = np.unique(np.linspace(0, len(true) - 1, _MOST_POINTS).astype(int))
    low, high = float(min(true.min(), own.min())), float(max(true.max(), own.max()))
    span = high - low or 1.0
    parts = [*_square(f"true {name}", f"predicted {name}", (low, high)), _diagonal()]
    parts += [
        Markup('<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="2.5"/>').format(
            _x((x - low) / span), _y((y - low) / span)
        )
        for x, y in zip(true[chosen].tolist(), own[chosen].tolist(), strict=True)
    ]
    return _drawn("scatter", SIDE + MARGIN + 8, SIDE + MARGIN + 8, f"predicted {name} by true {name}", parts)


def _x(share: float) -> float:
    return MARGIN + SIDE * min(max(float(share), 0.0), 1.0)


def _y(share: float) -> float:
    return 8 + SIDE * (1 - min(max(float(share), 0.0), 1.0))


def _square(below: str, left: str, span: tuple[float, float] = (0.0, 1.0)) -> list[Markup]:
    """Grid and scales of a square."""
    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        label = short(span[0] + share * (span[1] - span[0]))
        parts.append(
            Markup(
                '<path class="grid" d="M{0:.1f} {1:.1f}H{2:.1f}M{3:.1f} 8V{4:.1f}"/>'
                '<text class="scale" x="{5:.1f}" y="{6:.1f}">{7}</text>'
                '<text class="axis" x="{3:.1f}" y="{8:.1f}">{7}</text>'
            ).format(MARGIN, _y(share), MARGIN + SIDE, _x(share), 8 + SIDE, MARGIN - 6, _y(share) + 4, label, SIDE + 22)
        )
    middle = 8 + SIDE / 2
    return [
        *parts,
        Markup('<text class="axis" x="{:.1f}" y="{:.1f}">{}</text>').format(MARGIN + SIDE / 2, SIDE + 40, _cut(below)),
        Markup('<text class="axis" x="12" y="{0:.1f}" transform="rotate(-90 12 {0:.1f})">{1}</text>').format(
            middle, _cut(left)
        ),
    ]


def _diagonal() -> Markup:
    return Markup('<path class="even" d="M{:.1f} {:.1f}L{:.1f} {:.1f}"/>').format(_x(0), _y(0), _x(1), _y(1))


def _named(kind: str, x: float, y: float, name: str) -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}<title>{}</title></text>').format(
        kind, x, y, _cut(name), name
    )


def _cut(name: str) -> str:
    longest = 4 * _LONGEST if " " in name else _LONGEST
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def _drawn(kind: str, wide: float, high: float, title: str, parts: Sequence[Markup]) -> Markup:
    return Markup(
        '<svg class="scores {}" viewBox="0 0 {:.0f} {:.0f}" width="{:.0f}" height="{:.0f}" role="img" '
        'aria-label="{}">{}</svg>'
    ).format(kind, wide, high, wide, high, title, Markup("").join(parts))
