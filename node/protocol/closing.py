"""Closed rounds, recomputed by those who are to train on them."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from fedgrove.chain.records import Closed, Judged, Phase, Replaced
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.store import ContentReader, Malformed, StoreError, TooLarge, Unreachable
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.protocol.aggregation import (
    left_out_fault,
    named_recovery,
    outcome,
    recovered_without_spoilt,
    released_shares,
    unavailable_commits,
)
from fedgrove.node.protocol.content import Metrics, fetch_metrics
from fedgrove.node.protocol.expelling import recovered_in_stages
from fedgrove.node.protocol.method import Method
from fedgrove.node.protocol.policy import closing_fault
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import MOST_DOUBLINGS, RoundRecords, Rounds

_FEW = 2  # per checker: below it, recomputing costs members less than telling each other
_DOUBLINGS = 8  # in a recover window, of the chance with which a member recomputes what nobody confirms

Key = tuple[int, bytes, bytes]
"""A closing: round, digests of the model and of the metrics."""
Rank = tuple[int, bytes, bytes]
"""Of a round's results, all say the one with the lowest: how many groups it leaves out, then its digests."""


@dataclass(frozen=True)
class Result:
    """What a round comes to, as bytes of blobs: the model, the metrics, and the recovery record that these name.

    ``named`` says whether the closing names this record, so that all come to the same; else it follows from the shares
    that this member could fetch. ``left_out``: how many groups it leaves out.
    """

    model: bytes
    metrics: bytes
    record: bytes
    named: bool = False
    left_out: int = 0

    @property
    def rank(self) -> "Rank":
        """Its place among the results of a round."""
        return self.left_out, cid_of(self.model).digest, cid_of(self.metrics).digest


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
        by ``federation.checkers`` members on average, and twice as many for each member that judges it wrong and was
        never wrong itself; in any case those in which the member leads a cluster, or after which it is to show what it
        sent, to judge that, or to answer others' sets.
    lot : callable
        The member's lot for a closed round, uniform in [0, 1); nobody else may know it.
    block_hash : callable
        Maps the number of a block to its hash.
    rounds : callable
        The ledger as the member sees it now.
    """

    store: ContentReader
    method: Method
    inputs: Callable[[RoundRecords], RoundInputs]
    fraction: float
    lot: Callable[[Closed | Replaced], float]
    block_hash: Callable[[int], bytes]
    rounds: Callable[[], Rounds]
    _has_to: dict[Key, bool] = field(default_factory=dict)
    _found: dict[Key, str] = field(default_factory=dict)
    _ranks: dict[Key, Rank | None] = field(default_factory=dict)

    def fault(self, current: RoundRecords, client: int = 0, certainly: bool = False, block: int = 0) -> str:
        """The fault of a closed round, in one sentence; empty if there is none, or if ``client`` does not check it.

        ``certainly``: it is checked whatever the lot says. ``block``: now; the longer others do not confirm a closing,
        the more members check it.

        Raises
        ------
        ipfs.store.StoreError
            The store is away, lacks a blob or damaged it: that says nothing about the round, yet.
        """
        key = _key(current)
        if key not in self._found:
            certainly = certainly or self.lot(current.result) < self._chance(current, block)
            if not certainly and not self._must(current, client, key):
                return ""
            latest = dict(list(self._found.items())[-1:])  # shares may still be released in the round before
            self._found = {**latest, key: self._recompute(current, current.result)}
        return self._found[key]

    def is_found_right(self, current: RoundRecords) -> bool:
        """Whether this member recomputed a closed round, and came to the same."""
        return self._found.get(_key(current)) == ""

    def is_confirmed(self, current: RoundRecords) -> bool:
        """Whether as many members as are to check a closing say that it is right.

        They are twice as many for each that says that it is wrong and was never wrong before, as twice as many look:
        one liar makes few look for nothing, and colluders that confirm a lie are too few once some honest members have
        looked. Where all check, each relies on itself.
        """
        said = current.judgements(Phase.CLOSED)
        confirmed = sum(not current.overruled(client) for client in said)
        needed = self._checkers * 2 ** min(self.rounds().doubts(current), MOST_DOUBLINGS)
        return confirmed >= needed and not self.all_check(current)

    def all_check(self, current: RoundRecords) -> bool:
        """Whether so few committed that all members recompute the round, and nobody needs to be told."""
        return 0 < len(current.commits) <= _FEW * self._checkers

    @property
    def _checkers(self) -> float:
        return self.method.config.federation.checkers

    def _chance(self, current: RoundRecords, block: int) -> float:
        """How probably a member recomputes a closed round."""
        if self.all_check(current):
            return 1.0
        often = max(1, self.method.config.ledger.recover_window // _DOUBLINGS)
        waited = max(0, block - current.result.at.block) // often if not self.is_confirmed(current) else 0
        doublings = min(waited + self.rounds().doubts(current), MOST_DOUBLINGS)
        return max(self.fraction, self._checkers * 2**doublings / len(current.commits))

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
        record = named_recovery(inputs)
        left_out = left_out_fault(inputs, record, end)
        if left_out:
            return left_out
        right = outcome(self.method, inputs, record)
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
            named = self._named(inputs)
            record = named or self._recovered(inputs)
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
        model, data = self.method.model_bytes(right.model), record.to_bytes()
        return Result(model, stated.to_bytes(), data, named is not None, len(record.left_out))

    def rank(self, current: RoundRecords, judged: Judged) -> Rank | None:
        """That of what a member says in place of a closing; None if it is not right by the recovery record it names."""
        end = Replaced(judged.at, current.number, judged.model_digest, judged.metrics_digest)
        digests = end.model_digest, end.metrics_digest
        key = (current.number, *digests)
        if key not in self._ranks:
            said = replace(current, once={**current.once, Replaced: end})
            with suppress(StoreError):
                right = not self._recompute(said, end)
                self._ranks[key] = (len(named_recovery(self.inputs(said)).left_out), *digests) if right else None
        return self._ranks.get(key)

    def right_model(self, current: RoundRecords) -> bytes:
        """The bytes of a closed round's model, recomputed; raises StoreError, InvalidContent."""
        inputs = self.inputs(current)
        return self.method.model_bytes(outcome(self.method, inputs, named_recovery(inputs)).model)

    def _recovered(self, inputs: RoundInputs) -> RecoveryRecord:
        if inputs.bounds is not None:
            return recovered_in_stages(inputs, partial(outcome, self.method, inputs))
        released = released_shares(inputs)
        gone = unavailable_commits(self.method, inputs, released)
        return recovered_without_spoilt(inputs, released, gone, final=True)

    def _named(self, inputs: RoundInputs) -> RecoveryRecord | None:
        """The recovery record that the closing names; None where it cannot be had, or is wrong."""
        try:
            record = named_recovery(inputs)
        except Unreachable:
            raise
        except (StoreError, InvalidContent):
            return None
        return None if left_out_fault(inputs, record, inputs.current.result) else record


def _key(current: RoundRecords) -> Key:
    end = current.result
    return current.number, end.model_digest, end.metrics_digest
