"""The chance that all partners of some honest client collude, and what colluders gain by each other's order.

Of n clients, m = ⌊γn⌋ collude with the coordinator. The order of the leaves is drawn after everybody has drawn, so the
d partners of a client are a uniformly random set: an honest client has colluders for partners only with probability

    P(d) = C(m, d) / C(n − 1, d),

and by the union bound some honest client does with probability at most min(1, (n − m) · P(d)). Whoever makes the block
that orders the leaves can try T orders: the bound is T times as large. That client's update is hidden from the
coordinator by its self-mask only, which comes off when it survives. Partners that drop out protect nobody either, so
``node.masking.parameters`` counts them as colluders.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

from fedgrove.node.masking.graph import random_regular
from fedgrove.node.masking.parameters import PPM, Assumed, partners_of_all, sharing

SIZES = (8, 16, 32, 64, 100, 256, 1_000, 10_000)
FRACTIONS = (0.05, 0.10, 0.20, 0.33)
TRIES = 2**40
"""Orders that a maker of blocks is granted: hashing them all takes a hundred graphics cards a day or so."""

Adjacency = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Exposure:
    """A row of the threat model: a round of n clients by the default terms.

    Attributes
    ----------
    partners, holders, threshold : int
        Of each client.
    bounds : tuple of float
        For each fraction of colluders: bound on the chance that somebody is exposed to one that tries ``TRIES`` orders.
    views : int
        This many colluders among a client's holders gain nothing even if they show others different lists of survivors.
    """

    clients: int
    partners: int
    holders: int
    threshold: int
    bounds: tuple[float, ...]
    views: int


def exposure_bound(n: int, colluders: int, degree: int, tries: int = 1) -> float:
    """Upper bound on the chance that all ``degree`` partners of some honest client collude."""
    if degree > colluders:
        return 0.0
    return min(1.0, tries * (n - colluders) * (comb(colluders, degree) / comb(n - 1, degree)))


def exposed(neighbours: Adjacency, colluders: frozenset[int]) -> list[int]:
    """Honest positions all of whose partners collude."""
    return [
        position
        for position, own in enumerate(neighbours)
        if position not in colluders and own and colluders.issuperset(own)
    ]


def simulated_exposure(n: int, colluders: int, degree: int, trials: int, generator: np.random.Generator) -> float:
    """Share of trials in which somebody is exposed, in a fresh random order each; checks the bound."""
    hits = 0
    for _ in range(trials):
        neighbours = random_regular(n, degree, generator.bytes(32))
        bad = frozenset(generator.choice(n, colluders, replace=False).tolist())
        hits += bool(exposed(neighbours, bad))
    return hits / trials


def exposure_table(
    sizes: Sequence[int] = SIZES, fractions: Sequence[float] = FRACTIONS, assumed: Assumed | None = None
) -> list[Exposure]:
    """The table of the threat model."""
    assumed = assumed or Assumed()
    rows: list[Exposure] = []
    for n in sizes:
        degree, shares = partners_of_all(n, assumed), sharing(n, assumed)
        bounds = tuple(exposure_bound(n, round(f * PPM) * n // PPM, degree, TRIES) for f in fractions)
        views = max(0, 2 * shares.threshold - shares.holders - 1)
        rows.append(Exposure(n, degree, shares.holders, shares.threshold, bounds, views))
    return rows
