"""Sketches of a member's masks, and the commitments to them that it publishes with its voucher.

For a mask with key s the integers are w = S·PRG(s), each in [0, 2³²), and the commitment is Σ w_l·W_l + ρ·H, where ρ
follows from s and the seed of S. So both ends of a pair publish the same 33 bytes, and whoever learns s can recompute
them. As ρ comes from s, the commitments hide w only as long as nobody can compute HKDF without s.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fedgrove.common.curve import ORDER, Point
from fedgrove.node.masking.bounds.group import commit
from fedgrove.node.masking.bounds.sketch import Sketch
from fedgrove.node.masking.keys import derive
from fedgrove.node.masking.prg import MaskKey

_EDGE, _SELF = b"fedgrove edge blinding 1", b"fedgrove self blinding 1"
_WIDE_BYTES = 48  # 128 bits more than the order has, so that the remainder is uniform


@dataclass(frozen=True)
class SketchedMask:
    """What the sketch makes of a mask.

    Attributes
    ----------
    values : uint32 array of shape (K,)
        w.
    blinding : int
        ρ, below the order of the group.
    """

    values: np.ndarray = field(repr=False)
    blinding: int = field(repr=False)

    @cached_property
    def commitment(self) -> Point:
        """W of a pair's mask, B of a self-mask; not computed in constant time."""
        return commit(self.values, self.blinding)


def sketched_masks(sketch: Sketch, keys: Sequence[MaskKey]) -> list[SketchedMask]:
    """Sketch masks that cover every word, in the order of their keys; whether one is subtracted changes nothing."""
    values = sketch.of_streams([each.key for each in keys])
    return [SketchedMask(own, blinding_of(sketch.seed, each)) for own, each in zip(values, keys, strict=True)]


def blinding_of(seed: bytes, key: MaskKey) -> int:
    """ρ of a mask under the sketch with this seed: HKDF of the mask's key, modulo the order of the group."""
    label = _SELF if key.pair is None else _EDGE
    return int.from_bytes(derive(key.key, label + seed, length=_WIDE_BYTES)) % ORDER
