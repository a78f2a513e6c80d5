"""How a judge tells malicious models from honest ones, on its own data (Xu et al. 2025, algorithm 3, step 3).

The seed has lost the formula by which a judge decides, except for its terms: a model's accuracy and the mean of all.
``Rule`` says what stands for it, and why; docs/clustering.md has the trials behind the defaults.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from fedgrove.common.errors import InvalidContent
from fedgrove.common.settings import Settings
from fedgrove.node.learning.samples import Samples

# Cosines and lengths are whole ten-thousandths, so that evidence has one form in bytes, and votes follow from it.
_PARTS = 10_000
_LARGEST = (1 << 63) - 1
_PERCENT = 100
_BelowOne = Annotated[float, Meta(ge=0, lt=1)]

_MAGIC = b"FGX1"
_DIGEST_BYTES = 32
_HEAD_BYTES = len(_MAGIC) + 4 + 1
_FINDING_BYTES = _DIGEST_BYTES + 4 + 8 + 1


@dataclass(frozen=True)
class Rule(Settings):
    """When a judge calls a model malicious.

    Attributes
    ----------
    test : str
        ``direction``: an update that leads away from the judge's own update, or much too far (after FLTrust, Cao et al.
        2021). ``gap``: a score below the largest gap between neighbouring scores. ``mean``: a score below the mean of
        all scores, as in the paper; the more of a cluster is malicious, the fewer scores lie below it.
    least_cosine : float
        ``direction``: the smallest cosine between a member's update and the judge's that counts as honest.
    most_length : float
        ``direction``: the largest length of an honest update, relative to the judge's.
    margin : float
        ``gap``: the largest gap that honest models leave. ``mean``: how far below the mean an honest model may be.
    floor : float
        ``gap`` and ``mean``: a model is also malicious if it scores less than this fraction of the reference, the model
        from before the drop: in a cluster that is malicious as a whole nothing stands out.
    """

    test: Literal["direction", "gap", "mean"] = "direction"
    least_cosine: Annotated[float, Meta(ge=-1, lt=1)] = -0.01
    most_length: Annotated[float, Meta(ge=1, le=1e6)] = 3.0
    margin: _BelowOne = 0.1
    floor: _BelowOne = 0.5

    def least(self, scores: Sequence[Fraction]) -> Fraction:
        """The lowest score that does not count as malicious, given the others."""
        margin = _exact(self.margin)
        if not scores:
            return Fraction(0)
        if self.test == "mean":
            return sum(scores, Fraction(0)) / len(scores) - margin
        steps = [(high - low, high) for low, high in pairwise(sorted(scores))]
        gap, above = max(steps, default=(Fraction(0), Fraction(0)), key=lambda step: step[0])
        return above if gap > margin else Fraction(0)


@dataclass(frozen=True)
class Finding:
    """A judge's finding on one member.

    Attributes
    ----------
    model : bytes
        Digest of the model that it judged, 32 bytes.
    cosine : int
        Of the angle between the member's update and the judge's own, both from the model that the round began with, in
        ten-thousandths; 0 where one of them is zero.
    length : int
        The member's update in lengths of the judge's, in ten-thousandths.
    score : int
        Percent of the judge's samples that the model gets right, each label with the same weight; 0 where the rule
        looks at directions.
    """

    model: bytes
    cosine: int
    length: int
    score: int = 0

    def __post_init__(self) -> None:
        fine = len(self.model) == _DIGEST_BYTES and any(self.model) and 0 <= self.score <= _PERCENT
        if not (fine and -_PARTS <= self.cosine <= _PARTS and 0 <= self.length <= _LARGEST):
            raise InvalidContent("a finding has a digest, a cosine, a length and a score in their ranges")


def direction(update: np.ndarray, own: np.ndarray, steps: float = 1.0) -> tuple[int, int]:
    """Cosine and length of a member's update relative to the judge's, as in a finding.

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
    return max(-_PARTS, min(round(cosine * _PARTS), _PARTS)), min(round(length * _PARTS), _LARGEST)


def even_score(tested: Sequence[int], right: Sequence[int]) -> int:
    """Accuracy on each label that a judge has, averaged over these, in percent.

    Plain accuracy would say how alike the judge's labels are to those a model was trained on.

    Parameters
    ----------
    tested, right : sequence of int
        The judge's samples of each label, not all zero, and the right answers.
    """
    found = [Fraction(number, most) for number, most in zip(right, tested, strict=True) if most]
    return round(_PERCENT * sum(found, Fraction(0)) / len(found))


@dataclass(frozen=True)
class Evidence:
    """One judge's public findings on the members of a suspected cluster; its votes follow from them.

    It says nothing of the judge's samples but what these few numbers do.

    Attributes
    ----------
    findings : tuple of Finding or None
        In the order of the members; None for one that showed no valid model.
    reference : int
        Score of the best model from before the fall, in percent; 0 where the rule looks at directions.
    """

    findings: tuple[Finding | None, ...]
    reference: int = 0

    def __post_init__(self) -> None:
        if not self.findings or not 0 <= self.reference <= _PERCENT:
            raise InvalidContent("evidence needs at least one member, and scores from 0 to 100")

    def votes(self, rule: Rule) -> tuple[bool, ...]:
        """Whether each member is called malicious. Who shows nothing is, else silence would be a defence."""
        if rule.test == "direction":
            least, most = (_exact(value) * _PARTS for value in (rule.least_cosine, rule.most_length))
            return tuple(found is None or found.cosine < least or found.length > most for found in self.findings)
        scores = [None if found is None else Fraction(found.score, _PERCENT) for found in self.findings]
        least = rule.least([score for score in scores if score is not None])
        least = max(least, _exact(rule.floor) * Fraction(self.reference, _PERCENT))
        return tuple(score is None or score < least for score in scores)

    def to_bytes(self) -> bytes:
        """Canonical form: magic (4), members (4), reference (1), then 45 bytes a member, zero where there is none."""
        head = _MAGIC + len(self.findings).to_bytes(4) + self.reference.to_bytes(1)
        return head + b"".join(bytes(_FINDING_BYTES) if found is None else _packed(found) for found in self.findings)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Evidence":
        """Read what ``to_bytes`` wrote; InvalidContent for anything else."""
        count = int.from_bytes(data[4:8])
        if data[:4] != _MAGIC or not count or len(data) != evidence_bytes(count):
            raise InvalidContent("these bytes are not evidence")
        parts = [data[start : start + _FINDING_BYTES] for start in range(_HEAD_BYTES, len(data), _FINDING_BYTES)]
        evidence = cls(tuple(_unpacked(part) if any(part) else None for part in parts), data[_HEAD_BYTES - 1])
        if evidence.to_bytes() != data:
            raise InvalidContent("these bytes are not evidence in canonical form")
        return evidence

    def digest(self) -> bytes:
        """SHA-256, for a ballot."""
        return hashlib.sha256(self.to_bytes()).digest()


def evidence_bytes(members: int) -> int:
    """Length of evidence on this many members."""
    return _HEAD_BYTES + members * _FINDING_BYTES


def _packed(found: Finding) -> bytes:
    return found.model + found.cosine.to_bytes(4, signed=True) + found.length.to_bytes(8) + found.score.to_bytes(1)


def _unpacked(data: bytes) -> Finding:
    cosine = int.from_bytes(data[_DIGEST_BYTES : _DIGEST_BYTES + 4], signed=True)
    return Finding(data[:_DIGEST_BYTES], cosine, int.from_bytes(data[_DIGEST_BYTES + 4 : -1]), data[-1])


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
