"""The table ``[bounds]``: how large an update may be that is summed, and how closely that is looked at.

The curve behind the proofs is not there for every Python, so that nothing of ``masking.bounds`` is imported before
terms ask for it.
"""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from fedgrove.common.settings import Settings
from fedgrove.node.masking.parameters import Assumed
from fedgrove.node.masking.ring import fraction_bits


@dataclass(frozen=True)
class BoundsSettings(Settings):
    """Bounds on hidden updates: whoever sends a larger one cannot prove the contrary, and is not in the sum.

    Attributes
    ----------
    norm : float
        Largest Euclidean norm of an update; a client scales a larger one down to it before it uploads, and its log says
        so.
    width : int
        Words at least of the random sketch in which norms are compared, 0 or a power of two from 256 to 4096; more are
        taken where more of a round's clients may collude (``masking.colluders``).
    """

    norm: Annotated[float, Meta(gt=0, le=1e6)]
    width: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        fine = self.width == 0 or (256 <= self.width <= 4096 and self.width & (self.width - 1) == 0)
        self.require(fine, "width", "0, or a power of two from 256 to 4096")

    def words_of(self, clients: int, assumed: Assumed) -> int:
        """Words of the sketch in a round with this many clients."""
        from fedgrove.node.masking.bounds.sketch import words_needed

        return max(self.width, words_needed(assumed.colluders_of(clients)))


def largest_norm(bound: float) -> float:
    """The largest norm with which sketches of updates in fixed point (``masking.bound``) do not wrap around.

    The weights of a round sum to 1 at most, also those that colluders state; half of what is left is for rounding.
    """
    from fedgrove.node.masking.bounds.sketch import largest_norm as unrounded

    return unrounded(fraction_bits(bound), 1.0) / 2
