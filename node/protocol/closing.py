"""Closed rounds, recomputed by those who are to train on them."""

from collections.abc import Callable
from dataclasses import dataclass, field

from fedgrove.chain.records import Closed, Phase, Replaced
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.store import ContentReader, Malformed, StoreError, TooLarge, Unreachable
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.protocol.aggregation import (
    named_recovery,
    outcome,
    recovered_without_spoilt,
    released_shares,
    unavailable_commits,
)
from fedgrove.node.protocol.content import Metrics, fetch_metrics
from fedgrove.node.protocol.method import Method
from fedgrove.node.protocol.policy import closing_fault
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords

Key = tuple[int, bytes, bytes]
"""A closing: round, digests of the model and of the metrics."""


@dataclass(frozen=True)
class Result:
    """What a round comes to, as bytes of blobs: the model, the metrics, and the recovery record that these name."""

    model: bytes
    metrics: bytes
    record: bytes


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
        Maps the number of a block to its hash.
    """

    store: ContentReader
    method: Method
    inputs: Callable[[RoundRecords], RoundInputs]
    fraction: float
    lot: Callable[[Closed | Replaced], float]
    block_hash: Callable[[int], bytes]
    _has_to: dict[Key, bool] = field(default_factory=dict)
    _found: dict[Key, str] = field(default_factory=dict)

    def fault(self, current: RoundRecords, client: int = 0, certainly: bool = False) -> str:
        """The fault of a closed round, in one sentence; empty if there is none, or if ``client`` does not check it.

        ``certainly``: it is checked whatever the lot says.

        Raises
        ------
        ipfs.store.StoreError
            The store is away, lacks a blob or damaged it: that says nothing about the round, yet.
        """
        end = current.result
        key = (current.number, end.model_digest, end.metrics_digest)
        if key not in self._found:
            chance = max(self.fraction, self.method.config.federation.checkers / len(current.commits))
            certainly = certainly or self.lot(end) < chance or self._doubted(current)
            if not certainly and not self._must(current, client, key):
                return ""
            self._found = {key: self._recompute(current, end)}
        return self._found[key]

    def _doubted(self, current: RoundRecords) -> bool:
        """Whether somebody judges that the round should have come to something else."""
        return any(map(current.overruled, current.judgements(Phase.CLOSED)))

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

    def _recompute(self, current: RoundRecords, end: Closed | Replaced) -> str:
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

    def _difference(self, inputs: RoundInputs, end: Closed | Replaced) -> str:
        """How a closing differs from the right one, in one sentence."""
        right = outcome(self.method, inputs, named_recovery(inputs))
        stated = fetch_metrics(self.store, end.metrics_digest)
        return str(closing_fault(self.method, inputs, right, end, stated, self.block_hash) or "")

    def right_result(self, current: RoundRecords) -> Result | None:
        """What a closed round should have come to; None for nothing, as it has no sum, or only its coordinator can say.

        It follows from the recovery record that the closing names, if that is valid, so that all members come to the
        same; or else from the shares that were released.

        Raises
        ------
        ipfs.store.Unreachable
        """
        inputs = self.inputs(current)
        try:
            record = self._named_or_recovered(inputs)
            right = outcome(self.method, inputs, record)
        except Unreachable:
            raise
        except (StoreError, InvalidContent):
            return None
        committed = current.deadlines(self.method.config.ledger).commit_end
        stated = Metrics(
            current.number,
            cid_of(record.to_bytes()).digest.hex(),
            (committed, self.block_hash(committed).hex()),
            privacy=right.privacy,
            members=right.members,
            raised=right.raised,
        )
        if self.method.statement_fault(right.model, stated):
            return None
        return Result(self.method.model_bytes(right.model), stated.to_bytes(), record.to_bytes())

    def _named_or_recovered(self, inputs: RoundInputs) -> RecoveryRecord:
        try:
            return named_recovery(inputs)
        except Unreachable:
            raise
        except (StoreError, InvalidContent):
            released = released_shares(inputs)
            gone = unavailable_commits(self.method, inputs, released)
            return recovered_without_spoilt(inputs, released, gone, final=True)
