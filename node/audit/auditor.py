"""The auditor: re-derives the whole training history from ledger and store, and names the first bad record.

The verifier's steps, by their numbers in the code:

(0) the history file is canonical and within bounds                             chain.network.history
(1) each header has its hash and number, and names the one before               chain.blocks
(2) transactions and receipts hash to its roots; no body with records is left out
(3) each log of the contracts is one of their events, in canonical form
(4) its transaction took effect, was signed for this chain and this contract by the account that answers for the record,
    and says what the record says; both contracts were created with the code of this version and the terms stated
                                                                                chain.records.authors
(5) it keeps the ledger's rules: who, when, which proof, which order            node.protocol.law
(6) the blob behind it is what it must be                                       node.audit.content
(7) each closed model is the sum of the survivors' updates, with the server's step on it, bit for bit
(8) nobody's privacy budget was exceeded
(9) the report follows from ledger and store, and nothing else lies next to them node.audit.archive
(10) the history is the one that was published elsewhere                        node.audit.pins
(11) what it continues is an earlier federation's result                        node.audit.succession
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from fedgrove.chain.records import Phase, Record
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.audit.content import ContentRules, closed_rounds, replaced_rounds, void_rounds
from fedgrove.node.audit.pins import Pins
from fedgrove.node.audit.verdict import NONE_CLOSED, VERIFIED, CannotTell, Verdict, Word
from fedgrove.node.protocol.bad_record import BadRecord, RuleBroken
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.protocol.law import Law
from fedgrove.node.protocol.rounds import Rounds

Progress = Callable[[int, int], None]


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
    store : ContentReader
        Where the blobs are; every read is verified.
    progress : callable, optional
        Called with the number of records checked so far, and of all that there are to check.
    pins : Pins, optional
        What the auditor knows from elsewhere.
    """

    def __init__(
        self,
        facts: ChainFacts,
        records: Sequence[Record],
        store: ContentReader,
        progress: Progress | None = None,
        pins: Pins | None = None,
    ) -> None:
        self._facts = facts
        self._pins = pins or Pins()
        self._progress = progress
        self.rounds = Rounds(facts.settings.quorum)
        self._rules = Law(facts, self.rounds)
        self._content = ContentRules(facts, store, self.rounds, frozenset())
        self._unchecked: deque[Record] = deque()
        self._lawful = False
        self._done = 0
        self.add(records, facts.head_block)

    def add(self, records: Sequence[Record], head_block: int) -> None:
        """Add records up to the end of a round: the way a round ended decides which blobs must be available.

        ``head_block`` is the last block that the history reaches now.
        """
        self._content.closed |= closed_rounds(records)
        self._content.void |= void_rounds(records)
        self._content.replaced |= replaced_rounds(records)
        self._unchecked.extend(records)
        self._head_block = head_block

    def run(self) -> Verdict:
        """Check every record not checked yet, in order; stop at the first that is bad."""
        try:
            while self._unchecked:
                self._check(self._unchecked[0])
                self._unchecked.popleft()
            self._rules.check_end()
        except RuleBroken as failure:
            return self._verdict("bad record", failure.record, str(failure.record))
        except CannotTell as fault:
            return self._verdict("cannot tell", reason=str(fault))
        # (10)
        try:
            pinned = self._pins.check(self._facts, self._head_block, self.rounds)
        except RuleBroken as failure:
            return self._verdict("bad record", failure.record, str(failure.record))
        return replace(self.so_far(), pinned=pinned)

    def so_far(self) -> Verdict:
        """Verdict on the part that is verified so far, without further checks."""
        said = {"unpinned": self._unpinned(), "caveats": tuple(self._caveats()), "vouched": tuple(self._vouched())}
        verdict = self._verdict(VERIFIED if self.rounds.base is not None else NONE_CLOSED)
        return replace(verdict, before=self._content.before, **said)

    def _vouched(self) -> Iterator[str]:
        """Who drew in the last round that stands proved it over the hash of its seed block, and so of all before."""
        base = self.rounds.base
        if base is None:
            return
        known = self._known
        drew = len(known & {self.rounds.members[client].account for client in base.draws})
        yield (
            f"vouched for to block {base.opened.seed_block} by {drew} of {len(known)} members "
            f"(draws of round {base.number})"
        )
        confirmed = [client for client in base.judgements(Phase.CLOSED) if not base.overruled(client)]
        yield f"last closing: signed by {base.closing.at.author}, confirmed by {len(confirmed)} of {len(known)} members"
        if stated := self._pins.stated_blocks(self.rounds, known):
            yield f"pinned to block {stated[-1]} by {len(stated)} of {len(known)} members"

    @property
    def _known(self) -> set[str]:
        """Accounts of the members that others counted on in the last round that stands; none before one does."""
        base = self.rounds.base
        return self._content.known_members(base) if base is not None else set()

    @property
    def _practice(self) -> bool:
        return self._content.practice or self._facts.deployment.practice

    def _caveats(self) -> Iterator[str]:
        """What a correct history does not show by itself."""
        base, stated, deployment = self.rounds.base, self._content.stated, self._facts.deployment
        if self._content.practice:
            yield "its terms are for practice (federation.practice): anybody may take part, and nobody relies on it"
        if deployment.practice:
            yield (
                f"the ledger is on a practice chain (chain id {deployment.chain_id}): who runs it could make another "
                "history, so this shows only that the records agree with each other"
            )
        if base is not None and stated is not None and stated.round == base.number and stated.only_class is not None:
            yield (
                f"the last model predicts class {stated.only_class} for all {stated.samples:,} test samples: its "
                "accuracy is the share of that class"
            )

    def _unpinned(self) -> str:
        """Reservation of a verdict that lacks a published head to compare the history with."""
        members = self._known
        stated, half = self._pins.stated_blocks(self.rounds, members), (len(members) + 1) // 2
        # What all of these state, half of the members vouch for: no later block has as many.
        agreed = stated[half - 1 : half] if half else []
        known = max([block for block, _ in self._pins.heads] + agreed, default=-1)
        if known >= self._head_block:
            return ""
        what = "not checked against a published head" if known < 0 else f"no published head is later than block {known}"
        if self._pins.statements and not agreed:
            what = f"{what}, and fewer than half of the members that took part state one"
        vouched = self._content.vouched
        after = f", after block {vouched}, whose hash the last closing signs" if vouched > max(known, 0) else ""
        return f"{what}: the history may be missing its latest blocks{after}"

    def exhausted(self) -> str:
        """Why no further round can be held within the privacy budget, in one clause; empty when one can."""
        return self._content.exhausted()

    def ending(self) -> str:
        """Why the members' loss lets no further round follow, in one clause; empty where it does."""
        return self._content.ending()

    def _check(self, record: Record) -> None:
        if not self._lawful:
            self._rules.check(record)  # (5)
            # The rules remember what they saw, so that a record whose blob is out of reach does not pass them again.
            self._lawful = True
        self._content.check(record)  # (6) to (8)
        self.rounds.add(record)
        self._lawful = False
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._done + len(self._unchecked) - 1)

    def _verdict(self, verdict: Word, first: BadRecord | None = None, reason: str = "") -> Verdict:
        return Verdict(
            verdict=verdict,
            first_bad_record=first,
            reason=reason,
            rounds=len(self.rounds.ended()),
            records=self._done,
            head_block=self._head_block,
            head_hash="0x" + self._facts.block_hash(self._head_block).hex(),
            remarks=tuple(self._content.findings.remarks),
            practice=self._practice,
            privacy=self._content.spent,
        )
