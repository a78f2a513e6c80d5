"""The mask graph of a round: who masks with whom, who holds whose shares, how many shares recover a secret."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from node.masking.context import Participant, RoundContext
from node.masking.keys import is_low_order

Mode = Literal["bbtsa", "pairwise"]
Adjacency = tuple[tuple[int, ...], ...]
"""For each position other positions, ascending and each once."""

MIN_CLIENTS = 3
"""The sum of two models shows each of two clients the other's."""

MAX_HOLDERS = 32


class InvalidGraph(ValueError):
    """No mask graph can be built from these arguments; the message says which is wrong."""


@dataclass(frozen=True)
class MaskGraph:
    """Public facts of a sealed round on which all clients agree.

    Attributes
    ----------
    context : RoundContext
    participants : tuple of Participant
        By position.
    neighbours : Adjacency
        The mask partners of each position; symmetric.
    holders : Adjacency
        The share-holders of each position.
    thresholds : tuple of int
        t: how many of its holders recover a position's secret.
    groups : Adjacency
        Positions that are summed apart, each group by itself; who is in none masks nothing. Empty: all are summed.
    """

    context: RoundContext
    participants: tuple[Participant, ...]
    neighbours: Adjacency
    holders: Adjacency
    thresholds: tuple[int, ...]
    groups: Adjacency = ()

    @property
    def n(self) -> int:
        """Number of drawn clients."""
        return len(self.participants)

    @cached_property
    def total_samples(self) -> int:
        """N = Σ nᵢ over all drawn clients."""
        return sum(participant.samples for participant in self.participants)

    @property
    def min_survivors(self) -> int:
        """With fewer survivors nothing may be released (spec 02, step 5)."""
        return max(MIN_CLIENTS, *self.thresholds)

    @cached_property
    def held_by(self) -> Adjacency:
        """The positions of whose shares each position is a holder: ``holders`` the other way round."""
        owners: list[list[int]] = [[] for _ in self.participants]
        for owner, holders in enumerate(self.holders):
            for holder in holders:
                owners[holder].append(owner)
        return tuple(map(tuple, owners))

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 over everything above: blobs of the round are bound to it."""
        state = hashlib.sha256(b"fedgrove mask graph 1" + self.context.to_bytes() + self.n.to_bytes(4))
        for participant, threshold in zip(self.participants, self.thresholds, strict=True):
            state.update(participant.to_bytes() + threshold.to_bytes(4))
        for adjacency in (self.neighbours, self.holders):
            for positions in adjacency:
                state.update(encode_positions(positions))
        for positions in self.groups:
            state.update(encode_positions(positions))
        return state.digest()

    def client(self, position: int) -> int:
        """Index on the ledger of the client at this position."""
        return self.participants[position].client


def build_graph(
    context: RoundContext,
    participants: Sequence[Participant],
    partners: Sequence[Sequence[int]],
    *,
    mode: Mode = "bbtsa",
    extra_partners: int = 0,
    seed: bytes,
    threshold: int | None = None,
    groups: Adjacency = (),
) -> MaskGraph:
    """Build the mask graph of a sealed round (spec 02, steps 2 and 3).

    Parameters
    ----------
    participants : sequence of Participant
        All drawn clients, in the order of the cooperation tree.
    partners : sequence of sequences of int
        Partners of each position in the cooperation tree.
    mode : {"bbtsa", "pairwise"}
        Mask with the tree's partners, or with everyone.
    extra_partners : int
        Partners added to the tree's: neighbours in a random regular graph (those that the tree gives already count
        once).
    seed : bytes
        The round's public seed; fixes the random graph.
    threshold : int, optional
        Shares that recover a secret; ⌊2k/3⌋ + 1 of k holders by default.
    groups : Adjacency
        Positions that are summed apart: only members of one group mask with each other, and ``partners`` are those in a
        group's own tree. Holders of shares are the same as without.

    Notes
    -----
    A client whose mask key is of low order has no partner: an agreement with such a key is known to everybody.

    Raises
    ------
    InvalidGraph
        Positions out of order, clients twice, partners that are not symmetric, or a threshold out of range.
    """
    _check_participants(participants)
    n = len(participants)
    _check_groups(groups, n)
    edges: list[set[int]] = [set() for _ in range(n)]
    if mode != "pairwise":
        _check_partners(partners, n)
    for group in groups or (tuple(range(n)),):
        extra = random_regular(len(group), len(group) if mode == "pairwise" else extra_partners, seed)
        for position, more in zip(group, extra, strict=True):
            own = () if mode == "pairwise" else partners[position]
            edges[position] = (set(own) | {group[place] for place in more}) & set(group)
    maskable = {p.position for p in participants if not is_low_order(p.mask_key)}
    neighbours = tuple(
        tuple(sorted(edges[position] & maskable)) if position in maskable else () for position in range(n)
    )
    holders = tuple(nearest(position, n) for position in range(n))
    thresholds = tuple(_threshold(len(own), threshold) for own in holders)
    return MaskGraph(context, tuple(participants), neighbours, holders, thresholds, groups)


def nearest(position: int, n: int) -> tuple[int, ...]:
    """The share-holders of a leaf: all others if n ≤ 32, else the 32 nearest leaves on the ring of the order."""
    if n <= MAX_HOLDERS:
        return tuple(other for other in range(n) if other != position)
    half = MAX_HOLDERS // 2
    return tuple(sorted((position + step) % n for step in range(-half, half + 1) if step))


def random_regular(n: int, degree: int, seed: bytes) -> Adjacency:
    """A random regular graph: a Harary graph, its vertices shuffled by a public seed (Bell et al. 2020, section 3).

    Every vertex has ``degree`` neighbours (all others if there are fewer); with n and ``degree`` both odd, one more.
    """
    if degree >= n - 1:
        return tuple(tuple(other for other in range(n) if other != position) for position in range(n))
    ring = sorted(range(n), key=lambda p: hashlib.sha256(b"fedgrove extra 1" + seed + p.to_bytes(4)).digest())
    steps = {step for reach in range(1, degree // 2 + 1) for step in (reach, -reach)}
    if degree % 2:
        steps |= {n // 2, -(n // 2)}
    places = {position: place for place, position in enumerate(ring)}
    return tuple(tuple(sorted({ring[(places[p] + step) % n] for step in steps})) for p in range(n))


def encode_positions(positions: Sequence[int]) -> bytes:
    """Canonical form of a list of positions: count (4 bytes), then each (4 bytes)."""
    return len(positions).to_bytes(4) + b"".join(position.to_bytes(4) for position in positions)


def _threshold(holders: int, wanted: int | None) -> int:
    if wanted is None:
        return 2 * holders // 3 + 1
    if not 1 < wanted <= holders:
        raise InvalidGraph(f"a threshold of {wanted} does not fit {holders} share-holders: set it from 2 to {holders}")
    return wanted


def _check_participants(participants: Sequence[Participant]) -> None:
    if [participant.position for participant in participants] != list(range(len(participants))):
        raise InvalidGraph("the participants are not listed in the order of the cooperation tree")
    if len({participant.client for participant in participants}) != len(participants):
        raise InvalidGraph("a client takes part twice")
    if len(participants) < 2:
        raise InvalidGraph(f"{len(participants)} clients cannot mask: draw at least {MIN_CLIENTS}")


def _check_groups(groups: Adjacency, n: int) -> None:
    together = [position for group in groups for position in group]
    if len(set(together)) != len(together) or not set(together) <= set(range(n)):
        raise InvalidGraph("a position is in two groups, or not in the round's order")


def _check_partners(partners: Sequence[Sequence[int]], n: int) -> None:
    if len(partners) != n:
        raise InvalidGraph(f"there are {len(partners)} lists of partners for {n} clients")
    edges = {(position, partner) for position, own in enumerate(partners) for partner in own}
    for position, partner in edges:
        if not 0 <= partner < n or partner == position or (partner, position) not in edges:
            raise InvalidGraph(f"{partner} is no partner for position {position}")
