"""What the sum of one round is to hold, and what follows from it: functions of the ledger and of the state before.

Everybody computes the same: clients before they upload, the server, and whoever checks it.

A client's vector is summed in full once; afterwards, what it has gained and lost since. Where somebody leaves for good
nobody knows its vector to subtract it, so all others are summed anew, and the leaver's data are in nothing that the new
state was made from.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from node.kmeans.code import MAX_LIMIT, Code
from node.kmeans.counts import BinCounts
from node.kmeans.server import cluster
from node.kmeans.settings import ClusteringSettings
from node.kmeans.state import Contribution, State


class InvalidSum(ValueError):
    """A decoded sum is not what its clients were to send; the message says what is wrong."""


@dataclass(frozen=True)
class Requests:
    """What members have asked for and no round has honoured yet.

    Attributes
    ----------
    points : mapping of int to int
        How many points each client takes back.
    leavers : frozenset of int
        Clients that take back everything, for good.
    """

    points: Mapping[int, int]
    leavers: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Exchange:
    """One round.

    Attributes
    ----------
    settings : ClusteringSettings
    before : State
        That the round starts from.
    fresh : bool
        Everybody is summed anew.
    expected : mapping of int to int
        Clients that may change something: how many points each of them has afterwards.
    code : Code
        Of the sum.
    """

    settings: ClusteringSettings
    before: State
    fresh: bool
    expected: Mapping[int, int]
    code: Code

    @property
    def base(self) -> State:
        """What the sum is added to."""
        return State.empty(self.settings.dimensions) if self.fresh else self.before

    def finish(self, number: int, survivors: Collection[int], change: BinCounts, rng: np.random.Generator) -> State:
        """The state after round ``number``, given the decoded sum over the survivors.

        Raises
        ------
        InvalidSum
            More points are taken from a bin than it had, or the points are not as many as the clients state.
        """
        counts = self.base.counts + change
        if (counts.counts < 0).any():
            raise InvalidSum("more points were taken from a bin than it had")
        changed = {
            client: Contribution(number, self.expected[client]) for client in survivors if client in self.expected
        }
        contributions = dict(sorted((dict(self.base.contributions) | changed).items()))
        state = State(counts, contributions, self.before.centres)
        if counts.total != state.samples:
            raise InvalidSum(f"the sum counts {counts.total} points, its clients state {state.samples}")
        if counts == self.before.counts and not self.fresh:
            return state
        settings = self.settings
        model = cluster(counts, settings.grid, settings.k, rng, restarts=settings.restarts)
        return State(counts, contributions, model.centres)


def exchange(
    settings: ClusteringSettings, before: State, stated: Mapping[int, int], requests: Requests, key: bytes
) -> Exchange:
    """Plan a round.

    Parameters
    ----------
    stated : mapping of int to int
        Clients that will upload: how many points each says that it has.
    requests : Requests
        Recorded before the round was opened.
    key : bytes
        Of the code's hash, 32 bytes; used where the grid needs one.
    """
    leavers = requests.leavers | _emptied(before, requests)
    fresh = bool(leavers & before.contributions.keys())
    expected, bins, limit = {}, 0, 0
    for client, samples in stated.items():
        known = before.contributions.get(client)
        if client in leavers or (known and not fresh and client not in requests.points):
            continue
        left = known.samples - requests.points.get(client, 0) if known else samples
        both = known is not None and not fresh
        expected[client] = left
        bins += settings.k * (2 if both else 1)
        limit += left + (known.samples if both else 0)
    signed = not fresh and any(client in before.contributions for client in expected)
    grid = settings.grid
    code = Code(grid, max(1, bins), min(max(1, limit), MAX_LIMIT), key if grid.piece_count > 1 else b"", signed)
    return Exchange(settings, before, fresh, expected, code)


def _emptied(before: State, requests: Requests) -> set[int]:
    """Clients that take back, point by point, all that they have."""
    parts = before.contributions
    return {client for client, points in requests.points.items() if client in parts and points >= parts[client].samples}
