"""Settings of a clustering federation."""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from msgspec import Meta

from fedgrove.common.settings import Settings
from fedgrove.node.methods.kmeans.clustering import most_points
from fedgrove.node.methods.kmeans.code import MAX_LIMIT, REDUNDANT
from fedgrove.node.methods.kmeans.field import ELEMENT
from fedgrove.node.methods.kmeans.grid import BinGrid

MAX_K = 1_000
MAX_DIMENSIONS = 4_096


@dataclass(frozen=True)
class KMeansSettings(Settings):
    """The terms of federated K-means.

    Attributes
    ----------
    k : int
        K, clusters at the server and centroids at each client.
    dimensions : int
        d, coordinates of a point.
    step : float
        γ, the width of a bin in each dimension; the seed takes 1/√n for n points.
    bound : float
        Points lie in the cube from −bound to bound.
    iterations : int
        Lloyd's, at each client after its seeding; 0: centroids are data points (algorithm 1).
    restarts : int
        Seedings that the server tries.
    least_share : float
        In each sum a client seeds from a random part of its points. The share is drawn uniformly from this to 1, so
        that nobody knows how many points the client's counts add up to; 1 takes all of them (algorithm 1).
    smallest_group : int
        After a sum that could not be decoded, members are summed in groups; none is smaller than this. With fewer than
        twice as many members, sums are never divided.
    gather_blocks : int
        Fewest blocks between the first request and the round for it, and between two sums. Each sum shows other points
        of every member, so this bounds how fast they are shown.
    retry_blocks : int
        While somebody who is away is waited for, another round is opened this many blocks after the last one; twice as
        many each time that it failed.
    """

    k: Annotated[int, Meta(ge=1, le=MAX_K)]
    dimensions: Annotated[int, Meta(ge=1, le=MAX_DIMENSIONS)]
    step: Annotated[float, Meta(ge=1e-6, le=1e6)]
    bound: Annotated[float, Meta(gt=0, le=1e6)] = 1.0
    iterations: Annotated[int, Meta(ge=0, le=1_000)] = 0
    restarts: Annotated[int, Meta(ge=1, le=1_000)] = 20
    least_share: Annotated[float, Meta(ge=0.1, le=1)] = 0.5
    smallest_group: Annotated[int, Meta(ge=3, le=1 << 16)] = 16
    gather_blocks: Annotated[int, Meta(ge=1, le=1 << 20)] = 100
    retry_blocks: Annotated[int, Meta(ge=1, le=1 << 20)] = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.most_points > 0, "step", "larger: a grid this fine cannot be clustered exactly")

    @cached_property
    def grid(self) -> BinGrid:
        """The bins."""
        return BinGrid.covering(self.dimensions, self.step, self.bound)

    @property
    def most_points(self) -> int:
        """Points that a sum may count, wherever in the grid they lie, to be clustered exactly."""
        return min(MAX_LIMIT, most_points(self.dimensions, self.grid.half))

    def largest_upload(self, clients: int) -> int:
        """Bytes of an upload in a round that sums this many clients."""
        capacity = self.k * clients
        pieces = self.grid.piece_count if self.grid.piece_count > 1 else 0
        return ELEMENT.itemsize * (2 * capacity + REDUNDANT + pieces * capacity)
