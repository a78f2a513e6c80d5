"""The mask graph of a round: who masks with whom, who holds whose shares, how many shares recover a secret."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Literal

import numpy as np

from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.context import Participant, RoundContext
from fedgrove.node.masking.parameters import DEFAULT_ASSUMED, Sharing, sharing
from fedgrove.node.masking.x_only import is_key

Mode = Literal["bbtsa", "pairwise"]
Adjacency = tuple[tuple[int, ...], ...]
"""For each position other positions, ascending and each once."""

MIN_CLIENTS = 3
"""The sum of two models shows each of two clients the other's."""

WITNESSES = 7

_PARTNERS, _HOLDERS = b"fedgrove partners 1", b"fedgrove holders 1"


@dataclass(frozen=True)
class Group:
    """Positions that are summed together, if enough of them survive.

    Attributes
    ----------
    positions : tuple of int
        Ascending.
    quota : int
        The fewest of those that count that must survive, connected by masks.
    counted : tuple of int
        Which positions count.
    """

    positions: tuple[int, ...]
    quota: int
    counted: tuple[int, ...]

    @classmethod
    def of(cls, positions: Sequence[int], least: int, counted: Sequence[int] | None = None, size: int = 0) -> "Group":
        """A group; at least ``least`` of it, and more than half, must survive.

        ``counted`` are those that count, by default all, and ``size`` how many they were where some are not here.
        """
        counted = positions if counted is None else counted
        quota = max(MIN_CLIENTS, least, max(size, len(counted)) // 2 + 1)
        return cls(tuple(positions), quota, tuple(counted))


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
    threshold : int
        t: how many of its holders recover a position's secret.
    groups : tuple of Group
        Who is summed with whom: all in one, or each group by itself; who is in none masks nothing.
    """

    context: RoundContext
    participants: tuple[Participant, ...]
    neighbours: Adjacency
    holders: Adjacency
    threshold: int
    groups: tuple[Group, ...]

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
        """With fewer survivors nothing may be released."""
        return max(MIN_CLIENTS, self.threshold)

    @property
    def is_whole(self) -> bool:
        """Whether all are summed in one."""
        return len(self.groups) == 1 and len(self.groups[0].positions) == self.n

    @cached_property
    def held_by(self) -> Adjacency:
        """The positions of whose shares each position is a holder: ``holders`` the other way round."""
        edges = _edges(self.holders, self.n)
        return _adjacency(edges % self.n * self.n + edges // self.n, self.n)

    def witnesses(self, owner: int) -> tuple[int, ...]:
        """The holders that say whether a position's masked update can be fetched: a few, so that nobody asks for all.

        Those that come first after it on the ring of the order.
        """
        after = sorted(self.holders[owner], key=lambda holder: (holder - owner) % self.n)
        return tuple(after[:WITNESSES])

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 over everything above: blobs of the round are bound to it."""
        state = hashlib.sha256(b"fedgrove mask graph 3" + self.context.to_bytes() + self.n.to_bytes(4))
        quotas = tuple(group.quota for group in self.groups)
        state.update(self.threshold.to_bytes(4) + _encode((quotas,)))
        for participant in self.participants:
            state.update(participant.to_bytes())
        groups = [each for group in self.groups for each in (group.positions, group.counted)]
        for adjacency in (self.neighbours, self.holders, groups):
            state.update(_encode(adjacency))
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
    degree: int = 0,
    shares: Sharing | None = None,
    seed: bytes,
    groups: Sequence[Group] = (),
    least: int = MIN_CLIENTS,
) -> MaskGraph:
    """Build the mask graph of a sealed round.

    Parameters
    ----------
    participants : sequence of Participant
        All drawn clients, in the order of the cooperation tree.
    partners : sequence of sequences of int
        Partners of each position in the cooperation tree.
    mode : {"bbtsa", "pairwise"}
        Mask with the tree's partners and random ones, or with everyone.
    degree : int
        Random partners: neighbours in a random regular graph (those that the tree gives already count once).
    shares : Sharing, optional
        How many others hold shares of a client's secrets, and how many of them recover one; by default as the default
        assumptions ask for.
    seed : bytes
        Fixes the random partners and holders. Nobody may know it while anybody can still choose to draw: else colluders
        choose who of them draws so that an honest client has only them for partners.
    groups : sequence of Group
        Who is summed apart: all of a group mask with each other, and with nobody else. Who is in which may be known
        before the draw, so that nothing smaller than everybody is safe. Holders of shares are the same as without.
        Empty: all are summed in one.
    least : int
        The fewest survivors with which all are summed in one; more than half in any case.

    Notes
    -----
    A client whose mask key is not on the curve has no partner: nobody can agree with it on a mask.

    Raises
    ------
    InvalidContent
        Positions out of order, clients twice, partners that are not symmetric, or a threshold out of range.
    """
    _check_participants(participants)
    n = len(participants)
    everybody = (Group.of(range(n), least),)
    _check_groups(groups, n)
    if groups or mode == "pairwise":
        edges = _everybody([group.positions for group in groups or everybody], n)
    else:
        _check_partners(partners, n)
        edges = np.concatenate([_edges(partners, n), _regular(n, degree, _PARTNERS + seed)])
    maskable = np.array([is_key(each.mask_key) for each in participants])
    neighbours = _adjacency(edges[maskable[edges // n] & maskable[edges % n]], n)
    shares = shares or sharing(n, DEFAULT_ASSUMED)
    if not (1 < shares.threshold <= shares.holders < n or n == shares.holders + 1 == shares.threshold + 1 == 2):
        raise InvalidContent(
            f"a threshold of {shares.threshold} does not fit {shares.holders} holders among {n} clients"
        )
    holders = random_regular(n, shares.holders, _HOLDERS + seed)
    return MaskGraph(context, tuple(participants), neighbours, holders, shares.threshold, tuple(groups) or everybody)


# An edge is a number: the position it is an edge of, times n, plus the other position. A graph is an array of these.


def _edges(adjacency: Sequence[Sequence[int]], n: int) -> np.ndarray:
    owners = np.repeat(np.arange(len(adjacency)), list(map(len, adjacency)))
    return owners * n + np.fromiter(chain.from_iterable(adjacency), np.int64, len(owners))


def _adjacency(edges: np.ndarray, n: int) -> Adjacency:
    """For each position the others, ascending, each once."""
    edges = np.sort(edges)  # np.unique hashes first, and takes ten times as long
    edges = edges[np.diff(edges, prepend=-1) > 0]
    others, ends = (edges % n).tolist(), np.searchsorted(edges, np.arange(1, n + 1) * n).tolist()
    return tuple(tuple(others[start:end]) for start, end in pairwise([0, *ends]))


def _everybody(groups: Sequence[Sequence[int]], n: int) -> np.ndarray:
    """Edges where all of a group mask with each other."""
    found = [np.zeros(0, np.int64)]
    for group in (np.array(each, np.int64) for each in groups):  # a group may be empty
        edges = (group[:, None] * n + group).ravel()
        found.append(edges[edges // n != edges % n])
    return np.concatenate(found)


def random_regular(n: int, degree: int, seed: bytes) -> Adjacency:
    """A random regular graph: a Harary graph, its vertices shuffled by a public seed (Bell et al. 2020, section 3).

    Every vertex has ``degree`` neighbours (all others if there are fewer); with n and ``degree`` both odd, one more.
    """
    return _adjacency(_regular(n, degree, seed), n)


def _regular(n: int, degree: int, seed: bytes) -> np.ndarray:
    if degree >= n - 1:
        return _everybody((tuple(range(n)),), n)
    ring = np.array(sorted(range(n), key=lambda p: hashlib.sha256(seed + p.to_bytes(4)).digest()))
    reach = np.arange(1, degree // 2 + 1)
    steps = np.concatenate([reach, -reach, [n // 2, -(n // 2)] if degree % 2 else []]).astype(np.int64)
    return (ring[:, None] * n + ring[(np.arange(n)[:, None] + steps) % n]).ravel()


def encode_positions(positions: Sequence[int]) -> bytes:
    """Canonical form of a list of positions: count (4 bytes), then each (4 bytes)."""
    return len(positions).to_bytes(4) + b"".join(position.to_bytes(4) for position in positions)


def decode_positions(data: bytes, most: int, name: str) -> tuple[tuple[int, ...], bytes]:
    """Read such a list of at most ``most``, and what follows it; ``name`` is that of the blob in InvalidContent."""
    count = int.from_bytes(data[:4])
    end = 4 + 4 * count
    if count > most or len(data) < end:
        raise InvalidContent(f"{name} is cut short, or lists more than {most} positions")
    positions = tuple(int.from_bytes(data[start : start + 4]) for start in range(4, end, 4))
    if list(positions) != sorted(set(positions)):
        raise InvalidContent(f"{name} does not list positions in order, each once")
    return positions, data[end:]


def _encode(adjacency: Sequence[Sequence[int]]) -> bytes:
    """The canonical forms of several lists of positions, one after the other."""
    return np.array([*chain.from_iterable((len(each), *each) for each in adjacency)], ">u4").tobytes()


def _check_participants(participants: Sequence[Participant]) -> None:
    if [participant.position for participant in participants] != list(range(len(participants))):
        raise InvalidContent("the participants are not listed in the order of the cooperation tree")
    if len({participant.client for participant in participants}) != len(participants):
        raise InvalidContent("a client appears twice")
    if len(participants) < 2:
        raise InvalidContent(f"{len(participants)} clients cannot mask: draw at least {MIN_CLIENTS}")


def _check_groups(groups: Sequence[Group], n: int) -> None:
    together = [position for group in groups for position in group.positions]
    if len(set(together)) != len(together) or not set(together) <= set(range(n)):
        raise InvalidContent("a position is in two groups, or is not in the round's order")


def _check_partners(partners: Sequence[Sequence[int]], n: int) -> None:
    if len(partners) != n:
        raise InvalidContent(f"there are {len(partners)} lists of partners for {n} clients")
    edges = {(position, partner) for position, own in enumerate(partners) for partner in own}
    for position, partner in edges:
        if not 0 <= partner < n or partner == position or (partner, position) not in edges:
            raise InvalidContent(f"{partner} cannot be a partner of position {position}")
