"""Closed rounds, recomputed by those who are to train on them."""

from collections.abc import Callable
from dataclasses import dataclass, field

from fedgrove.chain.records import Closed
from fedgrove.common.errors import InvalidContent
from fedgrove.common.wire import canonical_json
from fedgrove.ipfs.store import ContentReader, Malformed, StoreError, TooLarge
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.recovery import most_record_bytes
from fedgrove.node.protocol.aggregation import outcome, recovery
from fedgrove.node.protocol.content import MAX_JSON_BYTES
from fedgrove.node.protocol.method import Method
from fedgrove.node.protocol.policy import closing_fault
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords

Key = tuple[int, bytes, bytes]
"""A closing: round, digests of the model and of the metrics."""


@dataclass(eq=False, repr=False)
class Closings:
    """Finds what is wrong with a closed round; each is recomputed once.

    Parameters
    ----------
    store : ContentReader
        Where updates, recovery records and models are.
    method : Method
        That of the terms that this member agreed to.
    inputs : callable
        The public inputs of a sealed round.
    fraction : float
        Of the closed rounds that are recomputed at least. More are where few committed, so that each round is looked at
        by ``federation.checkers`` members on average; those that somebody disputes always are, and those in which the
        member leads a cluster, or after which it is to show what it sent, to judge that, or to answer others' sets.
    lot : callable
        The member's lot for a closed round, uniform in [0, 1); nobody else may know it.
    block_hash : callable
        Maps the number of a block, from ``first`` on, to its hash.
    """

    store: ContentReader
    method: Method
    inputs: Callable[[RoundRecords], RoundInputs]
    fraction: float
    lot: Callable[[Closed], float]
    block_hash: Callable[[int], bytes]
    first: int
    _has_to: dict[Key, bool] = field(default_factory=dict)
    _found: dict[Key, str] = field(default_factory=dict)

    def fault(self, current: RoundRecords, client: int = 0) -> str:
        """The fault of a closed round, in one sentence; empty if there is none, or if ``client`` does not check it.

        Raises
        ------
        ipfs.store.StoreError
            The store is away, lacks a blob or damaged it: that says nothing about the round, yet.
        """
        end = current.closing
        key = (current.number, end.model_digest, end.metrics_digest)
        if key not in self._found:
            chance = max(self.fraction, self.method.config.federation.checkers / len(current.commits))
            if self.lot(end) >= chance and not current.disputes and not self._must(current, client, key):
                return ""
            self._found = {key: self._recompute(current, end)}
        return self._found[key]

    def _must(self, current: RoundRecords, client: int, key: Key) -> bool:
        """Whether the member repeats this closing, be its fraction 0."""
        if key not in self._has_to:
            self._has_to = {key: self.method.schedule.has_leaders and self._repeats(current, client)}
        return self._has_to[key]

    def _repeats(self, current: RoundRecords, client: int) -> bool:
        try:
            return self.method.schedule.repeats(self.inputs(current), client)
        except (StoreError, OSError, MemoryError):
            raise
        except Exception:
            return True  # what cannot even be looked at does not follow: repeating it says why

    def _recompute(self, current: RoundRecords, end: Closed) -> str:
        if current.opened.config_digest != cid_of(self.method.config.to_bytes()).digest:
            return "it ran under terms that this client did not agree to"
        inputs = self.inputs(current)
        try:
            return self._difference(inputs, end)
        except (TooLarge, Malformed, InvalidContent) as fault:
            return str(fault)
        except (StoreError, OSError, MemoryError):
            raise
        except Exception as fault:
            # Nobody can go on from what ends in an error that nobody expected: rather disputed than stuck.
            return f"checking its published content failed with {type(fault).__name__}"

    def _difference(self, inputs: RoundInputs, end: Closed) -> str:
        """How a closing differs from the right one, in one sentence."""
        current = inputs.current
        record = recovery(inputs, self.store.fetch(current.recovery.digest, most_record_bytes(inputs.graph)))
        right = outcome(self.method, inputs, record)

        def metrics() -> bytes:
            return self.store.fetch(end.metrics_digest, MAX_JSON_BYTES)

        return str(closing_fault(self.method, inputs, right, end, metrics, self.block_hash, self.first) or "")


def evidence(current: RoundRecords, fault: str) -> bytes:
    """The content behind a dispute's digest: canonical JSON for people; an auditor recomputes the round."""
    return canonical_json({"fault": fault, "round": current.number})
