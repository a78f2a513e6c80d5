"""The auditor: re-derives the whole training history from ledger and store, and names the first bad record."""

from collections import deque
from collections.abc import Callable, Sequence

from chain.records import Record
from ipfs.store import ContentStore
from node.auditing.content import ContentRules, closed_rounds, void_rounds
from node.auditing.verdict import CannotTell, Verdict
from node.ledger_rules import BadRecord, ChainFacts, LedgerRules, RuleBroken
from node.rounds import Rounds


class Auditor:
    """Checks a history; needs no key, no data, no torch and no trust in anyone.

    A history that still grows is checked piece by piece: ``add`` what has come and ``run`` again; nothing is checked
    twice, and what could not be told is tried again.

    Parameters
    ----------
    facts : ChainFacts
        Chain, contracts, fixed terms and block hashes.
    records : sequence of Record
        All records of both contracts, in the order of the chain, or those up to the end of a round.
    store : ContentStore
        Where the blobs are; every read is verified.
    progress : callable, optional
        Called with the number of records checked so far.
    """

    def __init__(
        self,
        facts: ChainFacts,
        records: Sequence[Record],
        store: ContentStore,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._block_hash = facts.block_hash
        self._progress = progress
        self.rounds = Rounds()
        self._rules = LedgerRules(facts, self.rounds)
        self._content = ContentRules(facts, store, self.rounds, frozenset())
        self._unchecked: deque[Record] = deque()
        self._lawful = False
        self._done = 0
        self.add(records, facts.head_block)

    def add(self, records: Sequence[Record], head_block: int) -> None:
        """Take in what follows, up to the end of a round: how a round ended decides which blobs must be at hand.

        ``head_block`` is the last block that the history reaches now.
        """
        self._content.closed |= closed_rounds(records)
        self._content.void |= void_rounds(records)
        self._unchecked.extend(records)
        self._head_block = head_block

    def run(self) -> Verdict:
        """Check every record not checked yet, in order; stop at the first that is bad."""
        try:
            while self._unchecked:
                self._check(self._unchecked[0])
                self._unchecked.popleft()
        except RuleBroken as failure:
            return self._verdict("bad record", failure.record, str(failure.record))
        except CannotTell as fault:
            return self._verdict("cannot tell", reason=str(fault))
        return self.so_far()

    def so_far(self) -> Verdict:
        """What is verified by now, without checking more."""
        return self._verdict("verified")

    def exhausted(self) -> str:
        """Why no further round can be held within the privacy budget, in one clause; empty when one can."""
        return self._content.exhausted()

    def _check(self, record: Record) -> None:
        if not self._lawful:
            self._rules.check(record)
            # The rules remember what they saw, so that a record whose blob is out of reach does not pass them again.
            self._lawful = True
        self._content.check(record)
        self.rounds.add(record)
        self._lawful = False
        self._done += 1
        if self._progress is not None:
            self._progress(self._done)

    def _verdict(self, verdict: str, first: BadRecord | None = None, reason: str = "") -> Verdict:
        return Verdict(
            verdict=verdict,
            first_bad_record=first,
            reason=reason,
            rounds=len(self.rounds.ended()),
            records=self._done,
            head_block=self._head_block,
            head_hash="0x" + self._block_hash(self._head_block).hex(),
            remarks=tuple(self._content.remarks),
            privacy=self._content.spent,
        )
