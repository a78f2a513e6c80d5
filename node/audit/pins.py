"""Pins that tie a history to the outside: a published head, the expected ledger, a member's signed statement.

A history proves that every record in it is its author's, and that nothing was altered. What it cannot prove by itself
is that it is the whole one, of the federation one means: whoever delivers it can leave out its end. A hash of a late
block that somebody published closes that gap, as far as the block goes; so does what half of the members state, as far
as they committed in a round that stands. One member alone could help whoever leaves it out.
"""

from dataclasses import dataclass

from fedgrove.chain.crypto.statements import SignedStatement
from fedgrove.common.wire import Count, Digest
from fedgrove.node.protocol.bad_record import bad
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.protocol.rounds import Rounds


class HeadStatement(SignedStatement, frozen=True, tag="fedgrove-head-1"):
    """A member says that a block belongs to its federation's chain.

    ``ledger`` is a checksummed address.
    """

    chain_id: Count
    ledger: str
    block: Count
    block_hash: Digest

    def message(self) -> bytes:
        """The signed bytes; they differ from every transaction and every other signed statement of fedgrove."""
        place = f"chain {self.chain_id}\nledger {self.ledger}\nblock {self.block}"
        return f"fedgrove head 1\n{place}\n{self.block_hash}".encode()


@dataclass(frozen=True)
class Pins:
    """Facts that an auditor knows from elsewhere.

    Attributes
    ----------
    heads : tuple of (int, bytes)
        Blocks and their hashes, as somebody published them.
    ledger : str
        The ledger's checksummed address; empty: any.
    statements : tuple of HeadStatement
        Checked against their signatures.
    """

    heads: tuple[tuple[int, bytes], ...] = ()
    ledger: str = ""
    chain_id: int | None = None
    statements: tuple[HeadStatement, ...] = ()

    def check(self, facts: ChainFacts, head_block: int, rounds: Rounds) -> tuple[str, ...]:
        """The pins that match, one clause each; raise RuleBroken for the first that does not.

        Parameters
        ----------
        head_block : int
            The last block of the history.
        rounds : Rounds
            All of its records.
        """
        deployment, found = facts.deployment, []
        if self.ledger:
            if deployment.ledger != self.ledger:
                raise bad("pinned ledger", f"it is the history of ledger {deployment.ledger}, not of {self.ledger}")
            found.append(f"ledger {self.ledger}")
        if self.chain_id is not None:
            if deployment.chain_id != self.chain_id:
                raise bad("pinned chain", f"it is the history of chain {deployment.chain_id}, not of {self.chain_id}")
            found.append(f"chain {self.chain_id}")
        for block, block_hash in self.heads:
            self._block(facts, head_block, block, block_hash)
            found.append(f"the published hash of block {block}")
        for statement in self.statements:
            member = rounds.member(statement.account)
            if member is None:
                raise bad("pinned head", f"account {statement.account}, which states it, is not a member")
            if (statement.chain_id, statement.ledger) != facts.place:
                raise bad("pinned head", f"client {member.client} states the head of another federation")
            self._block(facts, head_block, statement.block, bytes.fromhex(statement.block_hash))
            found.append(f"block {statement.block} as client {member.client} ({statement.account}) signed it")
        return tuple(found)

    def stated_blocks(self, rounds: Rounds, known: set[str]) -> list[int]:
        """The latest block that each of the ``known`` accounts states, the latest first; of those that count only."""
        standing = (each for each in rounds.rounds.values() if each.stands)
        committed = {rounds.members[client].account for each in standing for client in each.commits}
        latest: dict[str, int] = {}
        for statement in self.statements:
            if statement.account in known & committed:
                latest[statement.account] = max(statement.block, latest.get(statement.account, 0))
        return sorted(latest.values(), reverse=True)

    @staticmethod
    def _block(facts: ChainFacts, head_block: int, block: int, block_hash: bytes) -> None:
        first = facts.deployment.block
        if not first <= block <= head_block:
            raise bad("pinned head", f"block {block} is not in the history, which holds blocks {first} to {head_block}")
        if facts.block_hash(block) != block_hash:
            raise bad("pinned head", f"block {block} has a different hash in this history than was published")
