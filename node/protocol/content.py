"""Blobs that the roles exchange through the store: bounded fetches, parsed and checked before use."""

import math
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from fedgrove.chain.records import Closed
from fedgrove.common.wire import canonical_json, parse_json
from fedgrove.ipfs.store import ContentReader, StoreError, Unreachable
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.scores import checked
from fedgrove.node.privacy.records import InvalidPrivacyRecord, PrivacyRecord, record_from
from fedgrove.node.protocol.members_metrics import MembersStatement, statement_from


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
MAX_SAMPLES = 1 << 53
"""Above any number of samples in metrics: up to here every reader of numbers keeps them exact."""

_Found = TypeVar("_Found")

_AT_ONCE = 16
"""How many blobs are looked for at a time: a store that has a network looks for each until its timeout is over, and who
lists what it never publishes must not hold up the others."""


class InvalidBlob(ValueError):
    """A blob is not what its ledger record says it is."""


@dataclass(frozen=True)
class Metrics:
    """Statements about a closed round in addition to its model.

    Attributes
    ----------
    accuracy : float or None
        Share of right answers on the coordinator's test data; None where answers are not right or wrong.
    loss, samples : float, int
        Mean loss there, and the number of samples.
    privacy : PrivacyRecord or None
        What the round released about its clients; None where the terms ask for no such mechanism.
    stated : mapping or None
        What the coordinator states in addition to the model, JSON-ready, for the method to read; None: nothing.
    head : (int, bytes) or None
        A block before the closing, and its hash: by its signature, who closes vouches for the history up to there, also
        for what nobody signed, as which block a record lies in.
    members : MembersMetrics, MembersRates or None
        The members' own metrics of the model that the round began with; None where the terms ask for none.
    only_class : int or None
        The class that the model predicts for every sample there, where the samples have several.
    scores : mapping or None
        Further figures of the coordinator's evaluation: AUC, confusion matrix and the like; None: it states none.
    """

    round: int
    accuracy: float | None
    loss: float
    samples: int
    privacy: PrivacyRecord | None = None
    stated: Mapping[str, Any] | None = None
    head: tuple[int, bytes] | None = None
    members: MembersStatement | None = None
    only_class: int | None = None
    scores: Mapping[str, Any] | None = None

    def to_bytes(self) -> bytes:
        table: dict[str, Any] = {"round": self.round, "loss": self.loss, "samples": self.samples}
        if self.accuracy is not None:
            table["accuracy"] = self.accuracy
        if self.privacy is not None:
            table["privacy"] = self.privacy.to_table()
        if self.stated is not None:
            table["stated"] = self.stated
        if self.head is not None:
            table["head"] = [self.head[0], self.head[1].hex()]
        if self.members is not None:
            table["members"] = self.members.to_table()
        if self.only_class is not None:
            table["only_class"] = self.only_class
        if self.scores is not None:
            table["scores"] = dict(self.scores)
        return canonical_json(table)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Metrics":
        """Parse what ``to_bytes`` wrote; raises InvalidBlob for anything else."""
        try:
            table = parse_json(data)
            privacy = record_from(table["privacy"]) if "privacy" in table else None
            accuracy = float(table["accuracy"]) if "accuracy" in table else None
            numbers = (int(table["round"]), accuracy, float(table["loss"]), int(table["samples"]))
            stated = table.get("stated")
            if not isinstance(stated, dict | None):
                raise ValueError("the statement is not a table")
            head = _head(table["head"]) if "head" in table else None
            members = statement_from(table["members"]) if "members" in table else None
            only_class = int(table["only_class"]) if "only_class" in table else None
            scores = checked(table["scores"], numbers[-1]) if "scores" in table else None
            metrics = cls(*numbers, privacy, stated, head, members, only_class, scores)
        except InvalidPrivacyRecord as fault:
            raise InvalidBlob(f"the metrics are not in their JSON form: {fault}") from None
        except (ValueError, TypeError, KeyError, OverflowError):
            raise InvalidBlob("the metrics are not in their JSON form") from None
        if metrics.to_bytes() != data:
            raise InvalidBlob("the metrics are not in canonical form")
        fine = 0 <= (metrics.accuracy or 0) <= 1 and 0 <= metrics.loss < math.inf
        fine = fine and 0 <= (metrics.only_class or 0) < MAX_SAMPLES
        if not (fine and 0 <= metrics.samples < MAX_SAMPLES):
            raise InvalidBlob("the metrics are out of range")
        return metrics


def fetch_metrics(store: ContentReader, digest: bytes) -> Metrics:
    """Fetch and parse what a closed round states in addition to its model; raises StoreError or InvalidBlob."""
    return Metrics.from_bytes(store.fetch(digest, MAX_JSON_BYTES))


def _head(pair: list) -> tuple[int, bytes]:
    block, block_hash = pair
    if type(block) is not int or block < 0 or len(bytes.fromhex(block_hash)) != 32:
        raise ValueError("not a block and its hash")
    return block, bytes.fromhex(block_hash)


def head_fault(metrics: Metrics, block_hash: Callable[[int], bytes], first: int, end: Closed) -> str:
    """How the block that a closing names differs from the chain's, in one clause; empty where it does not.

    Parameters
    ----------
    block_hash : callable
        Maps the number of a block to its hash.
    first : int
        The first block of the history.
    end : Closed
        The closing.
    """
    if metrics.head is None:
        return ""
    number, named = metrics.head
    if not first <= number < end.at.block:
        return f"they name block {number}, which does not lie between the deployment and the closing"
    return "" if block_hash(number) == named else f"they name a hash that block {number} does not have"


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

    Raises
    ------
    Unreachable
    """
    there = _of_each(store, lambda key: store.available(digests[key], sizes[key]), sizes)
    return sorted(key for key, found in there.items() if not found)


def _of_each(store: ContentReader, look: Callable[[int], _Found], keys: Iterable[int]) -> dict[int, _Found]:
    keys = list(keys)
    if not store.networked:
        return {key: look(key) for key in keys}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(keys, pool.map(look, keys), strict=True))
