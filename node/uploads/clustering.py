"""Counts over bins under masks over 𝔽_p: the sums of federated K-means (seed 000, algorithm 2; spec 06).

What a client uploads are the syndromes of what its vector of counts has gained and lost (``node.kmeans.code``). Keys of
masks, dropouts and their recovery are those of all other rounds; only the group differs that the masks are drawn from.
"""

import hashlib
from collections.abc import Callable, Iterator

import numpy as np

from ipfs.store import Malformed, TooLarge
from node.kmeans import field as gf
from node.kmeans.counts import BinCounts
from node.kmeans.exchange import Exchange, InvalidSum, Requests, exchange
from node.kmeans.masks import apply_masks
from node.kmeans.state import State
from node.masking.aggregate import InvalidUpdate, left_over
from node.masking.client import MaskingRefused, MaskKey, mask_keys
from node.masking.keys import RoundSecrets
from node.masking.recovery import RecoveryRecord
from node.privacy.accountant import GaussianRelease, Release
from node.rounds import RoundRecords, Rounds
from node.strict_tables import InvalidConfig
from node.tensors import Layout
from node.uploads.kind import Outcome, UploadKind, UploadRound

_KEY = b"fedgrove clustering key 1"
_CLUSTERING = b"fedgrove clustering seed 1"
_MAX_DOUBLINGS = 20


def requests_of(rounds: Rounds, before: State, through: int) -> Requests:
    """What members have asked for up to a block, less what is honoured in ``before``."""
    points: dict[int, int] = {}
    leavers = set()
    for record in rounds.withdrawals:
        if record.at.block > through:
            continue
        if not record.points:
            leavers.add(record.client)
        known = before.contributions.get(record.client)
        if known is None or record.at.block > rounds.rounds[known.round].opened.opened_at:
            points[record.client] = points.get(record.client, 0) + record.points
    return Requests({client: count for client, count in points.items() if count}, frozenset(leavers))


def exchange_of(round: UploadRound) -> Exchange:
    """What the round's sum is to hold. The list of shares must be final."""
    entry, settings = round.entry, round.config.clustering
    before: State = round.previous
    requests = requests_of(round.rounds, before, entry.opened.opened_at)
    stated = {client: entry.draws[client].samples for client in entry.shares}
    key = hashlib.sha256(_KEY + round.graph.context.to_bytes() + entry.seed.seed).digest()
    return exchange(settings, before, stated, requests, key)


class ClusteringUploads(UploadKind):
    """Sums of counts over bins; what everybody adds is in the clear nowhere."""

    def upload_bytes(self, layout: Layout) -> int:
        raise NotImplementedError("the size of an upload depends on the round: see expected_bytes")

    def check_model(self, model: State, number: int) -> None:
        if number == 1 and model.contributions:
            raise ValueError("the first round starts from points that nobody contributed")

    def expected_bytes(self, round: UploadRound, client: int) -> int:
        return exchange_of(round).code.upload_bytes

    def encode(self, round: UploadRound, client: int, secrets: RoundSecrets, update: BinCounts) -> bytes:
        code, position = exchange_of(round).code, round.entry.order.index(client)
        keys = mask_keys(round.graph, position, secrets, round.sharers)
        if len(keys) == 1:
            raise MaskingRefused(f"no partner of client {client} shared: nothing would hide what it sends")
        return _lay(code.encode(update), keys).astype(gf.ELEMENT).tobytes()

    def outcome(self, round: UploadRound, record: RecoveryRecord) -> Outcome:
        planned = exchange_of(round)
        change = self.change(round, record, planned)
        entry = round.entry
        try:
            return Outcome(planned.finish(entry.number, tuple(entry.commits), change, _generator(round)))
        except InvalidSum as fault:
            raise InvalidUpdate(str(fault), 0) from None

    def change(self, round: UploadRound, record: RecoveryRecord, planned: Exchange) -> BinCounts:
        """The decoded sum over the survivors.

        Raises
        ------
        StoreError
            An upload cannot be fetched.
        InvalidUpdate
            An upload is no list of field elements of the right length, or their sum is none of counts.
        InvalidConfig
            The library that decodes is not installed.
        """
        try:
            from node.kmeans.decoder import SumError, decode
        except ModuleNotFoundError:
            raise InvalidConfig("sums are decoded with python-flint: pip install 'fedgrove[kmeans]'") from None
        total = np.zeros(planned.code.length, gf.ELEMENT)
        for client, elements in _uploads(round, planned.code.upload_bytes):
            if len(elements) != len(total) or (elements >= gf.PRIME).any():
                raise InvalidUpdate(f"the update of client {client} is not {len(total)} elements of the field", client)
            total = gf.add(total, elements)
        survivors = frozenset(round.survivors)
        try:
            return decode(planned.code, _lay(total, list(left_over(round.graph, survivors, record))))
        except SumError as fault:
            raise InvalidUpdate(f"the sum cannot be decoded: {fault}", 0) from None

    def due(self, rounds: Rounds, model: Callable[[], State], block: int) -> int | None:
        """When somebody new is there, or somebody asked for something; see the base class."""
        latest, state = rounds.latest, model()
        waiting = _waiting(rounds, state, block)
        if not waiting:
            return None
        unheard = [since for since in waiting.values() if since > latest.opened.opened_at]
        if unheard:
            return min(unheard) + self.config.clustering.gather_blocks
        # Who never answers is waited for twice as long each time, or rounds would be held for it for ever.
        last_change = max((part.round for part in state.contributions.values()), default=0)
        fruitless = min(max(0, latest.number - last_change - 1), _MAX_DOUBLINGS)
        return (latest.voided or latest.end).at.block + (self.config.clustering.retry_blocks << fruitless)

    # --- accounting -------------------------------------------------------------------------------------------------

    def planned_release(self, number: int, parameters: int) -> Release:
        return GaussianRelease(0.0)

    def release(self, entry: RoundRecords, parameters: int) -> Release:
        return GaussianRelease(0.0)


def _waiting(rounds: Rounds, state: State, block: int) -> dict[int, int]:
    """Clients for whose sake a round is needed, and the block since which, or from which on, each of them waits."""
    requests = requests_of(rounds, state, block)
    asked = {client for client in (*requests.points, *requests.leavers) if client in state.contributions}
    latest = {record.client: record.at.block for record in rounds.withdrawals if record.client in asked}
    new = {
        client: member.active_from
        for client, member in rounds.members.items()
        if client not in state.contributions and client not in requests.leavers
    }
    return latest | new


def _lay(elements: np.ndarray, keys: list[MaskKey]) -> np.ndarray:
    add = [each.key for each in keys if not each.subtract]
    return apply_masks(elements, add, [each.key for each in keys if each.subtract])


def _uploads(round: UploadRound, size: int) -> Iterator[tuple[int, np.ndarray]]:
    for client, commit in round.entry.commits.items():
        try:
            data = b"".join(round.store.stream(commit.digest, size))
        except (TooLarge, Malformed) as lie:
            raise InvalidUpdate(f"client {client}: {lie}", client) from None
        yield client, np.frombuffer(data[: len(data) // 8 * 8], gf.ELEMENT)


def _generator(round: UploadRound) -> np.random.Generator:
    """What the server draws from: the same for everybody, and fixed by a block that nobody chose."""
    digest = hashlib.sha256(_CLUSTERING + round.graph.context.to_bytes() + round.entry.seed.seed).digest()
    return np.random.default_rng(int.from_bytes(digest))
