"""Watching a live federation: each round is audited as soon as it has ended, up to the first bad record.

Nothing is read or checked twice. The records of a running round are held back, because how it ends decides which blobs
must be at hand. Blocks that the chain replaces are read anew; if anything in them was audited already, that is itself a
bad record: nobody can rewrite a history that was looked at.

A wrong closing is a bad record unless its members have voided it by the time it is looked at; then it is a remark, as
in any audit.
"""

from dataclasses import replace

from chain.access import Network
from chain.deployment import Deployment
from chain.errors import ChainError
from chain.history import BadHistory, History, capture
from chain.records import Closed, Failed, Record, RoundOpened, Skipped, Voided
from ipfs.store import ContentStore, StoreError
from node.auditing.archive import chain_facts
from node.auditing.verdict import AuditFailure, CannotTell, Verdict, bad
from node.auditor import Auditor
from node.content import fetch_config

READINGS = 3
STOPPED = "stopped before all rounds of the federation had ended"


class GrowingHistory:
    """The blocks of a chain that grows: verified as they are read, then only their hashes are kept."""

    def __init__(self, network: Network, deployment: Deployment) -> None:
        self._network = network
        self._deployment = deployment
        self._hashes: list[bytes] = []

    @property
    def first(self) -> int:
        """Number of the first block."""
        return self._deployment.block

    @property
    def last(self) -> int:
        """Number of the last block read; one below the first before anything is read."""
        return self.first + len(self._hashes) - 1

    def block_hash(self, number: int) -> bytes:
        """Hash of a block that was read, 32 bytes."""
        if not self.first <= number <= self.last:
            raise BadHistory(number, f"it is not among blocks {self.first} to {self.last}")
        return self._hashes[number - self.first]

    def standing(self) -> int:
        """The last block read that the chain still has. A node that is behind replaces nothing."""
        common = min(self.last, self._network.block_number())
        if self._stands(common):
            return self.last
        while not self._stands(common):
            common -= 1
        return common

    def forget_after(self, number: int) -> None:
        """Forget the blocks after this one, to read them anew."""
        del self._hashes[number + 1 - self.first :]

    def read(self) -> list[Record]:
        """Read the blocks that are new and return their records.

        Raises
        ------
        BadHistory
            What the node answers does not hold together, or the chain changed while it was read.
        """
        known = self.last
        if self._network.block_number() <= known:
            return []
        # One block of overlap links what is new to what is known.
        start = max(known, self.first)
        new = capture(self._network, replace(self._deployment, block=start))
        if known >= start and new.block_hash(start) != self.block_hash(start):
            raise BadHistory(start, "it was replaced while the blocks after it were read")
        records = [record for record in new.records() if record.at.block > known]
        self._hashes += [block.hash for block in new.blocks[known + 1 - start :]]
        return records

    def _stands(self, number: int) -> bool:
        return number < self.first or self._network.block_hash(number) == self.block_hash(number)


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

    def __init__(self, network: Network, deployment: Deployment, store: ContentStore, confirmations: int = 0) -> None:
        self._store = store
        self._confirmations = confirmations
        self._history = GrowingHistory(network, deployment)
        facts = replace(chain_facts(History(deployment, ())), block_hash=self._history.block_hash)
        self._auditor = Auditor(facts, (), store)
        self._held: list[Record] = []
        self._audited = deployment.block - 1
        self._bad_readings = 0
        self._planned: tuple[bytes, int] = (b"", 0)
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
        except AuditFailure as failure:
            found = str(failure.record)
            return replace(self.so_far(), verdict="bad record", first_bad_record=failure.record, reason=found)
        except ChainError as fault:
            self.waiting = str(fault)
            return None
        return self._audit()

    def so_far(self) -> Verdict:
        """What is verified by now, when the watch is stopped."""
        if self._audited < self._history.first:
            return Verdict("verified", reason=STOPPED)  # there was no record yet
        return replace(self._auditor.so_far(), reason=STOPPED)

    def _read(self) -> None:
        standing = self._history.standing()
        if standing < self._audited:
            raise self._rewritten(standing + 1)
        self._history.forget_after(standing)
        self._held = [record for record in self._held if record.at.block <= standing]
        try:
            self._held += self._history.read()
        except BadHistory as fault:
            # A chain that changes while it is read looks the same; it does so once, not again and again.
            self._bad_readings += 1
            if self._bad_readings < READINGS:
                raise
            if self._history.last < self._history.first:
                # Not one block held together: rather a chain whose headers are not Ethereum's than a forged one.
                raise CannotTell(f"this chain's history cannot be verified: {fault}") from None
            raise bad("ledger", str(fault)) from None
        self._bad_readings = 0

    def _rewritten(self, block: int) -> AuditFailure:
        ended = self._auditor.rounds.ended()
        number = next((entry.number for entry in ended if entry.end.at.block >= block), None)
        what = f"the chain replaced block {block}, and its history had been audited up to block {self._audited}"
        return bad("chain", what, number)

    def _audit(self) -> Verdict | None:
        ready = self._take_ended(self._history.last - self._confirmations)
        if ready:
            self._audited = ready[-1].at.block
            self._auditor.add(ready, self._audited)
        if self._audited < self._history.first:
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
        """Whether no round is running, and as many have ended as the latest terms say, or their budget affords."""
        latest = self._auditor.rounds.latest
        if latest is None or self._held:
            return False
        digest = latest.opened.config_digest
        if self._planned[0] != digest:
            try:
                self._planned = (digest, fetch_config(self._store, digest).federation.rounds)
            except StoreError as fault:
                self.waiting = str(fault)
                return False
        return self.rounds >= self._planned[1] or self._exhausted()

    def _exhausted(self) -> bool:
        """Whether the members' privacy budget affords no further round."""
        try:
            return bool(self._auditor.exhausted())
        except StoreError as fault:
            self.waiting = str(fault)
            return False
