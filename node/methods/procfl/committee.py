"""Malicious clusters, found afterwards: who judges whom, and who is expelled (Xu et al. 2025, algorithm 3).

docs/clustering.md says what the committee and the public learn.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from fedgrove.common.errors import InvalidContent
from fedgrove.node.methods.procfl.evidence import Evidence, Rule, evidence_bytes
from fedgrove.node.methods.procfl.similarity import Similarity

Opens = Callable[[set[int]], set[int]]
"""Maps those who tell their mask secrets to all whose masks come off."""

_LOT = b"fedgrove lot 1"
_BALLOT = b"FGV1"
_HEAD_BYTES = len(_BALLOT) + 4 + 4
_DIGEST_BYTES = 32


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
        Digest of its evidence, which is next to it: without that a ballot is void.
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
        """Read what ``to_bytes`` wrote; InvalidContent for anything else."""
        voter, count = (int.from_bytes(data[start : start + 4]) for start in (4, 8))
        bits, evidence = data[_HEAD_BYTES:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        if data[:4] != _BALLOT or len(data) != _HEAD_BYTES + (count + 7) // 8 + _DIGEST_BYTES:
            raise InvalidContent("these bytes are not a ballot")
        ballot = cls(voter, tuple(np.unpackbits(np.frombuffer(bits, np.uint8))[:count].astype(bool).tolist()), evidence)
        if ballot.to_bytes() != data:
            raise InvalidContent("a ballot needs at least one vote")
        return ballot


def signed_off(evidence: Evidence, voter: int, rule: Rule) -> bytes:
    """A judge's ballot and the evidence that it follows from, as it uploads them."""
    return Ballot(voter, evidence.votes(rule), evidence.digest()).to_bytes() + evidence.to_bytes()


def vote_bytes(members: int) -> int:
    """Length of a ballot on this many members and its evidence."""
    return len(Ballot(0, (False,) * members, bytes(_DIGEST_BYTES)).to_bytes()) + evidence_bytes(members)


def opened_ballot(data: bytes, voter: int, members: int, rule: Rule) -> Ballot:
    """A ballot whose evidence opens.

    Raises InvalidContent: not in their form, somebody else's, on others, evidence of another digest, or votes that do
    not follow from it.
    """
    end = len(data) - evidence_bytes(members)
    ballot, evidence = Ballot.from_bytes(data[:end]), Evidence.from_bytes(data[end:])
    if ballot.voter != voter or len(ballot.against) != members or len(evidence.findings) != members:
        raise InvalidContent("this ballot belongs to another judge, or is about other members")
    if ballot.evidence != evidence.digest() or ballot.against != evidence.votes(rule):
        raise InvalidContent("the evidence does not open, or the votes do not follow from it")
    return ballot


def tally(members: Sequence[int], committee: Collection[int], ballots: Sequence[Ballot]) -> tuple[int, ...]:
    """Votes against each member.

    Parameters
    ----------
    members : sequence of int
        Who is judged, in the order of the votes.
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
        raise ValueError("every judge must vote once, and nobody else may vote")
    if any(len(ballot.against) != len(members) for ballot in ballots):
        raise ValueError(f"a ballot must have a vote on each of the {len(members)} members")
    return tuple(sum(ballot.against[place] for ballot in ballots) for place in range(len(members)))


# --- who judges whom --------------------------------------------------------------------------------------------------


def pool_of(similarity: Similarity, group: Collection[int], free: Collection[int], least: float) -> tuple[int, ...]:
    """Free clients that may judge a group: those with enough samples of the members' labels.

    That is where Σ |χₘ ∩ χᵥ| over the members m is at least ``least`` of Σ max(|χₘ|, |χᵥ|). Who claims many samples of
    all labels has what everybody has, but that is a small part of its own.

    Parameters
    ----------
    group, free : collection of int
        Rows of the similarity.
    """
    exact, members, sizes = Fraction(str(least)), sorted(set(group)), similarity.sizes
    found = []
    for judge in sorted(set(free) - set(members)):
        common = int(similarity.overlaps[members, judge].sum())
        largest = int(np.maximum(sizes[members], sizes[judge]).sum())
        if common * exact.denominator >= exact.numerator * largest:
            found.append(judge)
    return tuple(found)


def by_lot(clients: Collection[int], lots: bytes, purpose: str) -> list[int]:
    """Clients in the order of their lots, SHA-256 of what nobody knew when it was settled who they are.

    Parameters
    ----------
    lots : bytes
        Random, on the ledger.
    purpose : str
        What is drawn: each draw has lots of its own.
    """
    return list(_in_order(tuple(clients), _LOT + lots + purpose.encode()))


@lru_cache(maxsize=64)  # everybody who acts in a round asks for the same orders in each step
def _in_order(clients: tuple[int, ...], tag: bytes) -> tuple[int, ...]:
    return tuple(sorted(clients, key=lambda client: hashlib.sha256(tag + client.to_bytes(4)).digest()))


def drawn_members(
    suspects: Collection[int],
    most: int,
    lots: bytes,
    judged: Mapping[int, int],
    opens: Opens | None = None,
) -> list[int]:
    """Suspects to judge, by lot and at most ``most``; those that were never judged come first.

    Parameters
    ----------
    judged : mapping of int to int
        When each was judged last.
    opens : callable, optional
        Who is opened when these are: of those who show what takes their masks off, others' masks come off, too. None
        but those who are judged may be.
    """
    chosen: list[int] = []
    for suspect in sorted(by_lot(suspects, lots, "member"), key=lambda client: judged.get(client, -1)):
        if len(chosen) == most:
            break
        also = set() if opens is None else opens({*chosen, suspect}) - {*chosen, suspect}
        if not also:
            chosen.append(suspect)
    return sorted(chosen)
