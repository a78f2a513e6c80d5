"""Clusters as a weighted set cover (Xu et al. 2025, algorithm 2): every client in at least one, many in several.

Costs are quotients of whole numbers and compared as quotients, so everybody finds the same clusters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fedgrove.node.methods.procfl.similarity import Similarity

MAX_OPTIMUM = 20
"""The most candidates whose best combination is sought."""


@dataclass(frozen=True)
class Candidate:
    """A set of clients that may become a cluster.

    Attributes
    ----------
    members : tuple of int
        Ascending.
    cost : Fraction
        c(Sₙ) = 1 / Σ_{j∈Sₙ} ISMₙ[j].
    """

    members: tuple[int, ...]
    cost: Fraction


def as_threshold(alpha: float) -> Fraction:
    """α as the decimal number that was written down: 0.3 is 3/10."""
    return Fraction(str(alpha))


def candidates(similarity: Similarity, alpha: float) -> tuple[Candidate, ...]:
    """Sₙ = {m : ISMₙ[m] ≥ α} for every client n, each set once (algorithm 2, lines 1 to 13).

    Clients with the same set may give it different costs; the least counts.
    """
    chosen = similarity.at_least(as_threshold(alpha))
    costs: dict[tuple[int, ...], Fraction] = {}
    for size, overlaps, inside in zip(similarity.sizes.tolist(), similarity.overlaps, chosen, strict=True):
        members = tuple(np.flatnonzero(inside).tolist())
        cost = Fraction(size, int(overlaps[inside].sum()))
        costs[members] = min(cost, costs.get(members, cost))
    return tuple(Candidate(members, cost) for members, cost in costs.items())


def greedy_cover(found: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Take the candidate with the least payload c(S)/|S ∖ I| until all are covered (algorithm 2, lines 14 to 21).

    Of equal payloads the first in ``found`` is taken. The cost is at most H(largest set) times the least possible, H(k)
    = 1 + 1/2 + … + 1/k (Chvátal 1979).

    Returns
    -------
    tuple of Candidate
        In the order in which they were taken.
    """
    left = {client for candidate in found for client in candidate.members}
    taken: list[Candidate] = []
    while left:
        open_ones = [candidate for candidate in found if not left.isdisjoint(candidate.members)]
        best = min(open_ones, key=lambda candidate: candidate.cost / len(left.intersection(candidate.members)))
        taken.append(best)
        left.difference_update(best.members)
    return tuple(taken)


def best_cover(found: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The cheapest cover, by trying all combinations of at most ``MAX_OPTIMUM`` candidates.

    Returns
    -------
    tuple of Candidate
        In the order of ``found``.

    Raises
    ------
    ValueError
        There are too many candidates.
    """
    if len(found) > MAX_OPTIMUM:
        raise ValueError(f"the optimal cover is computed for at most {MAX_OPTIMUM} candidates, not {len(found)}")
    clients = sorted({client for candidate in found for client in candidate.members})
    masks = np.packbits([np.isin(clients, candidate.members) for candidate in found], axis=1)
    covered, cost = np.zeros((1, masks.shape[1]), np.uint8), np.zeros(1)
    # Combination i holds candidate k where bit k of i is set.
    for candidate, mask in zip(found, masks, strict=True):
        covered = np.concatenate([covered, covered | mask])
        cost = np.concatenate([cost, cost + float(candidate.cost)])
    full = (covered == np.bitwise_or.reduce(masks)).all(axis=1)
    best = int(np.flatnonzero(full)[np.argmin(cost[full])])
    return tuple(candidate for place, candidate in enumerate(found) if best >> place & 1)


def total_cost(cover: Sequence[Candidate]) -> Fraction:
    """Σ c(S) over a cover."""
    return sum((candidate.cost for candidate in cover), Fraction(0))
