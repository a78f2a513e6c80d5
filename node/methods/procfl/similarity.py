"""The intersection similarity metric: ISMₙ[m] = |χₙ ∩ χₘ| / |χₙ| (Xu et al. 2025, definition 1).

All of it follows from whole numbers, so whoever holds them, an auditor too, computes the same clusters.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations

import numpy as np

from fedgrove.common.errors import InvalidContent


@dataclass(frozen=True)
class Intersection:
    """Result of one comparison of two clients.

    Attributes
    ----------
    left, right : int
        The clients, from 0, left < right.
    left_size, right_size : int
        |χ| of either.
    overlap : int
        |χ_left ∩ χ_right|.
    """

    left: int
    right: int
    left_size: int
    right_size: int
    overlap: int

    def __post_init__(self) -> None:
        if not 0 <= self.overlap <= min(self.left_size, self.right_size):
            raise InvalidContent(
                f"clients {self.left} and {self.right} cannot have {self.overlap} elements in common: "
                f"their sets have {self.left_size} and {self.right_size}"
            )


@dataclass(frozen=True)
class Similarity:
    """The comparisons of all N clients.

    Attributes
    ----------
    overlaps : int64 array of shape (N, N)
        |χₙ ∩ χₘ|; symmetric, with the sizes of the sets on the diagonal.
    """

    overlaps: np.ndarray

    def __post_init__(self) -> None:
        found = self.overlaps
        if found.ndim != 2 or found.shape[0] != found.shape[1] or found.dtype != np.int64:
            raise InvalidContent(f"overlaps must be int64 (clients, clients), not {found.dtype} {found.shape}")
        if (found != found.T).any() or (found < 0).any() or (found > self.sizes[:, None]).any() or not self.sizes.all():
            raise InvalidContent("overlaps must be symmetric, and none may exceed the size of a set")

    @property
    def clients(self) -> int:
        """N."""
        return len(self.overlaps)

    @property
    def sizes(self) -> np.ndarray:
        """|χₙ|, int64 (N,)."""
        return self.overlaps.diagonal()

    @cached_property
    def ism(self) -> np.ndarray:
        """M_sim, float64 (N, N): row n is ISMₙ. Not symmetric."""
        return self.overlaps / self.sizes[:, None]

    def at_least(self, threshold: Fraction) -> np.ndarray:
        """Where ISMₙ[m] ≥ α, bool (N, N), without rounding."""
        least = [math.ceil(threshold * size) for size in self.sizes.tolist()]
        return self.overlaps >= np.array(least)[:, None]


def in_the_clear(counts: np.ndarray) -> Similarity:
    """The metric by its formula Σₗ min(Xₙˡ, Xₘˡ), from everybody's label counts: the oracle of the private protocols.

    Parameters
    ----------
    counts : int64 array of shape (N, classes)
    """
    return Similarity(np.array([np.minimum(own, counts).sum(axis=1) for own in counts], dtype=np.int64))


def pairs(clients: int) -> Iterator[tuple[int, int]]:
    """The N(N − 1)/2 comparisons that serve all directions, in order."""
    return combinations(range(clients), 2)


def assemble(clients: int, intersections: Iterable[Intersection]) -> Similarity:
    """Put all comparisons together.

    Raises InvalidContent: a pair is missing or there twice, or a client compared sets of different sizes.
    """
    overlaps = np.zeros((clients, clients), np.int64)
    missing = set(pairs(clients))
    for found in intersections:
        if (found.left, found.right) not in missing:
            raise InvalidContent(f"the pair {found.left}, {found.right} was not due, or was compared twice")
        missing.remove((found.left, found.right))
        for client, size in ((found.left, found.left_size), (found.right, found.right_size)):
            if overlaps[client, client] not in (0, size):
                raise InvalidContent(
                    f"client {client} compared sets of different sizes, {overlaps[client, client]} and {size}"
                )
            overlaps[client, client] = size
        overlaps[found.left, found.right] = overlaps[found.right, found.left] = found.overlap
    if missing:
        left, right = min(missing)
        raise InvalidContent(f"{len(missing)} comparisons are missing, the first between clients {left} and {right}")
    return Similarity(overlaps)
