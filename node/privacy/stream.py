"""Random words for whole vectors, from one key."""

import numpy as np
from numpy.typing import DTypeLike

from fedgrove.node.masking.keys import Random
from fedgrove.node.masking.prg import keystream

MAX_BYTES = 3 << 17
"""Most that one call may take."""

_BLOCK = 16


class Stream:
    """An AES-256-CTR key stream under a key that is drawn for it, as numpy arrays.

    Words that were taken before are encrypted in place of zeros, which would have to be fetched: random words too, as
    each byte has a new one of the key stream in it.
    """

    def __init__(self, random: Random) -> None:
        self._cipher = keystream(random(32))
        self._scratch = memoryview(bytearray(MAX_BYTES + _BLOCK - 1))  # the cipher asks for room for one more block

    def take(self, count: int, dtype: DTypeLike) -> np.ndarray:
        """The next ``count`` uniform words, at most ``MAX_BYTES``; the array is overwritten by the next call."""
        words = np.dtype(dtype)
        size = count * words.itemsize
        self._cipher.update_into(self._scratch[:size], self._scratch)
        return np.frombuffer(self._scratch, words, count)

    def integer(self, bits: int) -> int:
        """A uniform integer with this many bits, a multiple of 8."""
        return int.from_bytes(self.take(bits // 8, np.uint8).tobytes())
