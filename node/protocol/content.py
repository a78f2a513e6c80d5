"""Blobs that the roles exchange through the store: bounded fetches, parsed and checked before use."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Protocol, TypeVar

from msgspec import Meta

from fedgrove.common.errors import InvalidContent
from fedgrove.common.wire import Count, Digest, Table
from fedgrove.ipfs.store import ContentReader, StoreError, Unreachable
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.scores import StatedScores
from fedgrove.node.privacy.records import PrivacyRecord
from fedgrove.node.protocol.members_metrics import MembersStatement


class MethodState(Protocol):
    """The state that some methods' rounds produce instead of a model's tensors."""

    def to_bytes(self) -> bytes: ...


Model = Tensors | MethodState
"""What a round trains from and closes with: a model's tensors, or a state that its method knows."""

ModelT = TypeVar("ModelT", bound=Tensors | MethodState)
"""What the rounds of one method train from and close with."""

Update = object
"""What a client computes in a round: a trained model, a vector of counts, a message. Only its method looks into it."""

UpdateT = TypeVar("UpdateT")
"""What clients of one method compute."""

MAX_JSON_BYTES = 1 << 20

_Found = TypeVar("_Found")

_AT_ONCE = 16
"""How many blobs are looked for at a time: a store that has a network looks for each until its timeout is over, and who
lists what it never publishes must not hold up the others."""


class Metrics(Table, frozen=True):
    """Statements about a closed round in addition to its model.

    Attributes
    ----------
    loss, samples : float, int
        Mean loss on the coordinator's test data, and the number of samples.
    accuracy : float or None
        Share of right answers there; None where answers are not right or wrong.
    privacy : PrivacyRecord or None
        What the round released about its clients; None where the terms ask for no such mechanism.
    stated : dict or None
        What the coordinator states in addition to the model, JSON-ready, for the method to read; None: nothing.
    recovery : str
        Digest of the recovery record, hexadecimal: the secrets that took the masks off.
    head : (int, str)
        A block from the end of the commits on, before the closing, and its hash, hexadecimal: by its signature, who
        closes vouches for the history up to there, also for what nobody signed, as which block a record lies in.
    members : MembersMetrics, MembersRates or None
        The members' own metrics of the model that the round began with; None where the terms ask for none.
    only_class : int or None
        The class that the model predicts for every sample there, where the samples have several.
    scores : StatedScores or None
        Further figures of the coordinator's evaluation; None: it states none.
    raised : int or None
        How many of the members that are summed could not train, or evaluate the last model, and sent the model
        unchanged; None where nobody counts.
    """

    round: Count
    recovery: Digest
    head: tuple[Count, Digest]
    loss: Annotated[float, Meta(ge=0)] = 0.0
    samples: Count = 0
    accuracy: Annotated[float, Meta(ge=0, le=1)] | None = None
    privacy: PrivacyRecord | None = None
    stated: dict[str, Any] | None = None
    members: MembersStatement | None = None
    only_class: Count | None = None
    scores: StatedScores | None = None
    raised: Count | None = None

    @classmethod
    def from_bytes(cls, data: bytes) -> "Metrics":
        """Read what ``to_bytes`` wrote; raises InvalidContent for anything else."""
        try:
            metrics = super().from_bytes(data)
            if metrics.scores is not None:
                metrics.scores.check_samples(metrics.samples)
        except InvalidContent as fault:
            raise InvalidContent(f"the metrics are not in their JSON form: {fault}") from None
        return metrics


def fetch_metrics(store: ContentReader, digest: bytes) -> Metrics:
    """Fetch and parse what a closed round states in addition to its model; raises StoreError or InvalidContent."""
    return Metrics.from_bytes(store.fetch(digest, MAX_JSON_BYTES))


def head_fault(metrics: Metrics, block_hash: Callable[[int], bytes], first: int, last: int) -> str:
    """How the block that a closing names differs from the chain's, in one clause; empty where it does not.

    Parameters
    ----------
    block_hash : callable
        Maps the number of a block to its hash.
    first, last : int
        The blocks between which it must lie: the last one of the commits, and the one before the closing.
    """
    number, named = metrics.head
    if not first <= number <= last:
        return f"they name block {number}, which does not lie between the commits and the closing"
    return "" if block_hash(number).hex() == named else f"they name a hash that block {number} does not have"


def fetch_available(
    store: ContentReader, digests: Mapping[int, bytes], max_bytes: int | Mapping[int, int]
) -> dict[int, bytes]:
    """Fetch what can be fetched; what is missing, corrupt or too large is left out.

    ``max_bytes`` is one limit for all, or that of each.

    Raises
    ------
    Unreachable
        The store is away: that says nothing about any blob.
    """

    def fetch(key: int) -> bytes | None:
        try:
            return store.fetch(digests[key], max_bytes if isinstance(max_bytes, int) else max_bytes[key])
        except Unreachable:
            raise
        except StoreError:
            return None

    return {key: blob for key, blob in _of_each(store, fetch, digests).items() if blob is not None}


def unavailable(store: ContentReader, digests: Mapping[int, bytes], sizes: Mapping[int, int]) -> list[int]:
    """Clients whose content is unavailable, has the wrong digest, or exceeds the size, in ascending order.

    Raises Unreachable.
    """
    there = _of_each(store, lambda key: store.available(digests[key], sizes[key]), sizes)
    return sorted(key for key, found in there.items() if not found)


def _of_each(store: ContentReader, look: Callable[[int], _Found], keys: Iterable[int]) -> dict[int, _Found]:
    keys = list(keys)
    if not store.networked:
        return {key: look(key) for key in keys}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(keys, pool.map(look, keys), strict=True))
