"""Counts over bins under masks over 𝔽_p: the sums of federated K-means (algorithm 2).

A client uploads the syndromes of its vector of counts (``node.methods.kmeans.code``). Keys of masks, dropouts
and their recovery are those of all other rounds; only the group differs that the masks are drawn from.
"""

import hashlib
from collections.abc import Collection, Iterator

import numpy as np

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.ipfs.store import Malformed, TooLarge
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.masking.aggregate import InvalidUpdate, left_over
from fedgrove.node.masking.client import MaskingRefused, MaskKey, mask_keys
from fedgrove.node.masking.keys import RoundSecrets
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.survivors import opened_groups
from fedgrove.node.methods.kmeans import field as gf
from fedgrove.node.methods.kmeans.code import Code
from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.masks import apply_masks
from fedgrove.node.methods.kmeans.round_inputs import exchange_of
from fedgrove.node.methods.kmeans.state import KMeansState
from fedgrove.node.protocol.codec import Codec
from fedgrove.node.protocol.round_inputs import Outcome, RoundInputs

_CLUSTERING = b"fedgrove clustering seed 1"


class CountCodec(Codec[KMeansState, BinCounts]):
    """Sums of counts over bins; what everybody adds is in the clear nowhere."""

    def check_model(self, model: KMeansState, number: int) -> None:
        if number == 1 and model.clients:
            raise InvalidContent("the first round must start from an empty state")

    def expected_bytes(self, inputs: RoundInputs[KMeansState], client: int) -> int:
        own = exchange_of(inputs).sum_of(client)
        return own.code.upload_bytes if own is not None else 0

    def encode(self, inputs: RoundInputs[KMeansState], client: int, secrets: RoundSecrets, update: BinCounts) -> bytes:
        """A client's vector under masks; nothing where the round sums nothing of it."""
        own = exchange_of(inputs).sum_of(client)
        if own is None:
            return b""
        keys = mask_keys(inputs.graph, inputs.current.order.index(client), secrets, inputs.sharers)
        if len(keys) == 1:
            raise MaskingRefused(f"no partner of client {client} shared: its upload would not be hidden")
        try:
            elements = own.code.encode(update)
        except InvalidInput as fault:
            raise MaskingRefused(str(fault)) from None
        return _lay(elements, keys).astype(gf.ELEMENT).tobytes()

    def outcome(self, inputs: RoundInputs[KMeansState], record: RecoveryRecord) -> Outcome[KMeansState]:
        planned, current = exchange_of(inputs), inputs.current
        if not planned.sums:
            return Outcome(planned.before)
        decoded: list[BinCounts | None] = []
        faults: list[InvalidUpdate] = []
        opened = opened_groups(inputs.graph, inputs.survivors, record.left_out)
        for own, positions in zip(planned.sums, opened, strict=True):
            try:
                decoded.append(_change(inputs, record, own.code, positions) if own is not None and positions else None)
            except InvalidUpdate as fault:
                decoded.append(None)
                faults.append(fault)
        try:
            return Outcome(planned.finish(current.number, tuple(current.commits), decoded, _generator(inputs)))
        except InvalidContent as fault:
            raise faults[0] if faults else InvalidUpdate(str(fault), 0) from None


def _change(
    inputs: RoundInputs[KMeansState], record: RecoveryRecord, code: Code, positions: Collection[int]
) -> BinCounts:
    """The decoded sum over the survivors of a group.

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
        from fedgrove.node.methods.kmeans.decoder import decode
    except ModuleNotFoundError:
        raise InvalidConfig("sums are decoded with python-flint: pip install 'fedgrove[kmeans]'") from None
    total = np.zeros(code.length, gf.ELEMENT)
    for client, elements in _uploads(inputs, positions, code.upload_bytes):
        if (elements >= gf.PRIME).any():
            raise InvalidUpdate(f"the update of client {client} is not {len(total)} elements of the field", client)
        total = gf.add(total, elements)
    try:
        return decode(code, _lay(total, list(left_over(inputs.graph, positions, record))))
    except InvalidContent as fault:
        raise InvalidUpdate(f"the sum cannot be decoded: {fault}", 0) from None


def _lay(elements: np.ndarray, keys: list[MaskKey]) -> np.ndarray:
    add = [each.key for each in keys if not each.subtract]
    return apply_masks(elements, add, [each.key for each in keys if each.subtract])


def _uploads(
    inputs: RoundInputs[KMeansState], positions: Collection[int], size: int
) -> Iterator[tuple[int, np.ndarray]]:
    current = inputs.current
    for position in positions:
        client = current.order[position]
        try:
            data = b"".join(inputs.store.stream(current.commits[client].digest, size))
        except (TooLarge, Malformed) as lie:
            raise InvalidUpdate(f"client {client}: {lie}", client) from None
        if len(data) != size:
            raise InvalidUpdate(f"the update of client {client} is {len(data)} bytes long, not {size}", client)
        yield client, np.frombuffer(data, gf.ELEMENT)


def _generator(inputs: RoundInputs[KMeansState]) -> np.random.Generator:
    """Generator of the server's draws: the same for everybody, and fixed by a block that nobody chose."""
    digest = hashlib.sha256(_CLUSTERING + inputs.graph.context.to_bytes() + inputs.current.fixed_seed.seed).digest()
    return np.random.default_rng(int.from_bytes(digest))
