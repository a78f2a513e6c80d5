"""Pins that tie a history to the outside: a published head, the expected ledger, a member's signed statement.

A history proves that every record in it is its author's, and that nothing was altered. What it cannot prove by itself
is that it is the whole one, of the federation one means: whoever delivers it can leave out its end. A hash of a late
block that somebody published closes that gap, as far as the block goes.
"""

from dataclasses import asdict, dataclass, replace

from eth_utils import is_checksum_address
from fedgrove.chain.crypto.account import Account
from fedgrove.chain.crypto.signatures import SIGNATURE_BYTES, is_signed_by, sign_message
from fedgrove.common.wire import canonical_json, parse_json
from fedgrove.node.protocol.bad_record import bad
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.protocol.rounds import Rounds

FORMAT = "fedgrove-head-1"
MAX_BYTES = 1 << 12


class InvalidHead(ValueError):
    """A file is not a statement of a head; the message says why."""


@dataclass(frozen=True)
class HeadStatement:
    """A member says that a block belongs to its federation's chain; ``signature`` is its account's.

    ``block_hash`` and ``signature`` are hexadecimal, ``ledger`` and ``account`` checksummed addresses.
    """

    chain_id: int
    ledger: str
    block: int
    block_hash: str
    account: str
    signature: str = ""

    @classmethod
    def sign(cls, account: Account, chain_id: int, ledger: str, block: int, block_hash: bytes) -> "HeadStatement":
        """State a head under an account's signature."""
        bare = cls(chain_id, ledger, block, block_hash.hex(), account.address)
        return replace(bare, signature=sign_message(account, bare.message()).hex())

    def message(self) -> bytes:
        """The signed bytes; they differ from every transaction and every other signed statement of fedgrove."""
        place = f"chain {self.chain_id}\nledger {self.ledger}\nblock {self.block}"
        return f"fedgrove head 1\n{place}\n{self.block_hash}".encode()

    def to_bytes(self) -> bytes:
        """One line of canonical JSON."""
        table = {"format": FORMAT, **asdict(self)}
        return canonical_json(table) + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> "HeadStatement":
        """Read what ``to_bytes`` wrote, with a signature that is the account's; InvalidStatement for anything else."""
        try:
            table = parse_json(data) if len(data) <= MAX_BYTES else {}
            if table.pop("format", None) != FORMAT:
                raise ValueError("another format")
            found = cls(**table)
            kinds = {"chain_id": int, "block": int}
            if any(type(value) is not kinds.get(name, str) for name, value in asdict(found).items()):
                raise ValueError("a value of the wrong type")
            signature, block_hash = bytes.fromhex(found.signature), bytes.fromhex(found.block_hash)
        except (ValueError, TypeError, AttributeError, RecursionError):
            raise InvalidHead("it is not a statement of a head: make one with `fedgrove keys attest`") from None
        written = (signature.hex(), block_hash.hex()) == (found.signature, found.block_hash)
        sizes = len(block_hash) == 32 and len(signature) == SIGNATURE_BYTES
        if not (written and sizes and found.to_bytes() == data):
            raise InvalidHead("it is not a statement of a head in canonical form")
        if not (is_checksum_address(found.account) and is_signed_by(found.account, found.message(), signature)):
            raise InvalidHead("its signature is not that of the account it names")
        return found


@dataclass(frozen=True)
class Pins:
    """Facts that an auditor knows from elsewhere.

    Attributes
    ----------
    heads : tuple of (int, bytes)
        Blocks and their hashes, as somebody published them.
    ledger : str
        The ledger's checksummed address; empty: any.
    chain_id : int or None
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

    @staticmethod
    def _block(facts: ChainFacts, head_block: int, block: int, block_hash: bytes) -> None:
        first = facts.deployment.block
        if not first <= block <= head_block:
            raise bad("pinned head", f"block {block} is not in the history, which holds blocks {first} to {head_block}")
        if facts.block_hash(block) != block_hash:
            raise bad("pinned head", f"block {block} has a different hash in this history than was published")
