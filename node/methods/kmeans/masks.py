"""Masks over 𝔽_p: key streams that cancel in the sum (algorithm 2: the zᵢ).

A stream is AES-256 in counter mode as in ``node.masking.prg``, its 64-bit words cut to 61 bits; the word p, one in 2⁶¹,
is passed over. So every element is uniform on 𝔽_p, and whoever lacks the keys sees uniform noise.
"""

from collections.abc import Iterable

import numpy as np

from fedgrove.node.masking.prg import keystream
from fedgrove.node.methods.kmeans import field


def stream(key: bytes, count: int) -> np.ndarray:
    """The first ``count`` elements under a key that serves once: uint64 array."""
    cipher = keystream(key)
    found = np.empty(0, field.ELEMENT)
    while len(found) < count:
        words = np.frombuffer(cipher.update(bytes(field.ELEMENT.itemsize * (count - len(found)))), field.ELEMENT)
        words = words & np.uint64(field.PRIME)
        found = np.concatenate([found, words[words != field.PRIME]])
    return found


def apply_masks(elements: np.ndarray, add: Iterable[bytes] = (), subtract: Iterable[bytes] = ()) -> np.ndarray:
    """Lay the streams of some keys over a vector and take those of others off it, in any order."""
    for key in add:
        elements = field.add(elements, stream(key, len(elements)))
    for key in subtract:
        elements = field.subtract(elements, stream(key, len(elements)))
    return elements
