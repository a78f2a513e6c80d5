"""Malicious clusters, found afterwards: who tests whom, how each votes, who is expelled (Xu et al. 2025, algorithm 3).

The seed has lost the formula by which a judge decides, but for its terms: a model's accuracy and the mean of all.
``Rule`` says what stands for it, and why. What the committee and the public learn is in docs/clustering.md.
"""

import hashlib
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

import numpy as np

from node.clustering.similarity import Similarity

SALT_BYTES = 32

_EVIDENCE, _BALLOT = b"fedgrove evidence 1", b"FGV1"
_HEAD_BYTES = len(_BALLOT) + 4 + 4
_DIGEST_BYTES = 32


class NoCommittee(ValueError):
    """There is nobody outside the cluster who may judge it."""


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


@dataclass(frozen=True)
class Ballot:
    """One judge's votes, for the ledger.

    Attributes
    ----------
    voter : int
        The judge.
    against : tuple of bool
        Whether it calls each member of the cluster malicious, in their order.
    evidence : bytes
        Digest of its evidence.
    """

    voter: int
    against: tuple[bool, ...]
    evidence: bytes

    def to_bytes(self) -> bytes:
        """Canonical form: magic (4), voter (4), members (4), a bit for each from the highest, digest (32)."""
        bits = np.packbits(np.array(self.against, dtype=bool)).tobytes()
        return _BALLOT + self.voter.to_bytes(4) + len(self.against).to_bytes(4) + bits + self.evidence

    @classmethod
    def from_bytes(cls, data: bytes) -> "Ballot":
        """Read what ``to_bytes`` wrote; ValueError for anything else."""
        voter, count = (int.from_bytes(data[start : start + 4]) for start in (4, 8))
        bits, evidence = data[_HEAD_BYTES:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        if data[:4] != _BALLOT or len(data) != _HEAD_BYTES + (count + 7) // 8 + _DIGEST_BYTES:
            raise ValueError("these bytes are no ballot")
        ballot = cls(voter, tuple(np.unpackbits(np.frombuffer(bits, np.uint8))[:count].astype(bool).tolist()), evidence)
        if ballot.to_bytes() != data:
            raise ValueError("a ballot has votes on nobody")
        return ballot


@dataclass(frozen=True)
class Verdict:
    """What a committee found.

    Attributes
    ----------
    members : tuple of int
        The suspected cluster.
    against : tuple of int
        Votes against each.
    seats : int
        Size of the committee, whether all voted or not.
    """

    members: tuple[int, ...]
    against: tuple[int, ...]
    seats: int

    @property
    def expelled(self) -> tuple[int, ...]:
        """Members with more than half of all seats against them."""
        return tuple(m for m, votes in zip(self.members, self.against, strict=True) if 2 * votes > self.seats)

    @property
    def kept(self) -> tuple[int, ...]:
        """The new cluster: the others."""
        return tuple(sorted(set(self.members) - set(self.expelled)))


def has_dropped(right: Sequence[int], tested: int, tolerance: float) -> bool:
    """Whether the last global model is worse than the best before it by more than ``tolerance``.

    Parameters
    ----------
    right : sequence of int
        Right answers of each global model so far on the small public set.
    tested : int
        Samples of that set.
    """
    return len(right) > 1 and right[-1] < max(right[:-1]) - _exact(tolerance) * tested


def suspected(right: Sequence[int], reference: int, tested: int, tolerance: float) -> tuple[int, ...]:
    """Clusters whose models do worse on the public set than the global model before the drop, by more than a tolerance.

    Parameters
    ----------
    right : sequence of int
        Right answers of each cluster's model.
    reference : int
        Those of the global model before the drop.
    """
    least = reference - _exact(tolerance) * tested
    return tuple(cluster for cluster, found in enumerate(right) if found < least)


def draw_committee(
    similarity: Similarity, cluster: Collection[int], seats: int, barred: Collection[int] = ()
) -> tuple[int, ...]:
    """The d clients outside a cluster that are most like it (algorithm 3, lines 1 to 20).

    Candidates are, for every member, the client outside that is most like it; all outside if the cluster has half of
    all clients or more, or is no larger than the committee, or if so few candidates remain that seats would stay empty.
    Of them those with the largest Sim_v = Σ_{m∈C} ISMₘ[v] sit, equals by their number.

    Parameters
    ----------
    seats : int
        d.
    barred : collection of int
        Clients who may not judge: members of other suspected clusters.

    Raises
    ------
    NoCommittee
        Nobody is left outside.
    """
    members = sorted(set(cluster))
    outside = sorted(set(range(similarity.clients)) - set(members) - set(barred))
    if not outside:
        raise NoCommittee(f"nobody outside the suspected cluster of {len(members)} clients may judge it")
    chosen = set(outside)
    if seats < len(members) and 2 * len(members) < similarity.clients:
        likest = {outside[int(np.argmax(similarity.overlaps[member, outside]))] for member in members}
        chosen = likest if len(likest) >= seats else chosen
    likeness = {client: math.fsum(similarity.ism[members, client]) for client in chosen}
    return tuple(sorted(sorted(chosen, key=lambda client: (-likeness[client], client))[:seats]))


def tally(members: Sequence[int], committee: Collection[int], ballots: Sequence[Ballot]) -> Verdict:
    """Count the votes.

    Parameters
    ----------
    members : sequence of int
        The suspected cluster, in the order of the votes.
    committee : collection of int
        Who has a seat.
    ballots : sequence of Ballot
        At most one of each.

    Raises
    ------
    ValueError
        Someone voted twice or without a seat, or a ballot has the wrong length.
    """
    voters = [ballot.voter for ballot in ballots]
    if len(set(voters)) != len(voters) or not set(voters) <= set(committee):
        raise ValueError("every judge votes once, and nobody else")
    if any(len(ballot.against) != len(members) for ballot in ballots):
        raise ValueError(f"a ballot must have a vote on each of the {len(members)} members")
    against = tuple(sum(ballot.against[place] for ballot in ballots) for place in range(len(members)))
    return Verdict(tuple(members), against, len(committee))


def _exact(number: float) -> Fraction:
    return Fraction(str(number))
