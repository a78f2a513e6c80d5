"""How a judge tells malicious models from honest ones, on its own data (Xu et al. 2025, algorithm 3, step 3).

The seed has lost the formula by which a judge decides, but for its terms: a model's accuracy and the mean of all.
``Rule`` says what stands for it, and why; docs/clustering.md has the trials behind the defaults.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

import numpy as np

from node.learning.samples import Samples

SALT_BYTES = 32
# Cosines and lengths are kept as whole millionths, so that evidence has one form in bytes.
_PARTS = 1_000_000
_LARGEST = (1 << 63) - 1

_EVIDENCE = b"fedgrove evidence 2"


@dataclass(frozen=True)
class Rule:
    """When a judge calls a model malicious.

    Attributes
    ----------
    test : str
        ``direction``: what leads away from the judge's own update, or much too far (after FLTrust, Cao et al. 2021).
        ``gap``: what lies below the largest gap between neighbouring scores. ``mean``: what lies below the mean of all
        scores, as the paper has it; the more of a cluster is malicious, the less lies below it.
    least_cosine : float
        ``direction``: the least cosine of the angle between a member's update and the judge's that is honest.
    most_length : float
        ``direction``: the largest length of an honest update, in lengths of the judge's.
    margin : float
        ``gap``: the largest gap that honest models leave. ``mean``: how far below the mean an honest model may be.
    floor : float
        ``gap`` and ``mean``: malicious is also what scores less than this fraction of the reference, the model from
        before the drop: in a cluster that is malicious as a whole nothing stands out.
    """

    test: str = "direction"
    least_cosine: float = -0.01
    most_length: float = 3.0
    margin: float = 0.1
    floor: float = 0.5

    def __post_init__(self) -> None:
        if self.test not in ("direction", "gap", "mean"):
            raise ValueError(f"test is {self.test!r}, set it to direction, gap or mean")
        for name, value in (("margin", self.margin), ("floor", self.floor)):
            if not 0 <= value < 1:
                raise ValueError(f"{name} is {value}, set it from 0 to below 1")
        if not -1 <= self.least_cosine < 1:
            raise ValueError(f"least_cosine is {self.least_cosine}, set it from -1 to below 1")
        if not 1 <= self.most_length <= 1e6:
            raise ValueError(f"most_length is {self.most_length}, set it from 1 to 1000000")

    def least(self, scores: Sequence[Fraction]) -> Fraction:
        """The least score that is not malicious beside the others."""
        margin = _exact(self.margin)
        if not scores:
            return Fraction(0)
        if self.test == "mean":
            return sum(scores, Fraction(0)) / len(scores) - margin
        steps = [(high - low, high) for low, high in pairwise(sorted(scores))]
        gap, above = max(steps, default=(Fraction(0), Fraction(0)), key=lambda step: step[0])
        return above if gap > margin else Fraction(0)


@dataclass(frozen=True)
class Direction:
    """How a member's update lies to the judge's own, both from the model that the round began with.

    Attributes
    ----------
    cosine : int
        Of the angle between them, in millionths; 0 where one of them is zero.
    length : int
        The member's in lengths of the judge's, in millionths.
    """

    cosine: int = field(repr=False)
    length: int = field(repr=False)


def direction(update: np.ndarray, own: np.ndarray, steps: float = 1.0) -> Direction:
    """Compare a member's update with the judge's.

    Parameters
    ----------
    update, own : float32 arrays of shape (d,)
        Finite.
    steps : float
        The member's samples for each of the judge's: with more samples it takes more steps, and may come further.
    """
    first, second = update.astype(np.float64), own.astype(np.float64)
    lengths = [float(np.sqrt(np.square(vector).sum())) for vector in (first, second)]
    product = float((first * second).sum())
    cosine = product / (lengths[0] * lengths[1]) if product else 0.0
    allowed = lengths[1] * max(1.0, steps)
    length = lengths[0] / allowed if allowed else float(lengths[0] > 0) * _LARGEST
    return Direction(round(cosine * _PARTS), min(round(length * _PARTS), _LARGEST))


@dataclass(frozen=True)
class Evidence:
    """One judge's tests, on its own data, of all models of a suspected cluster. It shows label counts: keep it.

    Attributes
    ----------
    tested : tuple of int
        Samples of each label, not all zero.
    reference : tuple of int
        How many of them the global model from before the drop gets right.
    right : tuple of (tuple of int) or None
        How many each model gets right, in the order of the cluster's members; None for a member that showed no valid
        model.
    directions : tuple of Direction or None
        How its update lies to the judge's own, likewise.
    """

    tested: tuple[int, ...] = field(repr=False)
    reference: tuple[int, ...] = field(repr=False)
    right: tuple[tuple[int, ...] | None, ...] = field(repr=False)
    directions: tuple[Direction | None, ...] = field(repr=False)

    def __post_init__(self) -> None:
        rows = [self.reference, *(row for row in self.right if row is not None)]
        fine = any(self.tested) and all(len(row) == len(self.tested) for row in rows)
        if not fine or not all(0 <= n <= most for row in rows for n, most in zip(row, self.tested, strict=True)):
            raise ValueError("a judge counts right answers of each label, no more than there are samples, and has some")
        if [entry is None for entry in self.directions] != [row is None for row in self.right]:
            raise ValueError("a judge finds the direction of each model that it has tested, and of no other")

    def score(self, right: Sequence[int]) -> Fraction:
        """Accuracy on each label, averaged over the judge's labels.

        Plain accuracy would say how alike the judge's labels are to those a model was trained on.
        """
        found = [Fraction(number, most) for number, most in zip(right, self.tested, strict=True) if most]
        return sum(found, Fraction(0)) / len(found)

    def votes(self, rule: Rule) -> tuple[bool, ...]:
        """Whether each model is called malicious. Who shows none is, else silence would be a defence."""
        if rule.test == "direction":
            least, most = (_exact(value) * _PARTS for value in (rule.least_cosine, rule.most_length))
            return tuple(found is None or found.cosine < least or found.length > most for found in self.directions)
        scores = [None if row is None else self.score(row) for row in self.right]
        least = rule.least([score for score in scores if score is not None])
        least = max(least, _exact(rule.floor) * self.score(self.reference))
        return tuple(score is None or score < least for score in scores)

    def digest(self, models: Sequence[bytes], salt: bytes) -> bytes:
        """SHA-256 that commits to the evidence and to the models that were tested.

        Parameters
        ----------
        models : sequence of bytes
            Digests of the models, 32 bytes each; zero for one that was not shown.
        salt : bytes
            32 random bytes, without which counts could be guessed.
        """
        if len(salt) != SALT_BYTES or len(models) != len(self.right):
            raise ValueError(f"evidence takes a salt of {SALT_BYTES} bytes and a digest for each of its models")
        state = hashlib.sha256(_EVIDENCE + salt + len(self.tested).to_bytes(4) + len(self.right).to_bytes(4))
        for row in (self.tested, self.reference, *self.right):
            state.update(b"\0" if row is None else b"\1" + b"".join(number.to_bytes(4) for number in row))
        for found in self.directions:
            numbers = () if found is None else (found.cosine, found.length)
            state.update(b"\0" if found is None else b"\1" + b"".join(n.to_bytes(8, signed=True) for n in numbers))
        state.update(b"".join(models))
        return state.digest()


def resampled(samples: Samples, labels: np.ndarray, rng: np.random.Generator) -> Samples:
    """As many of a judge's own samples, with repetitions, in the proportions of a suspected cluster's labels.

    An update says first of all which labels a client has. On other labels than the cluster's a judge's own would lead
    away from theirs, malicious or not.

    Parameters
    ----------
    labels : int64 array of shape (classes,)
        Samples of each label that the members have together: a masked sum, which shows nobody's.

    Returns
    -------
    Samples
        All of the judge's where it has none of these labels.
    """
    own = np.bincount(samples.y, minlength=len(labels))
    wanted = np.where(own > 0, labels, 0)
    if not wanted.any():
        return samples
    cuts = np.round(np.cumsum(wanted) / wanted.sum() * len(samples)).astype(np.int64)
    numbers = np.diff(cuts, prepend=0)
    chosen = [rng.choice(np.flatnonzero(samples.y == label), numbers[label]) for label in np.flatnonzero(numbers)]
    return samples.take(np.concatenate(chosen))


def _exact(number: float) -> Fraction:
    return Fraction(str(number))
