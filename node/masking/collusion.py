"""The chance that all partners of some honest client collude (spec 02, threat model).

Of n clients, m = ⌊γ·n⌋ collude with the coordinator, any m alike. The tree's leaves are in an order that nobody can
choose, so a client with d partners is honest while all of them collude with probability

    P(d) = (n − m)/n · Π_{i<d} (m − i)/(n − 1 − i),

and by the union bound some honest client is so exposed with probability at most min(1, Σ_clients P(d)). Such a client's
update is hidden from the coordinator by its self-mask only, which comes off when it survives. Partners that drop out
protect nobody either: with a share δ of clients dropping out, read the row of γ + δ instead of γ.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from node.masking.graph import random_regular

SIZES = (8, 16, 32, 64, 100, 256, 1_000, 10_000)
FRACTIONS = (0.05, 0.10, 0.20, 0.33)
EXTRAS = (0, 8, 16)

Adjacency = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Exposure:
    """One cell of the table: the bound for n clients, a fraction of which collude, with added partners."""

    clients: int
    fraction: float
    extra_partners: int
    fewest_partners: int
    probability: float


def client_exposure(n: int, colluders: int, degree: int) -> float:
    """P(d): a given client is honest and all of its ``degree`` partners collude."""
    probability = (n - colluders) / n
    for i in range(degree):
        probability *= max(colluders - i, 0) / (n - 1 - i)
    return probability


def exposure_bound(degrees: Sequence[int], fraction: float) -> float:
    """Upper bound on the probability that some honest client's partners all collude, for clients of these degrees."""
    n = len(degrees)
    colluders = int(fraction * n)
    kinds, counts = np.unique(np.asarray(degrees), return_counts=True)
    expected = sum(
        count * client_exposure(n, colluders, degree)
        for degree, count in zip(kinds.tolist(), counts.tolist(), strict=True)
    )
    return min(1.0, expected)


def simulated_exposure(neighbours: Adjacency, fraction: float, trials: int, generator: np.random.Generator) -> float:
    """The same probability by drawing the colluders ``trials`` times; checks the bound."""
    n = len(neighbours)
    colluders = int(fraction * n)
    exposed = 0
    for _ in range(trials):
        bad = set(generator.choice(n, colluders, replace=False).tolist())
        exposed += any(bad.issuperset(own) for position, own in enumerate(neighbours) if position not in bad)
    return exposed / trials


def collusion_table(
    partners: Callable[[int], Adjacency],
    sizes: Sequence[int] = SIZES,
    fractions: Sequence[float] = FRACTIONS,
    extras: Sequence[int] = EXTRAS,
) -> list[Exposure]:
    """The table of the threat model.

    Parameters
    ----------
    partners : callable
        Number of clients to the partners of each position in the cooperation tree.
    extras : sequence of int
        Settings of ``masking.extra_partners``.
    """
    rows = []
    for n in sizes:
        tree = partners(n)
        for extra in extras:
            added = random_regular(n, extra, b"collusion table")
            degrees = [len({*own, *more}) for own, more in zip(tree, added, strict=True)]
            rows += [Exposure(n, f, extra, min(degrees), exposure_bound(degrees, f)) for f in fractions]
    return rows
