"""SignDS: sign-based dimension selection (Jiang et al. 2022).

A client draws a sign s, takes the k largest (s = +1) or smallest (s = −1) dimensions of its update as S_k, and uploads
s and a set J of h dimensions that EM-MDS draws with P(J) ∝ exp(ε · 1[|S_k ∩ J| ≥ ν_th]). The global model moves by
step · (votes for − votes against) / clients in each dimension.

P(J) takes the same two values whatever S_k is, with a quotient of e^ε, so an upload is ε-locally private for any two
updates, whatever the size of their values. Ties at the end of S_k are decided by lot: a mixture of these distributions
stays between the same two values, and no dimension is favoured. That a client uploads at all, and when, is outside the
guarantee.

Departure from the paper: weights are integers, never floats. A uniform double has a smallest step of 2⁻⁵³, so sets of
little weight would get the probability zero, which they have not under another update: then no ε holds. Here
ω_τ = C(k, τ)·C(d − k, h − τ) is exact, e^ε is rounded down to 64 binary places, and a uniform integer below Ω picks ν.
"""

import decimal
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.base.tensors import Layout, add
from fedgrove.node.masking.keys import Random
from fedgrove.node.masking.ring import WORD
from fedgrove.node.privacy.accountant import PureRelease
from fedgrove.node.privacy.clipping import check_update
from fedgrove.node.privacy.mechanism import Mechanism, Rates, Start, Weight
from fedgrove.node.privacy.settings import SignDsSettings

AUTOMATIC_DIMENSIONS = 50
MAX_LENGTH = 1 << 32

_MAGIC = b"SD\x01"
_SIGNS = {1: b"\x01", -1: b"\x00"}
_INDEX = np.dtype(">u4")
_PLACES = 64  # binary places of e^ε


@dataclass(frozen=True)
class SignDsMechanism:
    """EM-MDS for one size of model.

    Attributes
    ----------
    epsilon : float
        ε; the quotient of ``boost`` and 2⁶⁴ is at most e^ε.
    length, top, dimensions : int
        d, k and h.
    threshold : int
        ν_th, from 1 to h.
    boost : int
        ⌊e^ε · 2⁶⁴⌋.
    """

    epsilon: float
    length: int
    top: int
    dimensions: int
    threshold: int
    boost: int = field(repr=False)

    @property
    def upload_bytes(self) -> int:
        """Size of an upload."""
        return len(_MAGIC) + 1 + _INDEX.itemsize * self.dimensions

    def weights(self) -> list[int]:
        """P(ν = τ) times a common factor, exact, for τ = 0 … h."""
        return _boosted(set_counts(self.length, self.top, self.dimensions), self.threshold, self.boost)

    @property
    def chance(self) -> float:
        """Bound on the probability that an upload tells one update from another.

        The privacy loss is +ε for the sets that hold ν_th top dimensions of the one update and not of the other, −ε for
        the opposite, else 0. There are as many of either kind, so with a for the probability of +ε that of −ε is
        a·e^(−ε), and δ(ε') = a·(1 − e^(ε' − ε)) grows with a. a is at most P(ν ≥ ν_th), and 1/(1 + e^(−ε)), at which no
        other set is left. So three points, (a, 1 − a − a·e^(−ε), a·e^(−ε)), dominate, also when uploads add up.
        """
        weights = self.weights()
        return min(sum(weights[self.threshold :]) / sum(weights), 1 / (1 + math.exp(-self.epsilon)))

    @property
    def release(self) -> PureRelease:
        """What an upload tells, for the accountant."""
        return PureRelease(self.epsilon, chance=self.chance)


@dataclass(frozen=True)
class Selection:
    """A client's upload; all of it may be public.

    Attributes
    ----------
    sign : int
        s, +1 or −1.
    dimensions : ndarray
        J: uint32 (h,), ascending.
    """

    sign: int
    dimensions: np.ndarray

    def to_bytes(self) -> bytes:
        """The upload: magic and version, sign, then J as big-endian uint32."""
        return _MAGIC + _SIGNS[self.sign] + self.dimensions.astype(_INDEX).tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, mechanism: SignDsMechanism) -> "Selection":
        """Parse what ``to_bytes`` wrote for this mechanism.

        Raises
        ------
        InvalidContent
            Anything else.
        """
        if len(data) != mechanism.upload_bytes:
            raise InvalidContent(f"the upload has {len(data)} bytes, but the terms require {mechanism.upload_bytes}")
        if not data.startswith(_MAGIC):
            raise InvalidContent("the upload is not a selection of version 1")
        sign = {code: sign for sign, code in _SIGNS.items()}.get(data[len(_MAGIC) : len(_MAGIC) + 1])
        if sign is None:
            raise InvalidContent("the sign of the upload is neither 0 nor 1")
        dimensions = np.frombuffer(data, _INDEX, offset=len(_MAGIC) + 1).astype(np.uint32)
        if (dimensions[1:] <= dimensions[:-1]).any():
            raise InvalidContent("the dimensions of the upload are not in ascending order")
        if dimensions[-1] >= mechanism.length:
            raise InvalidContent(f"dimension {dimensions[-1]} of the upload is not in the model")
        return cls(sign, dimensions)


def add_vote(votes: np.ndarray, selection: Selection) -> None:
    """Count a client's selection, once, in ``votes`` (int32 of shape (d,), changed in place); in any order."""
    votes[selection.dimensions] += np.int32(selection.sign)


def mean_vote(votes: np.ndarray, clients: int, step: float) -> np.ndarray:
    """Change of the global model by these clients' votes: float32(votes · (step / clients)), shape (d,)."""
    return (votes * (step / clients)).astype(np.float32)


@lru_cache(maxsize=8)
def mechanism_for(settings: SignDsSettings, length: int) -> SignDsMechanism:
    """Fix k, h and ν_th for a model of ``length`` parameters; a function of public terms only.

    ν_th is the argmax of E[ν] over 1 … h, the smallest of several. An automatic h is the largest with E[ν]/h of at
    least ``settings.share``, or 1 when there is none.

    Raises
    ------
    InvalidInput
        The model has fewer than 2, or too few parameters for h, or more than 2³².
    """
    if not max(2, settings.dimensions) <= length <= MAX_LENGTH:
        raise InvalidInput(f"SignDS cannot choose {settings.dimensions} dimensions of a model of {length} parameters")
    top = max(1, round(settings.top * length))
    boost = boost_of(settings.epsilon)
    if settings.dimensions:
        sizes: Iterable[int] = (settings.dimensions,)
    else:
        sizes = range(min(AUTOMATIC_DIMENSIONS, length), 0, -1)
    for size in sizes:
        threshold, expected = _best_threshold(set_counts(length, top, size), boost)
        if expected >= Fraction(settings.share) * size:
            break
    return SignDsMechanism(settings.epsilon, length, top, size, threshold, boost)


def select(mechanism: SignDsMechanism, update: np.ndarray, random: Random) -> Selection:
    """Choose what to upload of an update. Twice the same update costs twice ε: keep the bytes, never draw again.

    Parameters
    ----------
    update : float32 array of shape (d,)
        Δ, the trained model less the global model. One that is not finite counts as zero.
    random : Random
        ``os.urandom``; the guarantee is as good as this. Seeded in tests and simulations only.

    Raises
    ------
    InvalidInput
        Wrong shape or type.
    """
    check_update(update, mechanism.length)
    if not np.isfinite(update).all():
        update = np.zeros_like(update)  # to leave the client out would tell that its training diverged
    sign = 1 if uniform_below(2, random) else -1
    inside = top_dimensions(update, mechanism.top, sign, random)
    hits = draw_index(mechanism.weights(), random)
    chosen = inside[subset(mechanism.top, hits, random)]
    others = subset(mechanism.length - mechanism.top, mechanism.dimensions - hits, random)
    return Selection(sign, np.sort(np.concatenate([chosen, _outside(inside, others)])).astype(np.uint32))


@dataclass(frozen=True)
class SignDsVotes(Mechanism):
    """Votes on a few dimensions in one round, and the step that they make; InvalidInput where no model is for them.

    A federation uploads the selection itself, which is public and needs no masks.
    """

    layout: Layout
    settings: SignDsSettings
    number: int

    def __post_init__(self) -> None:
        mechanism_for(self.settings, self.layout.length)

    @property
    def mechanism(self) -> SignDsMechanism:
        """EM-MDS for this model."""
        return mechanism_for(self.settings, self.layout.length)

    @property
    def step(self) -> float:
        """How far a vote of all clients moves a parameter."""
        return self.settings.step_of(self.number)

    def select(self, trained: np.ndarray, start: Start, random: Random) -> Selection:
        """A client's upload; the trained parameters are overwritten."""
        return select(self.mechanism, self.change(trained, start), random)

    def encode(
        self, trained: np.ndarray, start: Start, weight: Weight, random: Random, rates: Rates = ()
    ) -> np.ndarray:
        words = np.zeros(self.length, WORD)
        add_vote(words.view("<i4"), self.select(trained, start, random))
        return words

    def mean(self, words: np.ndarray, start: Start, weight: Weight) -> np.ndarray:
        vector = mean_vote(words.view("<i4"), weight.samples, self.step)
        add(vector, start())
        return vector


def top_dimensions(update: np.ndarray, top: int, sign: int, random: Random) -> np.ndarray:
    """S_k: the ``top`` dimensions with the largest sign · Δ, ascending; of equal values at its end, any."""
    ranked = update if sign > 0 else -update
    bound = np.partition(ranked, -top)[-top]
    above = np.flatnonzero(ranked > bound)
    ties = np.flatnonzero(ranked == bound)
    if len(above) + len(ties) > top:
        ties = ties[subset(len(ties), top - len(above), random)]
    return np.sort(np.concatenate([above, ties]))


def _outside(inside: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """The dimensions that are not in ``inside`` (ascending), by their rank among those."""
    skipped = np.searchsorted(inside - np.arange(len(inside)), ranks, side="right")
    return ranks + skipped


def uniform_below(bound: int, random: Random) -> int:
    """A uniform integer from 0 to bound − 1: random bits until they are below it."""
    bits = (bound - 1).bit_length()
    size = -(-bits // 8)
    while True:
        value = int.from_bytes(random(size)) >> (8 * size - bits)
        if value < bound:
            return value


def draw_index(weights: list[int], random: Random) -> int:
    """An index with probability proportional to its weight (inverse CDF over integers)."""
    point = uniform_below(sum(weights), random)
    return next(index for index, end in enumerate(accumulate(weights)) if point < end)


def subset(population: int, size: int, random: Random) -> np.ndarray:
    """A uniform subset of 0 … population − 1, int64 (size,): Floyd's algorithm (Bentley and Floyd 1987)."""
    chosen: set[int] = set()
    for last in range(population - size, population):
        value = uniform_below(last + 1, random)
        chosen.add(last if value in chosen else value)
    return np.array(sorted(chosen), np.int64)


def boost_of(epsilon: float) -> int:
    """⌊e^ε · 2⁶⁴⌋ or one less: never more, so that ε is never passed."""
    digits = math.ceil(epsilon / math.log(10)) + 40
    context = decimal.Context(prec=digits, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
    power = context.next_minus(context.exp(decimal.Decimal(epsilon)))  # exp is rounded correctly
    numerator, denominator = power.as_integer_ratio()
    return (numerator << _PLACES) // denominator


def set_counts(length: int, top: int, size: int) -> list[int]:
    """ω_τ = C(k, τ) · C(d − k, h − τ) for τ = 0 … h: how many sets hold τ of the top dimensions."""
    inside, outside = _binomials(top, size), _binomials(length - top, size)
    return [inside[hits] * outside[size - hits] for hits in range(size + 1)]


def _binomials(population: int, largest: int) -> list[int]:
    """C(population, j) for j = 0 … largest."""
    row = [1]
    for j in range(largest):
        row.append(row[j] * (population - j) // (j + 1))
    return row


def _boosted(counts: list[int], threshold: int, boost: int) -> list[int]:
    return [count * boost if hits >= threshold else count << _PLACES for hits, count in enumerate(counts)]


def _best_threshold(counts: list[int], boost: int) -> tuple[int, Fraction]:
    """ν_th* and E[ν | ν_th*]; sums over all τ < ν_th make each E[ν] two divisions."""
    number, hits = sum(counts), sum(tau * count for tau, count in enumerate(counts))
    best, below, hits_below = (1, 0, 1), 0, 0
    for threshold in range(1, len(counts)):
        below += counts[threshold - 1]
        hits_below += (threshold - 1) * counts[threshold - 1]
        numerator = (hits_below << _PLACES) + (hits - hits_below) * boost
        denominator = (below << _PLACES) + (number - below) * boost
        if numerator * best[2] > best[1] * denominator:
            best = (threshold, numerator, denominator)
    return best[0], Fraction(best[1], best[2])
