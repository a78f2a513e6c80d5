"""Metrics as words behind a model's, and back. Integers, so that a sum under masks is exact, whatever its order.

Numbers of samples, all or of one kind, take a word each. Any other sum is a fixed-point number of 24 fractional
bits, shifted so that it is not negative, in three words of 16 bits each, lowest first. The sums of up to 65,535 clients
do not overflow a word.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fedgrove.common.errors import InvalidContent
from fedgrove.common.wire import Table
from fedgrove.node.learning.settings import is_count
from fedgrove.node.masking.ring import WORD

UNIT = 2.0**-24
"""Of every sum that is no count."""
MOST_CLIENTS = 65_535
STOP = (1 << 47) - 1
"""Where a member's sum that is no count ends, in units: 2²³; it may have been larger."""

_LIMBS, _LIMB_BITS = 3, 16
_LIMB = (1 << _LIMB_BITS) - 1
_SHIFT = STOP + 1


class MetricSums(Table, frozen=True):
    """Metrics of one model, summed over samples.

    Attributes
    ----------
    samples : int
        How many.
    sums : dict of str to int
        By name: counts as they are, all others in units of 2⁻²⁴.
    """

    samples: int
    sums: dict[str, int]

    @classmethod
    def measured(cls, samples: int, totals: Mapping[str, float]) -> "MetricSums":
        """A member's own, of sums as it measured them; what lies beyond ±2²³, or is no number, ends there."""
        return cls(samples, {name: round(value) if is_count(name) else _units(value) for name, value in totals.items()})


def words_for(names: Sequence[str]) -> int:
    """How many words the number of samples and the sums of these names take."""
    return 1 + sum(_width(name) for name in names)


def limits_of(names: Sequence[str], samples: int) -> tuple[int, ...]:
    """The largest value of each word of a member that has at most this many samples."""
    return (samples, *(limit for name in names for limit in ([samples] if is_count(name) else [_LIMB] * _LIMBS)))


def to_words(metrics: MetricSums, names: Sequence[str]) -> np.ndarray:
    """A member's metrics as words: uint32 array of shape (words_for(names),)."""
    words = [metrics.samples]
    for name in names:
        words += [metrics.sums[name]] if is_count(name) else _split(metrics.sums[name] + _SHIFT)
    return np.array(words, WORD)


def from_words(words: np.ndarray, names: Sequence[str], clients: int) -> MetricSums:
    """Decode the metrics in the sum of the words of ``clients`` clients.

    Raises InvalidContent: a word is larger than these clients can have made it.
    """
    left = iter(words.tolist())
    samples = next(left)
    return MetricSums(samples, {name: next(left) if is_count(name) else _joined(left, name, clients) for name in names})


def _width(name: str) -> int:
    return 1 if is_count(name) else _LIMBS


def _units(value: float) -> int:
    most = STOP * UNIT
    return round(min(max(value, -most), most) / UNIT) if not math.isnan(value) else STOP


def _split(shifted: int) -> list[int]:
    return [(shifted >> (_LIMB_BITS * place)) & _LIMB for place in range(_LIMBS)]


def _joined(words: Iterator[int], name: str, clients: int) -> int:
    limbs = [next(words) for _ in range(_LIMBS)]
    if max(limbs) > clients * _LIMB:
        raise InvalidContent(f"a word of {name} is {max(limbs)}, but at most {clients * _LIMB} are possible")
    return sum(limb << (_LIMB_BITS * place) for place, limb in enumerate(limbs)) - clients * _SHIFT
