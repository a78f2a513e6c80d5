"""Whose upload and voucher can be fetched, by the word of those who hold shares of them.

A member's digests may be on the ledger while its bytes are nowhere, or served to some only. A few of its share-holders,
its witnesses, say in one word of the ledger what they hold. If one of them denies, or too few speak, or somebody
challenges the member, all of its holders vote: it is present if a threshold of them hold its bytes. A threshold is more
than colluders alone, so somebody honest has what is called present; and where a threshold of honest holders is left, as
secrets could not be recovered otherwise, denials cannot push out a member that published.

Whether a voucher is valid is nobody's word: everybody checks those of members that are present.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.graph import MaskGraph

WORD_BYTES = 32
SLOTS = 128
"""Members in one word, two bits each. A witness of more says nothing of the last ones."""

_WORD_BITS = 8 * WORD_BYTES


@dataclass(frozen=True)
class Observation:
    """What a witness says of a member.

    Attributes
    ----------
    available : bool
        It holds the member's masked update and voucher, both as their digests on the ledger demand.
    valid : bool
        The voucher's proofs verify. Only said of what is available.
    """

    available: bool
    valid: bool

    def __post_init__(self) -> None:
        if self.valid and not self.available:
            raise ValueError("a witness cannot verify a voucher that it does not hold")


@dataclass(frozen=True)
class Statements:
    """What the ledger lists about availability.

    Attributes
    ----------
    vouched : tuple of int
        Positions whose voucher's digest was listed in time, ascending.
    affirmations : mapping of int to bytes
        A witness's position to its word. One that does not decode counts as silence.
    challenges : mapping of int to int
        A challenger's position to the member that it challenges.
    discredited : frozenset of int
        Positions that were outvoted in an earlier round: their affirmations and challenges do not count.
    """

    vouched: tuple[int, ...]
    affirmations: Mapping[int, bytes]
    challenges: Mapping[int, int]
    discredited: frozenset[int] = frozenset()


def encode_affirmation(
    graph: MaskGraph, witness: int, vouched: Collection[int], observed: Mapping[int, Observation]
) -> bytes:
    """A witness's word, 32 bytes: two bits for each member in ``attested``, the first in the lowest bits.

    Members without an observation are denied.
    """
    word = 0
    for slot, owner in enumerate(attested(graph, witness, vouched)):
        found = observed.get(owner, Observation(False, False))
        word |= (found.available | found.valid << 1) << 2 * slot
    return word.to_bytes(WORD_BYTES)


def decode_affirmation(data: bytes, graph: MaskGraph, witness: int, vouched: Collection[int]) -> dict[int, Observation]:
    """Read a witness's word.

    Raises InvalidContent: not 32 bytes, verified without being held, or bits beyond the members it is a witness of.
    """
    owners = attested(graph, witness, vouched)
    word = int.from_bytes(data)
    if len(data) != WORD_BYTES or word >> 2 * len(owners):
        raise InvalidContent(
            f"the affirmation of client {graph.client(witness)} has bits for members it is no witness of"
        )
    found: dict[int, Observation] = {}
    for slot, owner in enumerate(owners):
        available, valid = bool(word >> 2 * slot & 1), bool(word >> 2 * slot & 2)
        if valid and not available:
            raise InvalidContent(f"client {graph.client(witness)} affirms a proof that it does not hold")
        found[owner] = Observation(available, valid)
    return found


def encode_votes(graph: MaskGraph, holder: int, challenged: Collection[int], available: Collection[int]) -> bytes:
    """A holder's votes on the challenged members whose shares it holds: one bit each, in as many words as needed."""
    owners = _held(graph, holder, challenged)
    bits = sum((owner in available) << place for place, owner in enumerate(owners))
    return bits.to_bytes(_votes_bytes(owners))


def decode_votes(data: bytes, graph: MaskGraph, holder: int, challenged: Collection[int]) -> frozenset[int]:
    """The challenged members of which a holder says that it has the bytes; InvalidContent: not canonical."""
    owners = _held(graph, holder, challenged)
    bits = int.from_bytes(data)
    if len(data) != _votes_bytes(owners) or bits >> len(owners):
        raise InvalidContent(f"the votes of client {graph.client(holder)} do not fit the challenged members")
    return frozenset(owner for place, owner in enumerate(owners) if bits >> place & 1)


def attested(graph: MaskGraph, witness: int, vouched: Collection[int]) -> tuple[int, ...]:
    """The members that a witness speaks of, ascending."""
    owners = (owner for owner in graph.held_by[witness] if owner in vouched and witness in graph.witnesses(owner))
    return tuple(owners)[:SLOTS]


def challenged(graph: MaskGraph, said: Statements) -> tuple[int, ...]:
    """The members that all of their holders vote on, ascending.

    A witness denied one, no majority of its witnesses spoke, or somebody challenges it.
    """
    observed = _observations(graph, said)
    doubted = {member for by, member in said.challenges.items() if by not in said.discredited}
    return tuple(owner for owner in said.vouched if owner in doubted or not _is_affirmed(graph, owner, observed, said))


def present(graph: MaskGraph, said: Statements, votes: Mapping[int, bytes]) -> frozenset[int]:
    """The members that vouched and whose bytes count as available to all.

    Parameters
    ----------
    votes : mapping of int to bytes
        By holder's position; those that do not decode count as silence.
    """
    open_ = challenged(graph, said)
    kept = _tally(graph, open_, votes)
    return frozenset(owner for owner in said.vouched if owner not in open_ or owner in kept)


def outvoted(graph: MaskGraph, said: Statements, votes: Mapping[int, bytes]) -> tuple[int, ...]:
    """Witnesses that denied, and challengers of, a member that the votes call present, ascending.

    Each made all holders of the member download its update. No proof of a lie, as a store may have failed them, so they
    are not named: they are ``discredited`` in later rounds.
    """
    kept = _tally(graph, challenged(graph, said), votes)
    found = {by for by, member in said.challenges.items() if member in kept and by not in said.discredited}
    for witness, observed in _observations(graph, said).items():
        if any(owner in kept and not word.available for owner, word in observed.items()):
            found.add(witness)
    return tuple(sorted(found))


def _observations(graph: MaskGraph, said: Statements) -> dict[int, dict[int, Observation]]:
    found: dict[int, dict[int, Observation]] = {}
    for witness, word in said.affirmations.items():
        if witness in said.discredited:
            continue
        try:
            found[witness] = decode_affirmation(word, graph, witness, said.vouched)
        except InvalidContent:
            continue
    return found


def _is_affirmed(
    graph: MaskGraph, owner: int, observed: Mapping[int, Mapping[int, Observation]], said: Statements
) -> bool:
    witnesses = [witness for witness in graph.witnesses(owner) if witness not in said.discredited]
    words = [observed[witness][owner] for witness in witnesses if owner in observed.get(witness, ())]
    return 2 * len(words) > len(witnesses) and all(word.available for word in words)


def _tally(graph: MaskGraph, members: Iterable[int], votes: Mapping[int, bytes]) -> frozenset[int]:
    """Those of the challenged members that a threshold of holders have."""
    members = tuple(members)
    counts = dict.fromkeys(members, 0)
    for holder, data in votes.items():
        try:
            found = decode_votes(data, graph, holder, members)
        except InvalidContent:
            continue
        for owner in found:
            counts[owner] += 1
    return frozenset(owner for owner, count in counts.items() if count >= graph.threshold)


def _held(graph: MaskGraph, holder: int, members: Collection[int]) -> tuple[int, ...]:
    return tuple(owner for owner in graph.held_by[holder] if owner in members)


def _votes_bytes(owners: Collection[int]) -> int:
    return WORD_BYTES * -(-len(owners) // _WORD_BITS)
