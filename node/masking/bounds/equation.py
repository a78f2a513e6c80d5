"""The equation that ties the opened sum of a round to what its members proved.

L are the members that are summed, Q the sum of their updates with all masks off; ŷᵢ, Bᵢ and Wᵢⱼ are what the voucher of
i says. The outer masks of i are its self-mask and its masks with partners outside L: Σ yᵢ over L still wears them. Ωᵢ
is the sum of their sketches, as integers, ωᵢ that of their blindings, Ω and ω the sums over L. Then

(words)         S·Q ≡ Σ ŷᵢ − Ω  (mod 2³²)
(commitments)   Σ Bᵢ + Σ σᵢⱼ·Wᵢⱼ = Com(Ω; ω)    over i in L, j outside, σᵢⱼ = 1 for i < j and −1 for i > j

Masks within L cancel in both. If both hold, the colluders' updates add up to what they proved, whatever they said of
single masks. Where groups are summed apart, each has its own equation.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedgrove.common.curve import ORDER, Point, sum_of
from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.bounds.edges import SketchedMask, blinding_of, sketched_masks
from fedgrove.node.masking.bounds.group import commit
from fedgrove.node.masking.bounds.sketch import Sketch
from fedgrove.node.masking.prg import MaskKey
from fedgrove.node.masking.ring import WORD

_LARGEST_WORD = (1 << 32) - 1
_MOST_MASKS = 1 << 30  # with more, a word of Ω could leave int64
_INTEGER = np.dtype("<i8")


@dataclass(frozen=True)
class OuterMasks:
    """Outer masks of a member, or of several: Ω and ω.

    Attributes
    ----------
    values : int64 array of shape (K,)
        Ω.
    blinding : int
        ω, below the order of the group.
    masks : int
        How many masks these are.
    """

    values: np.ndarray = field(repr=False)
    blinding: int = field(repr=False)
    masks: int

    @classmethod
    def of(cls, keys: Sequence[MaskKey], masks: Sequence[SketchedMask]) -> "OuterMasks":
        """Add up masks whose sketches are known: ``keys`` says which of them the member subtracts."""
        _check_count(len(keys))
        values = np.zeros(len(masks[0].values), np.int64)
        for key, mask in zip(keys, masks, strict=True):
            operation = np.subtract if key.subtract else np.add
            operation(values, mask.values, out=values)
        blinding = sum(-mask.blinding if key.subtract else mask.blinding for key, mask in zip(keys, masks, strict=True))
        return cls(values, blinding % ORDER, len(keys))

    @classmethod
    def recomputed(cls, sketch: Sketch, keys: Sequence[MaskKey]) -> "OuterMasks":
        """As ``of``, from the keys alone: a sketch for each mask."""
        return cls.of(keys, sketched_masks(sketch, keys))

    @classmethod
    def parse(cls, data: bytes, sketch: Sketch, keys: Sequence[MaskKey]) -> "OuterMasks":
        """Read Ω as somebody states it, for masks whose keys are open, without a sketch of any.

        Whether it is the right one is for ``commitments_agree``. Integers that these masks cannot add up to are
        refused: commitments fix Ω modulo the order of the group alone, so that a larger integer with the same
        commitment would be another number modulo 2³².

        Raises InvalidContent.
        """
        _check_count(len(keys))
        if len(data) != outer_bytes(sketch):
            raise InvalidContent(f"the sketch of the outer masks has {len(data)} bytes, not {outer_bytes(sketch)}")
        values = np.frombuffer(data, _INTEGER).astype(np.int64)
        subtracted = sum(key.subtract for key in keys)
        most, least = _LARGEST_WORD * (len(keys) - subtracted), -_LARGEST_WORD * subtracted
        if values.max(initial=0) > most or values.min(initial=0) < least:
            raise InvalidContent("the sketch of the outer masks has a word that these masks cannot add up to")
        blindings = (-blinding_of(sketch.seed, key) if key.subtract else blinding_of(sketch.seed, key) for key in keys)
        return cls(values, sum(blindings) % ORDER, len(keys))

    def to_bytes(self) -> bytes:
        """Ω: K integers of 8 bytes, little-endian, in two's complement."""
        return self.values.astype(_INTEGER).tobytes()


@dataclass(frozen=True)
class Vouched:
    """What the equation needs of a member's voucher.

    Attributes
    ----------
    upload : uint32 array of shape (K,)
        ŷ = S·y.
    own : Point
        B: commitment to the self-mask's sketch.
    pairs : mapping of int to Point
        W by the partner's position, for all partners that the member masked with.
    """

    upload: np.ndarray = field(repr=False)
    own: Point
    pairs: Mapping[int, Point]


def total_of(parts: Iterable[OuterMasks]) -> OuterMasks:
    """The outer masks of all members, of at least one, from those of each."""
    listed = list(parts)
    count = sum(part.masks for part in listed)
    _check_count(count)
    values = np.array([part.values for part in listed], np.int64).sum(axis=0)
    return OuterMasks(values, sum(part.blinding for part in listed) % ORDER, count)


def worn(left: Iterable[MaskKey]) -> list[MaskKey]:
    """The masks that a sum wears, from the masks that ``aggregate.left_over`` lists to take them off."""
    return [replace(key, subtract=not key.subtract) for key in left]


def equation_holds(summed: Mapping[int, Vouched], sketch_of_sum: np.ndarray, outer: OuterMasks) -> bool:
    """Whether words and commitments both agree.

    Parameters
    ----------
    summed : mapping of int to Vouched
        By position, for all members of L.
    sketch_of_sum : uint32 array of shape (K,)
        S·Q.
    outer : OuterMasks
        Of all members of L.
    """
    uploads = [vouched.upload for vouched in summed.values()]
    return words_agree(uploads, sketch_of_sum, outer) and commitments_agree(summed, summed, outer)


def words_agree(uploads: Iterable[np.ndarray], sketch_of_sum: np.ndarray, outer: OuterMasks) -> bool:
    """S·Q ≡ Σ ŷ − Ω (mod 2³²)."""
    expected = -outer.values.astype(WORD)
    for upload in uploads:
        expected += upload
    return np.array_equal(expected, sketch_of_sum)


def commitments_agree(members: Mapping[int, Vouched], summed: Collection[int], outer: OuterMasks) -> bool:
    """Σ B + Σ σ·W = Com(Ω; ω), over some members of L or all.

    Parameters
    ----------
    members : mapping of int to Vouched
        By position.
    summed : collection of int
        L.
    outer : OuterMasks
        Of these members.
    """
    points = [vouched.own for vouched in members.values()]
    for position, partner in outer_pairs({position: each.pairs for position, each in members.items()}, summed):
        stated = members[position].pairs[partner]
        points.append(stated if position < partner else -stated)
    return sum_of(points) == commit(outer.values, outer.blinding)


def outer_pairs(partners: Mapping[int, Collection[int]], summed: Collection[int]) -> Iterator[tuple[int, int]]:
    """Pairs (member, partner outside L), ascending, whose masks the sum over L still wears.

    Parameters
    ----------
    partners : mapping of int to collection of int
        For each member the partners that it masked with.
    summed : collection of int
        L.
    """
    for position in sorted(partners):
        for partner in sorted(partners[position]):
            if partner not in summed:
                yield position, partner


def outer_bytes(sketch: Sketch) -> int:
    """How many bytes Ω has."""
    return sketch.width * _INTEGER.itemsize


def _check_count(masks: int) -> None:
    if masks > _MOST_MASKS:
        raise ValueError(f"{masks} outer masks are more than {_MOST_MASKS}")
