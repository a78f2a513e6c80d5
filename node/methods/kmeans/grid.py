"""Uniform quantisation into bins (appendix H), and bins as integers of a field's size.

A coordinate y falls into level a(y) = round(y/γ), ties to even, its bin's centre is γ·a(y). A bin is the vector of its
d levels. In radix B, the number of levels, it is an integer below B^d: 70 bits for d = 10 and n = 12,000, 6,000 bits
for d = 784. ``pieces`` cuts it into integers below 2⁶⁰, each of as many whole digits as fit.
"""

import math
from dataclasses import dataclass

import numpy as np

from fedgrove.common.errors import InvalidInput

PIECE_BITS = 60

LEVEL = np.dtype(np.int32)


@dataclass(frozen=True)
class BinGrid:
    """Bins of equal width that cover a cube centred at the origin.

    Attributes
    ----------
    dimensions : int
        d.
    step : float
        γ, the width of a bin.
    half : int
        Levels run from −half to half.
    """

    dimensions: int
    step: float
    half: int

    def __post_init__(self) -> None:
        if self.dimensions < 1 or self.half < 1 or not 0 < self.step < math.inf:
            raise InvalidInput("a grid needs at least one dimension, a positive step, and a level on either side of 0")
        if self.half >= 1 << 20:
            raise InvalidInput(f"a grid of {self.radix} levels per dimension is too fine; use at most {(1 << 21) - 1}")

    @classmethod
    def covering(cls, dimensions: int, step: float, bound: float = 1.0) -> "BinGrid":
        """The grid of the given step for coordinates within ±bound; the seed's step is 1/√n."""
        return cls(dimensions, step, max(1, round(bound / step)))

    @property
    def radix(self) -> int:
        """B."""
        return 2 * self.half + 1

    @property
    def digits(self) -> int:
        """Levels in a piece."""
        count = 1
        while self.radix ** (count + 1) <= 1 << PIECE_BITS:
            count += 1
        return min(count, self.dimensions)

    @property
    def piece_count(self) -> int:
        return -(-self.dimensions // self.digits)

    def quantise(self, points: np.ndarray) -> np.ndarray:
        """Levels of each point's bin.

        Parameters
        ----------
        points : float array of shape (m, d)

        Returns
        -------
        int32 array of the same shape

        Raises
        ------
        InvalidInput
            A coordinate is not finite or beyond the last level.
        """
        levels = np.rint(np.asarray(points, np.float64) / self.step)
        if not (np.abs(levels) <= self.half).all():  # a NaN fails the comparison
            raise InvalidInput(
                f"a coordinate is outside ±{self.half * self.step:g}, the cube that the grid covers: scale the data"
            )
        return levels.astype(LEVEL)

    def centres(self, levels: np.ndarray) -> np.ndarray:
        """Centres of bins, float64."""
        return levels * self.step

    def pieces(self, levels: np.ndarray) -> np.ndarray:
        """Bins as integers below 2⁶⁰: uint64 array of shape (m, piece_count), the first levels in the first piece."""
        digits = np.zeros((len(levels), self.piece_count * self.digits), np.uint64)
        digits[:, : self.dimensions] = levels + self.half
        weights = np.array([self.radix**place for place in range(self.digits)], np.uint64)
        return (digits.reshape(len(levels), self.piece_count, self.digits) * weights).sum(axis=2, dtype=np.uint64)

    def levels(self, pieces: np.ndarray) -> np.ndarray | None:
        """The bins that ``pieces`` gave, or None if some row is of no bin."""
        radix, rest = np.uint64(self.radix), pieces.copy()
        digits = np.empty((*pieces.shape, self.digits), np.uint64)
        for place in range(self.digits):
            rest, digits[:, :, place] = np.divmod(rest, radix)
        flat = digits.reshape(len(pieces), self.piece_count * self.digits)
        if rest.any() or flat[:, self.dimensions :].any():
            return None
        return flat[:, : self.dimensions].astype(LEVEL) - LEVEL.type(self.half)
