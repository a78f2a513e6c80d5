"""A federation in one process: clients, masked uploads, decoding, clustering, and the removal of points and clients.

Everything a real one sends goes through the same code, masks included. Keys of pairs come from the generator instead
of a key agreement, and nobody drops out.

A removal (``forget``, ``leave``) sums differences, as in the paper. Each client sends what its vector has gained and
lost since the last round, nearly always nothing; the server adds the sum to the counts that it has. 2·K·R bins change
where R clients were asked, not K·L: less to send, and far less to decode. But the difference of two sums is then that
of the clients that were asked. A federation on a ledger, whose sums are public, sums everybody anew (``renew``).
"""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.methods.kmeans import field as gf
from fedgrove.node.methods.kmeans.client import KMeansClient
from fedgrove.node.methods.kmeans.code import Code
from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.decoder import decode
from fedgrove.node.methods.kmeans.grid import BinGrid
from fedgrove.node.methods.kmeans.masks import apply_masks
from fedgrove.node.methods.kmeans.server import GlobalCentres, cluster
from fedgrove.node.methods.kmeans.vector import draw_client
from fedgrove.node.simulation.kmeans.losses import induced_loss, nearest_loss

_KEY_BYTES = 32


@dataclass(frozen=True)
class SimulationSettings:
    """What the clients of a federation agree on.

    Attributes
    ----------
    k : int
        K, clusters at the server and centroids at each client.
    restarts : int
        Seedings that the server tries.
    uniform : bool
        Whether the server places points uniformly in their bins (appendix H) instead of at the centres.
    iterations : int
        Lloyd's, at each client after its seeding; 0 as in algorithm 1.
    reach : int
        Each client masks with this many clients on either side of it, in a circle.
    least_share : float
        ``renew`` seeds from a random part of each client's points, at least this share
        (``node.methods.kmeans.vector``).
    """

    k: int
    grid: BinGrid
    restarts: int = 20
    uniform: bool = False
    iterations: int = 0
    reach: int = 5
    least_share: float = 0.5


@dataclass(frozen=True)
class Seconds:
    """What a round took, by the clock that the simulation was given: clients work side by side, then the server.

    Attributes
    ----------
    computing : float
        The slowest client's seeding or forgetting, and its vector.
    uploading : float
        The slowest client's encoding and masking.
    decoding, clustering : float
        The server's.
    """

    computing: float
    uploading: float
    decoding: float
    clustering: float

    @property
    def total(self) -> float:
        return self.computing + self.uploading + self.decoding + self.clustering


@dataclass(frozen=True)
class SimulatedRound:
    """What a round gave.

    Attributes
    ----------
    counts : BinCounts
        q, the sum over all clients.
    redrawn : mapping of int to int
        Centroids that each client asked to forget gave up and drew again; 0 where only counts changed.
    upload_bytes : int
        That each client sent.
    """

    model: GlobalCentres
    counts: BinCounts
    redrawn: Mapping[int, int]
    upload_bytes: int
    seconds: Seconds


class Federation:
    """Clients and server.

    Parameters
    ----------
    parts : sequence of float arrays of shape (n, d)
        Points of each client, at least two of them.
    rng : numpy Generator
        Everything random follows from it.
    clock : callable
        Gives seconds; by default nothing is timed.
    """

    def __init__(
        self,
        parts: Sequence[np.ndarray],
        settings: SimulationSettings,
        rng: np.random.Generator,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        if len(parts) < 2:
            raise ValueError("a federation needs two clients: the sum over one is its own vector")
        self._parts, self._settings, self._clock = parts, settings, clock
        self._server_rng, self._key_rng, *self._client_rngs = rng.spawn(2 + len(parts))
        self._points = sum(map(len, parts))
        self.clients: dict[int, KMeansClient] = {}
        self._sent: dict[int, BinCounts] = {}
        self._round: SimulatedRound | None = None

    @property
    def round(self) -> SimulatedRound:
        """The last one."""
        if self._round is None:
            raise ValueError("nothing has been trained: call train first")
        return self._round

    def train(self) -> SimulatedRound:
        """Seed every client, sum their vectors and cluster the sum (algorithm 1); once, as it would undo removals."""
        if self._round is not None:
            raise ValueError("the federation has been trained: to start anew, make one of the points that are left")
        members = range(len(self._parts))
        code = self._code(self._settings.k * len(self._parts), self._points, signed=False)

        def vector(index: int) -> BinCounts:
            part, rng = self._parts[index], self._client_rngs[index]
            self.clients[index] = KMeansClient(
                part, self._settings.k, self._settings.grid, rng, iterations=self._settings.iterations
            )
            self._sent[index] = self.clients[index].vector()
            return self._sent[index]

        return self._run(code, members, vector, BinCounts.empty(self._settings.grid.dimensions), {})

    def forget(self, requests: Mapping[int, np.ndarray]) -> SimulatedRound:
        """Remove rows of some clients in one request (algorithm 4, single-client removal, for several at once).

        Raises
        ------
        InvalidInput
            A client or a row is not there; nothing is removed then.
        """
        self._check(requests)
        redrawn: dict[int, int] = {}
        code = self._code(2 * self._settings.k * len(requests), 2 * self._points, signed=True)

        def difference(index: int) -> BinCounts:
            if index not in requests:
                return BinCounts.empty(self._settings.grid.dimensions)
            redrawn[index] = self.clients[index].forget(requests[index])
            before, self._sent[index] = self._sent[index], self.clients[index].vector()
            return self._sent[index] - before

        return self._run(code, self.clients, difference, self.round.counts, redrawn)

    def renew(self, requests: Mapping[int, np.ndarray]) -> SimulatedRound:
        """Remove rows of some clients, and sum everybody anew, each from a fresh seeding of a part of its points."""
        self._check(requests)
        for index, rows in requests.items():
            self.clients[index].forget(rows)
        settings, chosen = self._settings, {}
        options = {"least_share": settings.least_share, "iterations": settings.iterations}

        def vector(index: int) -> BinCounts:
            rows, rng = self.clients[index].rows, self._client_rngs[index]
            drawn, part = draw_client(self._parts[index][rows], settings.k, settings.grid, rng, **options)
            chosen[index] = rows[part[drawn.seeding.centroids]]
            self._sent[index] = drawn.vector()
            return self._sent[index]

        code = self._code(settings.k * len(self.clients), self._points, signed=False)
        done = self._run(code, self.clients, vector, BinCounts.empty(settings.grid.dimensions), {})
        for index, centroids in chosen.items():  # for losses: all points follow the centroids that were drawn
            if not len(centroids):
                continue  # it drew none of its few points, which stay where they were
            points, rng = self.clients[index].points, self._client_rngs[index]
            self.clients[index] = KMeansClient(
                points, settings.k, settings.grid, rng, iterations=settings.iterations, centroids=centroids
            )
        return done

    def leave(self, leavers: Collection[int]) -> SimulatedRound:
        """Remove whole clients (algorithm 4, multi-client removal): they take their vectors out of the sum."""
        self._check_members(leavers)
        if len(self.clients) - len(leavers) < 2:
            raise ValueError("two clients must stay: the sum over one is its own vector")
        code = self._code(self._settings.k * len(leavers), self._points, signed=True)

        def difference(index: int) -> BinCounts:
            return -self._sent[index] if index in leavers else BinCounts.empty(self._settings.grid.dimensions)

        finished = self._run(code, self.clients, difference, self.round.counts, {})
        for index in leavers:
            del self.clients[index], self._sent[index]
        return finished

    def induced_loss(self) -> float:
        """φ_f of the last model over the points that are left (eq. 2)."""
        model, grid = self.round.model, self._settings.grid
        total = 0.0
        for index, client in self.clients.items():
            assigned = model.predict(grid.centres(grid.quantise(client.centroids)))
            total += induced_loss(self._parts[index][client.rows], model.centres, assigned[client.labels])
        return total

    def nearest_loss(self) -> float:
        """Loss of the last model over the points that are left, each at its nearest centre."""
        return sum(
            nearest_loss(self._parts[index][client.rows], self.round.model.centres)
            for index, client in self.clients.items()
        )

    def _check(self, requests: Mapping[int, np.ndarray]) -> None:
        """See that all that is to be removed is there, before anything is."""
        self._check_members(requests)
        for index, rows in requests.items():
            self.clients[index].check(rows)

    def _check_members(self, indices: Collection[int]) -> None:
        for index in indices:
            if index not in self.clients:
                raise InvalidInput(f"there is no client {index}, or it has left")

    def _code(self, capacity: int, limit: int, *, signed: bool) -> Code:
        grid = self._settings.grid
        key = self._key_rng.bytes(_KEY_BYTES) if grid.piece_count > 1 else b""
        return Code(grid, max(1, capacity), limit, key, signed)

    def _run(
        self,
        code: Code,
        members: Collection[int],
        vector: Callable[[int], BinCounts],
        before: BinCounts,
        redrawn: Mapping[int, int],
    ) -> SimulatedRound:
        """Collect one masked upload a member, decode their sum, add it to the counts before and cluster."""
        members, secret = tuple(members), self._key_rng.bytes(_KEY_BYTES)
        total, computing, uploading = np.zeros(code.length, gf.ELEMENT), 0.0, 0.0
        for place, index in enumerate(members):
            start = self._clock()
            own = vector(index)
            computed = self._clock()
            total = gf.add(total, self._mask(code.encode(own), place, len(members), secret))
            computing, uploading = max(computing, computed - start), max(uploading, self._clock() - computed)
        start = self._clock()
        counts = before + decode(code, total)
        if (counts.counts < 0).any():
            raise InvalidContent("more points were taken from a bin than it had: an upload is wrong")
        decoded = self._clock()
        model = self._cluster(counts, before)
        seconds = Seconds(computing, uploading, decoded - start, self._clock() - decoded)
        self._round = SimulatedRound(model, counts, redrawn, code.upload_bytes, seconds)
        return self._round

    def _mask(self, elements: np.ndarray, place: int, members: int, secret: bytes) -> np.ndarray:
        reach = min(self._settings.reach, (members - 1) // 2) or 1
        after = {(place + step) % members for step in range(1, reach + 1)}
        ahead = {(place - step) % members for step in range(1, reach + 1)}
        return apply_masks(
            elements,
            add=[_pair_key(secret, place, other) for other in after],
            subtract=[_pair_key(secret, other, place) for other in ahead],
        )

    def _cluster(self, counts: BinCounts, before: BinCounts) -> GlobalCentres:
        settings = self._settings
        if self._round is not None and counts == before:
            return self._round.model
        placed = {"restarts": settings.restarts, "uniform": settings.uniform}
        return cluster(counts, settings.grid, settings.k, self._server_rng, **placed)


def _pair_key(secret: bytes, adder: int, subtracter: int) -> bytes:
    return hashlib.sha256(secret + adder.to_bytes(4) + subtracter.to_bytes(4)).digest()
