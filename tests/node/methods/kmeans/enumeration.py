"""The exact distribution of what a seeding chooses, by going through every draw it can make."""

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from fedgrove.node.methods.kmeans import seeding

Distribution = dict[tuple[int, ...], float]


def distribution(monkeypatch, choose: Callable[[], np.ndarray]) -> Distribution:
    """Probability of each outcome of ``choose``, which may draw as often as it likes.

    Each run follows a script of earlier draws and takes the first possible row after it; the last draw that has an
    untried row is then changed, until there is none.
    """
    script: list[tuple[int, list[int]]] = []  # the row drawn, and those still to be tried in its place
    outcomes: Distribution = defaultdict(float)

    def draw(weights, _):
        nonlocal probability, place
        if place == len(script):
            first, *others = np.flatnonzero(weights).tolist()
            script.append((first, others))
        row = script[place][0]
        place += 1
        probability *= weights[row] / weights.sum()
        return row

    monkeypatch.setattr(seeding, "_draw", draw)
    while True:
        probability, place = 1.0, 0
        outcome = tuple(int(row) for row in choose())
        outcomes[outcome] += probability
        while script and not script[-1][1]:
            script.pop()
        if not script:
            return outcomes
        _, (row, *others) = script.pop()
        script.append((row, others))


def total_variation(one: Distribution, other: Distribution) -> float:
    return sum(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in one.keys() | other.keys()) / 2
