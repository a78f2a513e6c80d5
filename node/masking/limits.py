"""What honest uploads can add up to. A sum beyond that holds something else, and must not become a model.

Under masks nobody sees a single upload, but everybody sees the sum, and knows how large each part of it may be. Whoever
exceeds what all could give together is not named by that; the round fails, and the previous model stays in force.
Everything is computed in integers, so that all machines come to the same decision.
"""

from dataclasses import dataclass

import numpy as np

from fedgrove.node.masking.aggregate import InvalidUpdate
from fedgrove.node.masking.ring import WORD

_SIGNED = np.dtype("<i4")
_CHUNK = 1 << 20
_LOWER = np.uint64((1 << 32) - 1)


@dataclass(frozen=True)
class Limits:
    """Of a sum's words, read as signed.

    Attributes
    ----------
    each : int
        Largest absolute value of a word.
    last : int or None
        That of the last word, where it is something else than the words before; None: as ``each``.
    squares : int or None
        Largest sum of the squares of all words that ``each`` is for; None sets no limit.
    """

    each: int
    last: int | None = None
    squares: int | None = None


def check_sum(words: np.ndarray, limits: Limits) -> None:
    """Raise InvalidUpdate, which names nobody, unless honest uploads can add up to this.

    Parameters
    ----------
    words : uint32 array
        A sum modulo 2³², its masks off.
    """
    signed = words.astype(WORD, copy=False).view(_SIGNED)
    body = signed if limits.last is None else signed[:-1]
    _check("a value", _largest(body), limits.each)
    if limits.last is not None:
        _check("the last value", _largest(signed[-1:]), limits.last)
    if limits.squares is not None:
        _check("the square of the length", _squares(body), limits.squares)


def _check(what: str, found: int, limit: int) -> None:
    if found > limit:
        raise InvalidUpdate(
            f"honest uploads cannot add up to this: {what} of the sum is {found} units, but at most "
            f"{limit} are possible",
            0,
        )


def _largest(words: np.ndarray) -> int:
    return max(int(words.max(initial=0)), -int(words.min(initial=0)))


def _squares(words: np.ndarray) -> int:
    """Σ w², exact: a square has 62 bits, so upper and lower halves are summed apart."""
    upper = lower = 0
    for start in range(0, len(words), _CHUNK):
        part = np.square(words[start : start + _CHUNK], dtype=np.int64).view(np.uint64)
        upper += int((part >> np.uint64(32)).sum())
        lower += int((part & _LOWER).sum())
    return (upper << 32) + lower
