"""Label distribution of a cluster: the sum of its members' label shares, with equal weights.

A member that claims more samples than all others would decide alone what its cluster is watched on. So each adds shares
of a fixed total. Under masks a member could still add less than nothing of the labels that others have: what is left of
the sum is then too little for them, and they see it (``contradicts``).
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

SHARE = 1 << 16
"""What the label shares of one member add up to."""


def label_shares(counts: np.ndarray, whole: int = SHARE) -> np.ndarray:
    """A client's samples of each label as parts of a whole, by default of ``SHARE``.

    Parameters
    ----------
    counts : int64 array of shape (classes,)
        Not all zero.

    Returns
    -------
    int64 array of shape (classes,)
        They add up to the whole exactly: what rounding leaves goes to the labels with the largest remainders.
    """
    total = int(counts.sum())
    found, left = np.divmod(counts.astype(np.int64) * whole, total)
    largest = np.argsort(-left, kind="stable")[: whole - int(found.sum())]
    found[largest] += 1
    return found


def is_sum_of_shares(found: Sequence[int], members: int) -> bool:
    """Whether these can be the summed label shares of this many members: none negative, and none missing."""
    return members > 0 and all(share >= 0 for share in found) and sum(found) == members * SHARE


def contradicts(own: Sequence[int], found: Sequence[int], alike: Sequence[Fraction]) -> bool:
    """Whether a sum of label shares cannot have a member's own in it, and those of the others that it is like.

    Σₗ min(sₙˡ, sₘˡ) is at least |χₙ ∩ χₘ| / max(|χₙ|, |χₘ|), both as parts of a whole. So Σₗ min(N·sₙˡ, Sₗ), with S the
    sum, is at least the sum of these over all N members m. Who takes others' labels out of S breaks that.

    Parameters
    ----------
    own, found : sequence of int
        The member's label shares, and the sum.
    alike : sequence of Fraction
        |χₙ ∩ χₘ| / max(|χₙ|, |χₘ|) for each of the N members m, itself included.
    """
    if any(share > total for share, total in zip(own, found, strict=True)):
        return True
    members = len(alike)
    common = sum(min(members * share, total) for share, total in zip(own, found, strict=True))
    rounding = 2 * members * len(own)
    return common + rounding < SHARE * sum(alike)
