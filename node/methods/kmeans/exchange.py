"""Expected sums of one round and their results: functions of the ledger and the previous state.

Everybody computes the same: clients before they upload, the server, and whoever checks it.

A round sums nothing (nobody has joined, left or taken points back), or it sums the whole vectors of all who are there,
each drawn afresh (``node.methods.kmeans.vector``). Never a difference: what has changed in one client's vector is that
client's alone, and that of three clients is known to any of them that know the other two's. So the state after a round
is made from what members have then, and from nothing older.

All are summed together, or in groups after a sum that could not be decoded: whoever spoils the sum of its group keeps
only that out of the state.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedgrove.common.errors import InvalidContent
from fedgrove.node.methods.kmeans.code import Code
from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.server import cluster
from fedgrove.node.methods.kmeans.settings import KMeansSettings
from fedgrove.node.methods.kmeans.state import KMeansState

LEAST = 3
"""Members that a sum needs: over two, each learns the other's vector."""


@dataclass(frozen=True)
class OpenedSum:
    """The sum of one group.

    Attributes
    ----------
    bounds : mapping of int to int
        For each client, how many points it counts at most, as it stated.
    code : Code
        Of the sum.
    """

    bounds: Mapping[int, int]
    code: Code


@dataclass(frozen=True)
class Exchange:
    """One round.

    Attributes
    ----------
    settings : KMeansSettings
    before : State
        That the round starts from.
    sums : tuple of GroupSum or None
        One for each group; None for a group that is too small to be summed. Empty where the round sums nothing.
    """

    settings: KMeansSettings
    before: KMeansState
    sums: tuple[OpenedSum | None, ...] = ()

    def sum_of(self, client: int) -> OpenedSum | None:
        """The sum that a client's vector goes into; None where nothing is asked of it."""
        return next((each for each in self.sums if each is not None and client in each.bounds), None)

    def finish(
        self,
        number: int,
        survivors: Collection[int],
        decoded: Sequence[BinCounts | None],
        rng: np.random.Generator,
    ) -> KMeansState:
        """The state after round ``number``.

        Parameters
        ----------
        survivors : collection of int
            Clients whose uploads are listed.
        decoded : sequence of BinCounts or None
            For each of ``sums``, the sum over its survivors; None where it could not be decoded.

        Raises
        ------
        InvalidContent
            No group has a sum that its members can have sent.
        """
        settings = self.settings
        counts, clients, whole = BinCounts.empty(settings.dimensions), set(), True
        for each, own in zip(self.sums, decoded, strict=True):
            if each is None:
                continue
            members = set(survivors) & set(each.bounds)
            if own is None or not _fits(own, each, members, settings.most_points - counts.total):
                whole = False
                continue
            counts, clients = counts + own, clients | members
        if not clients:
            raise InvalidContent("none of the sums can come from honest members")
        model = cluster(counts, settings.grid, settings.k, rng, restarts=settings.restarts)
        last_whole = number if whole else self.before.whole
        groups = 1 if whole else len(self.sums)
        return KMeansState(counts, tuple(sorted(clients)), model.centres, number, last_whole, groups)


def exchange(
    settings: KMeansSettings,
    before: KMeansState,
    groups: Sequence[Collection[int]],
    stated: Mapping[int, int],
    asked: Collection[int],
    key: bytes,
) -> Exchange:
    """Plan a round in which a sum may be made.

    Parameters
    ----------
    groups : sequence of collections of int
        Clients that are summed together. A member that has left is in none.
    stated : mapping of int to int
        Clients that will upload: how many points each says that it has at most.
    asked : collection of int
        Clients that took something back that ``before`` was made from.
    key : bytes
        Of the code's hash, 32 bytes; used where the grid needs one.
    """
    members = [{client: stated[client] for client in group if client in stated} for group in groups]
    joined = any(client not in before.clients for group in members for client in group)
    if not (joined or asked) or all(len(group) < LEAST for group in members):
        return Exchange(settings, before)
    sums = (_group_sum(settings, group, key) if len(group) >= LEAST else None for group in members)
    return Exchange(settings, before, tuple(sums))


def _group_sum(settings: KMeansSettings, bounds: Mapping[int, int], key: bytes) -> OpenedSum:
    grid, limit = settings.grid, max(1, min(sum(bounds.values()), settings.most_points))
    return OpenedSum(bounds, Code(grid, settings.k * len(bounds), limit, key if grid.piece_count > 1 else b""))


def _fits(own: BinCounts, each: OpenedSum, members: Collection[int], most: int) -> bool:
    """Whether a group's sum counts points, and no more than its members state and the terms allow."""
    return bool((own.counts > 0).all()) and own.total <= min(most, sum(each.bounds[client] for client in members))
