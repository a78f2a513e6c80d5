"""How a judge tells malicious models from honest ones, on its own data (Xu et al. 2025, algorithm 3, step 3).

The seed has lost the formula by which a judge decides, but for its terms: a model's accuracy and the mean of all.
``Rule`` says what stands for it, and why; docs/clustering.md has the trial behind the defaults.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

SALT_BYTES = 32

_EVIDENCE = b"fedgrove evidence 1"


@dataclass(frozen=True)
class Rule:
    """When a judge calls a model malicious.

    Attributes
    ----------
    margin : float
        ``gap``: the largest gap between neighbouring scores that honest models leave; if it is exceeded, what lies
        below the largest gap is malicious. ``mean``: how far below the mean of all scores a model may be.
    floor : float
        Malicious is also what scores less than this fraction of the global model from before the drop: in a cluster
        that is malicious as a whole nothing stands out.
    split : str
        ``gap``, or ``mean`` as the paper has it. The more of a cluster is malicious, the less it lies below the mean,
        and the gap stays.
    """

    margin: float = 0.1
    floor: float = 0.5
    split: str = "gap"

    def __post_init__(self) -> None:
        for name, value in (("margin", self.margin), ("floor", self.floor)):
            if not 0 <= value < 1:
                raise ValueError(f"{name} is {value}, set it from 0 to below 1")
        if self.split not in ("gap", "mean"):
            raise ValueError(f"split is {self.split!r}, set it to gap or mean")

    def least(self, scores: Sequence[Fraction]) -> Fraction:
        """The least score that is not malicious beside the others."""
        margin = _exact(self.margin)
        if not scores:
            return Fraction(0)
        if self.split == "mean":
            return sum(scores, Fraction(0)) / len(scores) - margin
        steps = [(high - low, high) for low, high in pairwise(sorted(scores))]
        gap, above = max(steps, default=(Fraction(0), Fraction(0)), key=lambda step: step[0])
        return above if gap > margin else Fraction(0)


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
    """

    tested: tuple[int, ...] = field(repr=False)
    reference: tuple[int, ...] = field(repr=False)
    right: tuple[tuple[int, ...] | None, ...] = field(repr=False)

    def __post_init__(self) -> None:
        rows = [self.reference, *(row for row in self.right if row is not None)]
        fine = any(self.tested) and all(len(row) == len(self.tested) for row in rows)
        if not fine or not all(0 <= n <= most for row in rows for n, most in zip(row, self.tested, strict=True)):
            raise ValueError("a judge counts right answers of each label, no more than there are samples, and has some")

    def score(self, right: Sequence[int]) -> Fraction:
        """Accuracy on each label, averaged over the judge's labels.

        Plain accuracy would say how alike the judge's labels are to those a model was trained on.
        """
        found = [Fraction(number, most) for number, most in zip(right, self.tested, strict=True) if most]
        return sum(found, Fraction(0)) / len(found)

    def votes(self, rule: Rule) -> tuple[bool, ...]:
        """Whether each model is called malicious. Who shows none is, else silence would be a defence."""
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
        state.update(b"".join(models))
        return state.digest()


def _exact(number: float) -> Fraction:
    return Fraction(str(number))
