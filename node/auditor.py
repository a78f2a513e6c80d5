"""The auditor: re-derives the whole training history from ledger and store, and names the first bad record."""

from collections.abc import Callable, Sequence

from chain.records import Record
from ipfs.store import ContentStore
from node.auditing.content import ContentRules, closed_rounds
from node.auditing.rules import ChainFacts, LedgerRules
from node.auditing.verdict import AuditFailure, CannotTell, Verdict
from node.rounds import Rounds


class Auditor:
    """Checks a history; needs no key, no data, no torch and no trust in anyone.

    Parameters
    ----------
    facts : ChainFacts
        Chain, contracts, fixed terms and block hashes.
    records : sequence of Record
        All records of both contracts, in the order of the chain.
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
        self._facts = facts
        self._records = records
        self._store = store
        self._progress = progress
        self.rounds = Rounds()

    def run(self) -> Verdict:
        """Check every record in order; stop at the first that is bad."""
        rules = LedgerRules(self._facts, self.rounds)
        content = ContentRules(self._facts, self._store, self.rounds, closed_rounds(self._records))
        done = 0
        try:
            for record in self._records:
                rules.check(record)
                content.check(record)
                self.rounds.add(record)
                done += 1
                if self._progress is not None:
                    self._progress(done)
        except AuditFailure as failure:
            verdict, first, reason = "bad record", failure.record, str(failure.record)
        except CannotTell as fault:
            verdict, first, reason = "cannot tell", None, str(fault)
        else:
            verdict, first, reason = "verified", None, ""
        return Verdict(
            verdict=verdict,
            first_bad_record=first,
            reason=reason,
            rounds=len(self.rounds.ended()),
            records=done,
            head_block=self._facts.head_block,
            head_hash="0x" + self._facts.block_hash(self._facts.head_block).hex(),
            remarks=tuple(content.remarks),
        )
