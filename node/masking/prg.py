"""Key streams: AES-256 in counter mode (NIST SP 800-38A, section 6.5), added to and subtracted from a vector.

The counter block starts at zero. That is safe because no key serves twice: a pair's seed depends on the round and on
two keys made for it, a self-mask seed is drawn for one round.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from fedgrove.node.masking.ring import WORD

Spans = tuple[tuple[int, int], ...]
"""Half-open ranges of parameters, ascending and disjoint."""

CHUNK = 1 << 15  # parameters at a time: vector, key stream and zeros stay in the L2 cache
_OPEN_STREAMS = 256  # ciphers in use at once, so that memory does not grow with the number of masks
_BLOCK = 16


@dataclass(frozen=True)
class MaskKey:
    """The key of a mask, whatever it is laid over.

    Attributes
    ----------
    key : bytes
        32 bytes, for AES-256.
    subtract : bool
        Whether the stream is subtracted rather than added.
    pair : tuple of int, optional
        Positions of the two who have it; None for a self-mask.
    """

    key: bytes = field(repr=False)
    subtract: bool
    pair: tuple[int, int] | None = None


@dataclass(frozen=True)
class Mask:
    """A key stream to be laid over a vector.

    Attributes
    ----------
    key : bytes
        32 bytes, for AES-256.
    subtract : bool
        Whether the stream is subtracted rather than added.
    spans : Spans
        The parameters it covers; the stream runs over them without a gap.
    """

    key: bytes = field(repr=False)
    subtract: bool
    spans: Spans


def keystream(key: bytes, counter: bytes = bytes(_BLOCK)) -> CipherContext:
    """AES-CTR under ``key``; encrypting zeros gives the key stream."""
    return Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()


def apply_masks(words: np.ndarray, masks: Iterable[Mask]) -> None:
    """Add or subtract each mask in place, modulo 2³².

    Parameters
    ----------
    words : uint32 array, little-endian, one-dimensional and contiguous
        Changed in place.
    masks : iterable of Mask
        In any order; the result does not depend on it.
    """
    scratch = bytearray(CHUNK * WORD.itemsize + _BLOCK - 1)  # the cipher asks for room for one more block
    zeros = memoryview(bytes(CHUNK * WORD.itemsize))
    for group in _groups(masks):
        streams = [keystream(mask.key) for mask in group]
        for start in range(0, len(words), CHUNK):
            stop = min(start + CHUNK, len(words))
            for mask, stream in zip(group, streams, strict=True):
                operation = np.subtract if mask.subtract else np.add
                for first, end in _overlap(mask.spans, start, stop):
                    part = words[first:end]
                    stream.update_into(zeros[: part.nbytes], scratch)
                    operation(part, np.frombuffer(scratch, WORD, len(part)), out=part)


def _overlap(spans: Spans, start: int, stop: int) -> Iterator[tuple[int, int]]:
    for first, end in spans:
        first, end = max(first, start), min(end, stop)
        if first < end:
            yield first, end


def _groups(masks: Iterable[Mask]) -> Iterator[list[Mask]]:
    group: list[Mask] = []
    for mask in masks:
        group.append(mask)
        if len(group) == _OPEN_STREAMS:
            yield group
            group = []
    if group:
        yield group
