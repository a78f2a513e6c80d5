"""The sketch S of a round: a random linear map by which the norm of a hidden update is bounded.

S maps ℤ₂³²^d to ℤ₂³²^k in two stages of signed buckets, as a count sketch does (Charikar, Chen, Farach-Colton 2002):

stage 1   6 rows of 2¹⁴ buckets; each word of the vector falls into one bucket of each row, with a sign
stage 2   16 rows of k/16 buckets over the 6·2¹⁴ words of stage 1, likewise

All choices are uniform and independent. For a fixed vector q of small integers E|S·q|² = 6·16·|q|², so |S·q| ≈ 9.8|q|.
Metric words that follow the vector pass unchanged: they are proven exactly.

Choices come from AES-256 in counter mode. Row r, counted over both stages from 0, reads its stream from counter block
r·2⁶⁴ on, 16 bits, little-endian, for each word: the lowest bits are the bucket, the next is the sign, the others are
not used. So the bytes of a sketch do not depend on how the vector is cut.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from heapq import nlargest
from math import isqrt

import numpy as np

from fedgrove.node.masking.context import RoundContext
from fedgrove.node.masking.prg import keystream
from fedgrove.node.masking.ring import WORD

SEED_BYTES = 32
STRETCHING = 1 << 20
"""Iterations of SHA-256 from a seed to the key of its choices.

The maker of the block that fixes the seed can try blocks; each try costs this many hashes.
"""

FEWEST_WORDS = 256
"""Fewer words scatter |S·q| so much that honest updates at the limit would be refused too often."""

MOST_WORDS = 4096

_ROWS_1, _BUCKETS_1 = 6, 1 << 14
_ROWS_2 = 16
_SQUARED_SCALE = _ROWS_1 * _ROWS_2
_SLACK = Fraction(6, 5)  # an honest |S·q| is above 1.2·√96·|q| with a probability below 10⁻⁴ at 256 words
_TRIES_BITS, _SECURITY_BITS = 40, 40
_WRAPS = 1 << 31

_LABEL = b"fedgrove sketch 1"
_CHOICE = np.dtype("<u2")
_BLOCK = 16
_CHUNK = 1 << 17  # words at a time: what all masks of a batch share stays in the processor's cache
_ZEROS = memoryview(bytes(_CHUNK * WORD.itemsize))
_BATCH = 64  # masks at a time, 0.8 MB of buckets each


@dataclass(frozen=True)
class Sketch:
    """The map S of one round.

    Attributes
    ----------
    seed : bytes
        32 bytes, public, fixed after all uploads are (``sketch_seed``). It is stretched before use.
    length : int
        d: words of the model.
    words : int
        k: 16 times a power of two, at most 4,096.
    metrics : int
        μ: metric words that follow the model's.
    """

    seed: bytes
    length: int
    words: int
    metrics: int = 0

    def __post_init__(self) -> None:
        buckets, rest = divmod(self.words, _ROWS_2)
        if rest or not 0 < self.words <= MOST_WORDS or buckets & (buckets - 1):
            raise ValueError(f"a sketch of {self.words} words is not 16 times a power of two, up to {MOST_WORDS}")
        if len(self.seed) != SEED_BYTES or self.length < 0 or self.metrics < 0:
            raise ValueError(f"a sketch needs a seed of {SEED_BYTES} bytes, and numbers of words that are not negative")

    @property
    def width(self) -> int:
        """K = k + μ: words of a result."""
        return self.words + self.metrics

    def of(self, words: np.ndarray) -> np.ndarray:
        """S of a vector and its metric words.

        Parameters
        ----------
        words : uint32 array of shape (length + metrics,), little-endian

        Returns
        -------
        uint32 array of shape (width,), little-endian
            Linear in ``words`` modulo 2³².
        """
        if words.dtype != WORD or words.shape != (self.length + self.metrics,):
            raise ValueError(f"a sketch of {self.length + self.metrics} words was given {words.dtype} {words.shape}")
        buckets = _empty_buckets(1)
        for start, stop, choices in self._pieces():
            _scatter(buckets[0], choices, words[start:stop])
        return self._finished(buckets, words[None, self.length :])[0]

    def of_streams(self, keys: Sequence[bytes]) -> np.ndarray:
        """S of key streams, each ``length + metrics`` words of ``prg.keystream``, without holding one in memory.

        Parameters
        ----------
        keys : sequence of bytes
            32 bytes each.

        Returns
        -------
        uint32 array of shape (len(keys), width), little-endian
            In the order of the keys.
        """
        found = np.empty((len(keys), self.width), WORD)
        for first in range(0, len(keys), _BATCH):
            batch = keys[first : first + _BATCH]
            found[first : first + len(batch)] = self._of_batch(batch)
        return found

    def _of_batch(self, keys: Sequence[bytes]) -> np.ndarray:
        streams = [_Words(key) for key in keys]
        buckets = _empty_buckets(len(keys))
        for start, stop, choices in self._pieces():
            for own, stream in zip(buckets, streams, strict=True):
                _scatter(own, choices, stream.take(stop - start))
        return self._finished(buckets, np.array([stream.take(self.metrics) for stream in streams], WORD))

    def _pieces(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """Ranges of the vector with the choices of stage 1 for their words: an array of shape (6, words)."""
        streams = [_Words(self._key, row) for row in range(_ROWS_1)]
        for start in range(0, self.length, _CHUNK):
            stop = min(start + _CHUNK, self.length)
            yield start, stop, np.array([stream.choices(stop - start, _BUCKETS_1) for stream in streams])

    def _finished(self, buckets: np.ndarray, metrics: np.ndarray) -> np.ndarray:
        """Stage 2 of buckets of shape (vectors, 6, 2·2¹⁴), and the metric words behind it."""
        middle = _signed(buckets).reshape(len(buckets), -1)
        found = np.zeros((len(buckets), _ROWS_2, 2 * self.words // _ROWS_2), WORD)
        for own, vector in zip(found, middle, strict=True):
            _scatter(own, self._second, vector)
        return np.concatenate([_signed(found).reshape(len(buckets), -1), metrics], axis=1)

    @cached_property
    def _key(self) -> bytes:
        return stretched(self.seed)

    @cached_property
    def _second(self) -> np.ndarray:
        """The choices of stage 2."""
        rows = (_Words(self._key, _ROWS_1 + row) for row in range(_ROWS_2))
        return np.array([row.choices(_ROWS_1 * _BUCKETS_1, self.words // _ROWS_2) for row in rows])


class _Words:
    """A key stream, read on in words."""

    def __init__(self, key: bytes, row: int = 0) -> None:
        self._stream = keystream(key, (row << 64).to_bytes(_BLOCK))
        self._scratch = bytearray(_BLOCK - 1)  # the cipher asks for room for one more block

    def take(self, count: int, dtype: np.dtype = WORD) -> np.ndarray:
        """The next words; they are gone with the next call."""
        size = count * dtype.itemsize
        if len(self._scratch) < size + _BLOCK - 1:
            self._scratch = bytearray(size + _BLOCK - 1)
        self._stream.update_into(_ZEROS[:size], self._scratch)
        return np.frombuffer(self._scratch, dtype, count)

    def choices(self, count: int, buckets: int) -> np.ndarray:
        """Bucket and sign of the next words: int64, the bucket, plus ``buckets`` where the word is subtracted."""
        return (self.take(count, _CHOICE) & (2 * buckets - 1)).astype(np.intp)


def _empty_buckets(vectors: int) -> np.ndarray:
    return np.zeros((vectors, _ROWS_1, 2 * _BUCKETS_1), WORD)


def _scatter(buckets: np.ndarray, choices: np.ndarray, words: np.ndarray) -> None:
    """Add words to their buckets in each row: what is added and what is subtracted stay apart until ``_signed``."""
    for own, chosen in zip(buckets, choices, strict=True):
        np.add.at(own, chosen, words)


def _signed(buckets: np.ndarray) -> np.ndarray:
    half = buckets.shape[-1] // 2
    return buckets[..., :half] - buckets[..., half:]


def sketch_seed(context: RoundContext, block_hash: bytes, commitments: Iterable[bytes]) -> bytes:
    """The seed of a round's sketch, which nobody knows before all uploads are fixed.

    Parameters
    ----------
    block_hash : bytes
        32 bytes, of a block after the last commitment.
    commitments : iterable of bytes
        Digests of all uploads, 32 bytes each, in the order of the ledger.
    """
    state = hashlib.sha256(_LABEL + context.to_bytes())
    for part in (block_hash, *commitments):
        if len(part) != SEED_BYTES:
            raise ValueError(f"a part of the sketch's seed is {len(part)} bytes long, expected {SEED_BYTES}")
        state.update(part)
    return state.digest()


@lru_cache(maxsize=64)
def stretched(seed: bytes) -> bytes:
    """SHA-256, ``STRETCHING`` times over: 32 bytes, in about 0.4 s the first time."""
    for _ in range(STRETCHING):
        seed = hashlib.sha256(seed).digest()
    return seed


def words_needed(colluders: int) -> int:
    """k: the fewest words, a power of two, that are safe from this many colluders.

    Once S is known each colluder may still leave the sum by silence, so colluders have 2^m sums to choose from. Modulo
    2 the rank of S is at most k − 16 (all buckets of a row of stage 2 add up to 0): with more colluders linear algebra
    finds a sum that vanishes. 80 bits more leave 2⁻⁴⁰ to the maker of a block who tries 2⁴⁰ blocks.

    Raises ValueError: no sketch is large enough.
    """
    words = FEWEST_WORDS
    while words - _ROWS_2 < colluders + _TRIES_BITS + _SECURITY_BITS:
        words *= 2
    if words > MOST_WORDS:
        raise ValueError(f"{colluders} colluders need a sketch of more than {MOST_WORDS} words")
    return words


def norm_limit(limit: float, samples: int, total: int, bits: int, length: int) -> int:
    """τ²: the largest |S·q|² with which a member's update passes, in units of the ring.

    Parameters
    ----------
    limit : float
        Largest L2 norm of an update, positive and finite.
    samples, total : int
        nᵢ and N: the update is weighted by nᵢ/N.
    bits : int
        f: fractional bits of the ring.
    length : int
        d: each word may be rounded by half a unit.

    Notes
    -----
    τ = 1.2·√96·(nᵢ/N·2ᶠ·limit + √d/2). An update at the limit is refused with a probability below 10⁻⁴.
    """
    norm = -(-Fraction(limit) * (samples << bits) // total) + isqrt(length) // 2 + 1
    return int(_SQUARED_SCALE * _SLACK**2 * int(norm) ** 2)


def is_unambiguous(norm_limits: Iterable[int], colluders: int) -> bool:
    """Whether the sketches of any ``colluders`` members add up to less than 2³¹, given their τ².

    The equation of the sum holds modulo 2³²: beyond this limit a monster could pass as a small sum of its sketches.
    """
    return sum(isqrt(each) + 1 for each in nlargest(colluders, norm_limits)) < _WRAPS


def largest_norm(bits: int, share: float) -> float:
    """The largest limit on updates' L2 norms with which sketches stay unambiguous, up to their rounding.

    Parameters
    ----------
    bits : int
        f: fractional bits of the ring.
    share : float
        Of the weights, the most that colluders may have; with 1 nothing is assumed about them.
    """
    return _WRAPS / (float(_SLACK) * _SQUARED_SCALE**0.5 * (1 << bits) * share)
