"""Malicious clusters, found afterwards: who judges whom, and who is expelled (Xu et al. 2025, algorithm 3).

What the committee and the public learn is in docs/clustering.md.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from node.clustering.similarity import Similarity

_BALLOT = b"FGV1"
_HEAD_BYTES = len(_BALLOT) + 4 + 4
_DIGEST_BYTES = 32


class NoCommittee(ValueError):
    """There is nobody outside the cluster who may judge it."""


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


def suspected(scores: Sequence[float], best: Sequence[float], tolerance: float) -> tuple[int, ...]:
    """Clusters whose models do worse on the public set than the best before them, by more than a tolerance.

    Parameters
    ----------
    scores, best : sequence of float
        Accuracy of each cluster's model on the labels of its members (``training.personal_accuracy``): on others a
        model that is trained for some labels gets worse without malice.
    """
    pairs = zip(scores, best, strict=True)
    return tuple(cluster for cluster, (score, most) in enumerate(pairs) if score < most - tolerance)


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
