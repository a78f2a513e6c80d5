"""A role's own, growing picture of the ledger."""

from fedgrove.chain.crypto import tree
from fedgrove.chain.errors import BadHistory
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.records import Record
from fedgrove.chain.records.phases import Deadlines
from fedgrove.node.protocol.bad_record import RuleBroken
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.protocol.law import Law
from fedgrove.node.protocol.rounds import RoundRecords, Rounds

_UNTIL_OPEN = 3  # blocks in which a round is open that is to be opened now


class LedgerView:
    """Reads new records up to the confirmed block, holds them to the ledger's rules, and keeps them sorted by round.

    Parameters
    ----------
    ledger : Ledger
        The facade to read through.
    confirmations : int
        Blocks that must lie on top of a record before a role acts on it.
    """

    def __init__(self, ledger: Ledger, confirmations: int = 0) -> None:
        self._ledger = ledger
        self._confirmations = confirmations
        self._seen = 0
        self._last: Record | None = None
        self.settings = ledger.deployment.settings
        self.terms = ledger.deployment.terms
        self.block = 0
        self._begin()

    def refresh(self) -> RoundRecords | None:
        """Read what is new; return the latest round, or None before the first."""
        records = self._ledger.records()
        self.block = self._ledger.confirmed_block(self._confirmations)
        if self._seen and records[self._seen - 1 : self._seen] != [self._last]:
            # The chain abandoned blocks that this view had seen: sort what stands now from the start.
            self._begin()
        while self._seen < len(records) and records[self._seen].at.block <= self.block:
            self._place(records[self._seen])
            self._seen += 1
        return self.rounds.latest

    def _begin(self) -> None:
        self._seen = 0
        self.rounds = Rounds(self.settings.quorum)
        ledger = self._ledger
        facts = ChainFacts(ledger.deployment, 0, ledger.block_hash, ledger.block_randomness)
        self.law = Law(facts, self.rounds)

    def _place(self, record: Record) -> None:
        try:
            self.law.check(record)
        except RuleBroken as broken:
            # No ledger records this: whoever delivered it left something out or made something up. Read it all anew.
            self._begin()
            self._ledger.forget()
            raise BadHistory(record.at.block, f"its log {record.at.log_index} breaks a rule: {broken}") from None
        self.rounds.add(record)
        self._last = record

    def deadlines(self, current: RoundRecords) -> Deadlines:
        """The ends of a round's phases."""
        return current.deadlines(self.settings)

    def barred(self, number: int) -> list[str]:
        """Accounts of clients that may not draw in a round that is to be opened now, also some blocks later."""
        return self.law.barred_from(number, self.block + self._confirmations + _UNTIL_OPEN)

    def seed(self, current: RoundRecords) -> bytes:
        """The round's seed: from the ledger, or computed from the seed block before anyone fixed it."""
        if current.seed is not None:
            return current.seed.seed
        block_hash = self._ledger.block_hash(self.deadlines(current).seed_block)
        return tree.seed(block_hash, self.rounds.root_before(current.number))
