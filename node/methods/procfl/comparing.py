"""The comparisons of a federation, message by message: what each client uploads in which round.

    blind → answer → (count)        the counter opens the answers, which are sealed to it, and counts

After its first message, which is for everybody, a client's upload has one part for each of its partners, in their
order, each of a length that follows from the sizes of the sets. A part that cannot be made is zero, and a pair whose
messages do not fit has nothing in common: who sends nonsense is like nobody.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.keys import clamp
from fedgrove.node.methods.procfl import ecdh
from fedgrove.node.methods.procfl.messages import TAG_BYTES, message_bytes
from fedgrove.node.methods.procfl.points import POINT_BYTES
from fedgrove.node.methods.procfl.sets import elements
from fedgrove.node.methods.procfl.stated import Counts

STAGES = ("blind", "answer")
"""The rounds in which clients compare."""

Sizes = Mapping[int, int]
"""Elements of each client's set, ascending by client."""


@dataclass(frozen=True)
class Party:
    """One client in one clustering. The same secret and set give the same messages, also after a restart.

    Attributes
    ----------
    session : bytes
        32 bytes that name the clustering.
    client : int
    counts : Counts
        Its samples of each label.
    secret : bytes
        32 random bytes, for this clustering only. Whoever has them and the first message can tell the counts.
    """

    session: bytes
    client: int
    counts: Counts = field(repr=False)
    secret: bytes = field(repr=False)

    @cached_property
    def blinder(self) -> ecdh.EcdhClient:
        """Its side of the protocol."""
        chi = elements(np.array(self.counts, np.int64))
        return ecdh.EcdhClient(self.session, self.client, chi, clamp(self.secret))


def blinded_set(party: Party) -> bytes:
    """A client's first message, to all."""
    return party.blinder.blinded


def blinded_bytes(size: int) -> int:
    """Length of the first message about a set of this many elements."""
    return message_bytes(size, POINT_BYTES)


def set_size(message: bytes, session: bytes, client: int) -> int:
    """Elements of the set behind a first message; raises InvalidContent for anything else."""
    return len(ecdh.read_points(message, session, client))


def answer_lengths(sizes: Sizes, client: int) -> dict[int, int]:
    """Bytes of each part of a client's answers, by partner."""
    return {partner: message_bytes(size, TAG_BYTES) for partner, size in sizes.items() if partner != client}


def answers(party: Party, sizes: Sizes, blinded: Mapping[int, bytes]) -> bytes:
    """A client's answers, for the counter only: its parts for all partners, joined.

    Parameters
    ----------
    blinded : mapping of int to bytes
        Each partner's first message.
    """
    parts = []
    for partner, length in answer_lengths(sizes, party.client).items():
        try:
            part = party.blinder.answer(partner, blinded[partner])
        except InvalidContent:
            part = bytes(length)
        parts.append(part)
    return b"".join(parts)


def part_of(lengths: Mapping[int, int], partner: int, data: bytes) -> bytes:
    """The part of an upload that is for a partner."""
    start = 0
    for other, length in lengths.items():
        if other == partner:
            return data[start : start + length]
        start += length
    return b""
