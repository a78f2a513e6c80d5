"""A client's vector for one sum: a fresh seeding of a random part of its points.

Every sum is the training of a new federation: nothing in it repeats what its client sent before. So the difference of
two sums holds the vectors of all members, old and new, and never that of one. And a vector is a function of the points
that are left and of fresh randomness, so forgetting is exact whatever was seeded before.

The part is random so that no one, not even the client's best neighbour, knows what its counts add up to. Else they
could be found in the sum: with 1,000 points a client, two centroids each and ten clients, only one pair of all bins had
the right sum (docs/unlearning.md).
"""

import numpy as np

from fedgrove.node.methods.kmeans.client import KMeansClient
from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.grid import BinGrid
from fedgrove.node.methods.kmeans.settings import KMeansSettings

_FEWEST = 64


def thinned(count: int, least_share: float, rng: np.random.Generator) -> np.ndarray:
    """A random part of ``count`` rows, ascending: each is in it with a probability drawn from ``least_share`` to 1."""
    if least_share == 1:
        return np.arange(count)
    return np.flatnonzero(rng.random(count) < rng.uniform(least_share, 1))


def draw_client(
    points: np.ndarray,
    k: int,
    grid: BinGrid,
    rng: np.random.Generator,
    *,
    least_share: float,
    iterations: int = 0,
) -> tuple[KMeansClient, np.ndarray]:
    """Seed a random part of a client's points; also which rows of ``points`` they are.

    Raises InvalidInput: a coordinate is outside the grid.
    """
    rows = thinned(len(points), least_share, rng)
    return KMeansClient(points[rows], k, grid, rng, iterations=iterations), rows


def draw_vector(points: np.ndarray, settings: KMeansSettings, rng: np.random.Generator) -> BinCounts:
    """A vector for one sum, independent of all others; ``points`` is a float array of shape (n, d), all there are."""
    share, iterations = settings.least_share, settings.iterations
    client, _ = draw_client(points, settings.k, settings.grid, rng, least_share=share, iterations=iterations)
    return client.vector()


def stated_bound(points: int) -> int:
    """A client's statement of its number of points, rounded up to a power of two from 64 on.

    A sum may count no more than its members state. The number itself would help to find a client's counts in it.
    """
    return max(_FEWEST, 1 << (points - 1).bit_length())
