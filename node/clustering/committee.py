"""Malicious clusters, found afterwards: who tests whom, how each votes, who is expelled (Xu et al. 2025, algorithm 3).

Everything is decided by whole numbers and quotients of them, so that an audit finds the same votes and verdicts. What
the committee learns is in docs/clustering.md.
"""

import hashlib
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from node.clustering.similarity import Similarity

_BALLOT = b"FGV1"
_NOTHING_SHOWN = (1 << 32) - 1


class NoCommittee(ValueError):
    """There is nobody outside the cluster who may judge it."""


@dataclass(frozen=True)
class Rule:
    """When a committee member calls a model malicious.

    Attributes
    ----------
    margin : float
        How far below the mean of all tested models its accuracy is.
    floor : float
        Or: below this fraction of the accuracy of the global model from before the drop. The mean alone finds nothing
        in a cluster that has malicious members only.
    """

    margin: float = 0.05
    floor: float = 0.5

    def __post_init__(self) -> None:
        for name, value in (("margin", self.margin), ("floor", self.floor)):
            if not 0 <= value < 1:
                raise ValueError(f"{name} is {value}, set it from 0 to below 1")


@dataclass(frozen=True)
class Ballot:
    """One committee member's tests, on its own data, of all models of a suspected cluster: the evidence of its votes.

    Attributes
    ----------
    voter : int
        The committee member.
    tested : int
        Samples it tested on.
    reference : int
        How many of them the global model from before the drop gets right.
    right : tuple of int or None
        How many each model gets right, in the order of the cluster's members; None for a member that showed no valid
        model.
    """

    voter: int
    tested: int
    reference: int
    right: tuple[int | None, ...]

    def __post_init__(self) -> None:
        shown = [number for number in self.right if number is not None]
        if not 1 <= self.tested < _NOTHING_SHOWN or not all(0 <= n <= self.tested for n in (*shown, self.reference)):
            raise ValueError(f"client {self.voter} counts more right answers than samples")

    def votes(self, rule: Rule) -> tuple[bool, ...]:
        """Whether each model is called malicious. Who shows none is, else silence would be a defence."""
        shown = [number for number in self.right if number is not None]
        mean = Fraction(sum(shown), max(len(shown), 1))
        least = max(mean - _exact(rule.margin) * self.tested, _exact(rule.floor) * self.reference)
        return tuple(number is None or number < least for number in self.right)

    def to_bytes(self) -> bytes:
        """Canonical form: magic, voter, tested, reference, number of models, right answers; 4 bytes each."""
        numbers = [_NOTHING_SHOWN if number is None else number for number in self.right]
        head = (self.voter, self.tested, self.reference, len(numbers))
        return _BALLOT + b"".join(number.to_bytes(4) for number in (*head, *numbers))

    @classmethod
    def from_bytes(cls, data: bytes) -> "Ballot":
        """Read what ``to_bytes`` wrote; ValueError for anything else."""
        if len(data) < 20 or len(data) % 4 or data[:4] != _BALLOT:
            raise ValueError("these bytes are no ballot")
        voter, tested, reference, count, *numbers = (int.from_bytes(data[i : i + 4]) for i in range(4, len(data), 4))
        if count != len(numbers):
            raise ValueError(f"a ballot on {count} models has {len(numbers)} results")
        return cls(voter, tested, reference, tuple(None if n == _NOTHING_SHOWN else n for n in numbers))

    def digest(self, models: Sequence[bytes]) -> bytes:
        """SHA-256 of the evidence: this ballot, and the digests of the models that were tested, 32 bytes each."""
        return hashlib.sha256(self.to_bytes() + b"".join(models)).digest()


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


def tally(members: Sequence[int], ballots: Sequence[Ballot], seats: int, rule: Rule) -> Verdict:
    """Count the votes.

    Parameters
    ----------
    members : sequence of int
        The suspected cluster, in the order of the ballots' results.
    ballots : sequence of Ballot
        At most one of each committee member.
    seats : int
        Size of the committee.

    Raises
    ------
    ValueError
        Someone voted twice, there are more ballots than seats, or a ballot has the wrong length.
    """
    if len({ballot.voter for ballot in ballots}) != len(ballots) or len(ballots) > seats:
        raise ValueError("a committee member votes once")
    if any(len(ballot.right) != len(members) for ballot in ballots):
        raise ValueError(f"a ballot must have a result for each of the {len(members)} members")
    votes = [ballot.votes(rule) for ballot in ballots]
    return Verdict(
        tuple(members), tuple(sum(column) for column in zip(*votes, strict=True)) or (0,) * len(members), seats
    )


def _exact(number: float) -> Fraction:
    return Fraction(str(number))
