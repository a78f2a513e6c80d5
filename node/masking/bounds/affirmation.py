"""Step affirm: whose bytes count as available, by the votes of those who hold shares of their secrets.

A member's digests may be on the ledger while its bytes are nowhere, or are served to some only. Each member votes once,
in one word on the ledger, on all members whose shares it holds: a bit says that it holds what the member listed so far,
its voucher and its depositions, and that it knows of no objection to the member's upload, or has fetched the upload
itself. A member is present with the votes of a threshold of its holders.

A threshold is more than colluders alone, so an honest member holds what is called present. And where a threshold of
honest holders is left, without which no secret could be recovered either, denials cannot push out a member whose bytes
can be fetched. A majority of the few witnesses of each upload would not do: of 100 members, 33 of whom collude, an
honest one has a colluding majority among seven witnesses with a probability of 0.17.

Whether a voucher is valid is nobody's word: everybody checks those of members that are present.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.graph import MaskGraph

WORD_BYTES = 32
SLOTS = 8 * WORD_BYTES
"""Members in one word. Whoever holds shares of more says nothing of the last ones."""


@dataclass(frozen=True)
class Vote:
    """A word that is on the ledger.

    Attributes
    ----------
    listed_at : int
        Its place among the records of the round, in the ledger's order.
    word : bytes
    """

    listed_at: int
    word: bytes


def encode_vote(graph: MaskGraph, holder: int, available: Collection[int]) -> bytes:
    """A holder's word, 32 bytes: bit p is for the member at place p of ``votes_on``."""
    bits = sum((owner in available) << place for place, owner in enumerate(votes_on(graph, holder)))
    return bits.to_bytes(WORD_BYTES)


def decode_vote(data: bytes, graph: MaskGraph, holder: int) -> frozenset[int]:
    """The members that a holder votes for; InvalidContent: not 32 bytes, or bits for members it holds no shares of."""
    owners = votes_on(graph, holder)
    bits = int.from_bytes(data)
    if len(data) != WORD_BYTES or bits >> len(owners):
        raise InvalidContent(f"client {graph.client(holder)} votes on members whose shares it does not hold")
    return frozenset(owner for place, owner in enumerate(owners) if bits >> place & 1)


def votes_on(graph: MaskGraph, holder: int) -> tuple[int, ...]:
    """The members that a holder votes on, ascending."""
    return graph.held_by[holder][:SLOTS]


class Votes:
    """All votes of a round, counted.

    Parameters
    ----------
    graph : MaskGraph
    cast : mapping of int to Vote
        By the holder's position. A word that does not decode is a vote for nobody.
    """

    def __init__(self, graph: MaskGraph, cast: Mapping[int, Vote]) -> None:
        self._threshold = graph.threshold
        self._for: dict[int, list[int]] = {}
        for holder, vote in cast.items():
            try:
                found = decode_vote(vote.word, graph, holder)
            except InvalidContent:
                continue
            for owner in found:
                self._for.setdefault(owner, []).append(vote.listed_at)

    def has(self, owner: int, listed_at: int = -1) -> bool:
        """Whether a threshold of its holders, with votes listed after this place, hold what a member listed before."""
        return sum(place > listed_at for place in self._for.get(owner, ())) >= self._threshold

    def present(self, vouched: Collection[int]) -> frozenset[int]:
        """Those of the members that vouched in time whose bytes count as available."""
        return frozenset(owner for owner in vouched if self.has(owner))
