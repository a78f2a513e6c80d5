"""What a transaction offers for gas: a tip like those that recent blocks took, and a small one where they have room."""

from dataclasses import dataclass
from statistics import fmean, median_low

BLOCKS, PERCENTILE = 20, 50
"""How many recent blocks are looked at, and which of their transactions, in order of their tips."""

FULL = 0.9
QUIET_SHARE = 10


@dataclass(frozen=True, slots=True)
class FeeHistory:
    """Fees of recent blocks, as a node states them.

    Attributes
    ----------
    base : int
        Base fee of the next block, in wei a unit of gas.
    used : tuple of float
        Share of its gas limit that each block used.
    tips : tuple of int
        Median tip in each of these blocks, weighted by gas, in wei a unit; 0 where a block has no transaction.
    suggested : int
        The node's own suggestion, in wei a unit; 0 for none.
    """

    base: int
    used: tuple[float, ...] = ()
    tips: tuple[int, ...] = ()
    suggested: int = 0

    @property
    def taken(self) -> int:
        """The median tip of blocks with transactions; the node's suggestion, or a small one, where there are none."""
        tips = [tip for tip, used in zip(self.tips, self.used, strict=True) if used > 0]
        return median_low(tips) if tips else self.suggested or self.base // QUIET_SHARE

    @property
    def tip(self) -> int:
        """What to offer first: as blocks with room take any tip, at most a tenth of the base fee there; never zero."""
        has_room = not self.used or fmean(self.used) < FULL
        return max(1, min(self.taken, self.base // QUIET_SHARE) if has_room else self.taken)

    @property
    def urgent_tip(self) -> int:
        """What to offer after a transaction was left out of a block, or refused."""
        return max(self.tip, self.taken, self.suggested)
