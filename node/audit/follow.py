"""Watching a live federation: each round is audited as soon as it has ended, up to the first bad record.

Nothing is read or checked twice. The records of a running round are held back, because how it ends decides which blobs
must be at hand. Blocks that the chain replaces are read anew; if anything in them was audited already, that is itself a
bad record: nobody can rewrite a history that was looked at.

A wrong closing is a bad record unless its members have voided it by the time it is looked at; then it is a remark, as
in any audit.
"""

from dataclasses import replace

from fedgrove.chain.errors import BadHistory, ChainError, ConnectionFailed
from fedgrove.chain.network.access import Network
from fedgrove.chain.network.indexes import index_of
from fedgrove.chain.records import Closed, Failed, Record, RoundOpened, Skipped, Voided
from fedgrove.chain.records.deployment import Deployment
from fedgrove.ipfs.store import ContentReader, StoreError
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.audit.pins import Pins
from fedgrove.node.audit.verdict import NONE_CLOSED, CannotTell, Verdict
from fedgrove.node.protocol.bad_record import RuleBroken, bad
from fedgrove.node.protocol.chain_facts import ChainFacts

READINGS = 3
STOPPED = "stopped before all rounds of the federation had ended"


class Follower:
    """Audits a federation while it runs. Call ``look`` now and then.

    Parameters
    ----------
    network, deployment, store
        Where the records and the blobs are; the contracts' code is verified already.
    confirmations : int
        Blocks that must lie on top of a record before it is audited.

    Attributes
    ----------
    waiting : str
        Why nothing new can be told now; empty when chain and store answer.
    """

    def __init__(
        self,
        network: Network,
        deployment: Deployment,
        store: ContentReader,
        confirmations: int = 0,
        pins: Pins | None = None,
    ) -> None:
        self._confirmations = confirmations
        self._terms = deployment.terms
        self._index = index_of(network, deployment)
        facts = ChainFacts(deployment, deployment.block, self._index.block_hash, self._index.randomness)
        self._auditor = Auditor(facts, (), store, pins=pins)
        self._held: list[Record] = []
        self._audited: dict[int, bytes] = {}  # blocks with audited records, and their hashes
        self._last: Record | None = None
        self._bad_readings = 0
        self.waiting = ""

    @property
    def rounds(self) -> int:
        """Rounds audited so far."""
        return len(self._auditor.rounds.ended())

    def look(self) -> Verdict | None:
        """Read what is new and audit the rounds that have ended.

        Returns
        -------
        Verdict or None
            At the first bad record, or when all rounds of the federation have ended; None while it goes on.
        """
        self.waiting = ""
        try:
            self._read()
        except CannotTell as fault:
            return replace(self.so_far(), verdict="cannot tell", reason=str(fault))
        except RuleBroken as failure:
            found = str(failure.record)
            return replace(self.so_far(), verdict="bad record", first_bad_record=failure.record, reason=found)
        except ChainError as fault:
            self.waiting = str(fault)
            return None
        return self._audit()

    def so_far(self) -> Verdict:
        """Verdict on the part that is verified when the watch is stopped."""
        if self._last is None:
            return Verdict(NONE_CLOSED, reason=STOPPED)  # there was no record yet
        return replace(self._auditor.so_far(), reason=STOPPED)

    def _read(self) -> None:
        try:
            records = self._index.records()
        except BadHistory as fault:
            # A chain that changes while it is read looks the same; it does so once, not again and again.
            self._bad_readings += 1
            if self._bad_readings < READINGS:
                raise
            if not self._index.head_hash:
                # Not one block held together: rather a chain whose headers are not Ethereum's than a forged one.
                raise CannotTell(f"this chain's history cannot be verified: {fault}") from None
            raise bad("ledger", str(fault)) from None
        self._bad_readings = 0
        if self._last is not None and self._last.at.block > self._index.head:
            raise ConnectionFailed(
                f"The node is at block {self._index.head}, behind the last audited block; wait for it."
            )
        for block, block_hash in self._audited.items():
            if self._index.block_hash(block) != block_hash:
                raise self._rewritten(block)
        known = (self._last.at.block, self._last.at.log_index) if self._last is not None else (-1, -1)
        self._held = [record for record in records if (record.at.block, record.at.log_index) > known]

    def _rewritten(self, block: int) -> RuleBroken:
        ended = self._auditor.rounds.ended()
        number = next((each.number for each in ended if each.ending.at.block >= block), None)
        what = f"the chain replaced block {block} after its history was audited up to block {max(self._audited)}"
        return bad("chain", what, number)

    def _audit(self) -> Verdict | None:
        ready = self._take_ended(self._index.head - self._confirmations)
        if ready:
            self._last = ready[-1]
            self._audited |= {record.at.block: self._index.block_hash(record.at.block) for record in ready}
            self._auditor.add(ready, self._last.at.block)
        if self._last is None:
            return None
        verdict = self._auditor.run()
        if verdict.verdict == "cannot tell":
            self.waiting = verdict.reason
            return None
        return verdict if verdict.verdict == "bad record" or self._finished() else None

    def _take_ended(self, confirmed: int) -> list[Record]:
        """The held records up to the last place, in confirmed blocks, at which no round was running."""
        running, count = None, 0
        for place, record in enumerate(self._held, 1):
            if record.at.block > confirmed:
                break
            if isinstance(record, RoundOpened):
                running = record.round
            elif isinstance(record, Closed | Skipped | Failed | Voided) and record.round == running:
                running = None
            if running is None:
                count = place
        ready, self._held = self._held[:count], self._held[count:]
        return ready

    def _finished(self) -> bool:
        """Whether no round is running, and no other can follow by the terms, or by the members' budget."""
        if self._held:
            return False
        return self._auditor.rounds.all_held(self._terms.rounds, self._terms.repeats) or self._over()

    def _over(self) -> bool:
        """Whether the members' privacy budget affords no further round, or their loss has ended the training."""
        try:
            return bool(self._auditor.exhausted() or self._auditor.ending())
        except StoreError as fault:
            self.waiting = str(fault)
            return False
