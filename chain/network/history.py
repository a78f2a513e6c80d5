"""A federation's chain history as a file: everything that is needed to check its records without any node.

Headers from the deployment on, linked by their hashes, and for each block with records all transactions and receipts,
which must hash to the roots in its header. A header's bloom filter says whether a block may hold records, so a block's
receipts cannot be left out unnoticed.

The chain of headers proves that nothing was altered since; that it is the chain's, a reader sees by comparing the hash
of its last block (``head_block``, ``block_hash``) with a node of their own.
"""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, BinaryIO, TypeVar

from eth_utils import keccak
from msgspec import Meta

from fedgrove.chain.errors import BadHistory, ConnectionFailed
from fedgrove.chain.network.access import Network, Paid
from fedgrove.chain.network.blocks import (
    MIX_FIELD,
    TIME_FIELD,
    Block,
    Body,
    Call,
    addresses_of,
    base_fee,
    calls_of,
    check_block,
    header_fields,
)
from fedgrove.chain.network.log_index import read_blocks
from fedgrove.chain.records import Record
from fedgrove.chain.records.deployment import Deployment
from fedgrove.common.wire import Malformed, Table

__all__ = ["Block", "Body", "LedgerHistory", "capture"]

MAX_LINE_BYTES = 1 << 26
MAX_BLOCKS = 10_000_000
HEADERS_AT_ONCE = 500
_Hexadecimal = Annotated[str, Meta(pattern=r"\A(?:[0-9a-f]{2})*\Z")]
_Table = TypeVar("_Table", bound=Table)


@dataclass(frozen=True)
class LedgerHistory:
    """Contiguous blocks of a chain from the deployment's on. Nothing in it is checked before ``verify``."""

    deployment: Deployment
    blocks: tuple[Block, ...] = field(repr=False)

    @property
    def chain_id(self) -> int:
        """The chain's id."""
        return self.deployment.chain_id

    @property
    def first_block(self) -> int:
        """Number of the first block."""
        return self.deployment.block

    @property
    def head_block(self) -> int:
        """Number of the last block."""
        return self.first_block + len(self.blocks) - 1

    def block_hash(self, number: int) -> bytes:
        """Hash of a block, 32 bytes; raises BadHistory for one that the history lacks."""
        return self._block(number).hash

    def _block(self, number: int) -> Block:
        if not self.first_block <= number <= self.head_block:
            raise BadHistory(number, f"it is not among blocks {self.first_block} to {self.head_block}")
        return self.blocks[number - self.first_block]

    def verify(self) -> None:
        """Check hashes, links, roots and completeness, block by block; raises BadHistory at the first fault."""
        parent, addresses = None, addresses_of(self.deployment)
        for number, block in enumerate(self.blocks, self.first_block):
            check_block(number, block, parent, addresses)
            parent = block.hash

    def records(self) -> list[Record]:
        """All records of both contracts, in the order of the chain, each with its author.

        Raises BadHistory where a log of a contract is no record, or does not follow from its transaction.
        """
        return list(self._records)

    def randomness(self, number: int) -> bytes:
        """The RANDAO mix in a block's header, 32 bytes; raises BadHistory for a block that the history lacks."""
        return self._header(number)[MIX_FIELD]

    def time(self, number: int) -> int:
        """When a block was made, by its maker's clock, in seconds since 1970; raises as ``randomness``."""
        return int.from_bytes(self._header(number)[TIME_FIELD], "big")

    def _header(self, number: int) -> list[bytes]:
        return header_fields(number, self._block(number).header)

    @cached_property
    def transactions(self) -> dict[bytes, Paid]:
        """What each transaction cost that left a record, by its hash; without a rollup's charge for data elsewhere."""
        return {call.hash: self._facts(call) for call in self._calls}

    def _facts(self, call: Call) -> Paid:
        price = call.signed.price(base_fee(call.block, self._block(call.block).header))
        return Paid(call.signed.sender, call.gas_used, call.gas_used * price)

    @cached_property
    def _records(self) -> tuple[Record, ...]:
        return tuple(record for call in self._calls for record in call.records)

    @cached_property
    def _calls(self) -> tuple[Call, ...]:
        """The transactions that left records, in order. An account's come by its nonces, none twice."""
        found: list[Call] = []
        nonces: dict[str, int] = {}
        for number, block in enumerate(self.blocks, self.first_block):
            for call in calls_of(number, block.body, self.deployment) if block.body is not None else ():
                _check_nonce(number, call, nonces)
                found.append(call)
        return tuple(found)

    # --- file -------------------------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write JSON lines: the deployment, then one line for each block."""
        with path.open("wb") as file:
            for table in (_Head(len(self.blocks), self.deployment), *map(_Line.of, self.blocks)):
                file.write(table.to_bytes() + b"\n")

    @staticmethod
    def peek(path: Path) -> Deployment:
        """The deployment that a file of ``save`` begins with; raises BadHistory and OSError as ``load``."""
        with path.open("rb") as file:
            return _read(_Head, file, None).deployment

    # (0) the file: canonical lines, each within bounds
    @classmethod
    def load(cls, path: Path) -> "LedgerHistory":
        """Read what ``save`` wrote; raises BadHistory for a file of another form, and OSError."""
        with path.open("rb") as file:
            head = _read(_Head, file, None)
            first = head.deployment.block
            blocks = tuple(_read(_Line, file, number).block for number in range(first, first + head.blocks))
            if file.read(1):
                raise BadHistory(None, "there are lines after the last block")
        return cls(head.deployment, blocks)


class _Head(Table, frozen=True, tag_field="format", tag="fedgrove-history-2"):
    """The first line of a file."""

    max_bytes = MAX_LINE_BYTES
    blocks: Annotated[int, Meta(ge=1, le=MAX_BLOCKS)]
    deployment: Deployment


class _Line(Table, frozen=True):
    """One block, hexadecimal; receipts and transactions only together."""

    max_bytes = MAX_LINE_BYTES
    hash: _Hexadecimal
    header: _Hexadecimal
    receipts: tuple[_Hexadecimal, ...] | None = None
    transactions: tuple[_Hexadecimal, ...] | None = None

    def __post_init__(self) -> None:
        if (self.receipts is None) != (self.transactions is None):
            raise ValueError("it has receipts without transactions, or transactions without receipts")

    @classmethod
    def of(cls, block: Block) -> "_Line":
        body = (
            (tuple(map(bytes.hex, block.body.receipts)), tuple(map(bytes.hex, block.body.transactions)))
            if block.body
            else ()
        )
        return cls(block.hash.hex(), block.header.hex(), *body)

    @property
    def block(self) -> Block:
        body = None
        if self.receipts is not None and self.transactions is not None:
            body = Body(tuple(map(bytes.fromhex, self.transactions)), tuple(map(bytes.fromhex, self.receipts)))
        return Block(bytes.fromhex(self.header), bytes.fromhex(self.hash), body)


def _read(kind: type[_Table], file: BinaryIO, number: int | None) -> _Table:
    """The next line of a file, about the block of this number."""
    line = file.readline(MAX_LINE_BYTES + 1)
    try:
        if not line.endswith(b"\n"):
            raise Malformed("it is cut short")
        return kind.from_bytes(line[:-1])
    except Malformed:
        raise BadHistory(number, "its line in the file is missing or cannot be read") from None


def capture(network: Network, deployment: Deployment) -> LedgerHistory:
    """Read a federation's history from a chain, up to its latest block.

    Raises
    ------
    BadHistory
        The node's answers do not hash to what the chain claims, so that no history can be made of them.
    ConnectionFailed
        The node has not reached the first block.
    """
    head, block_hash = network.agreed_head()
    if head < deployment.block:
        raise ConnectionFailed(f"The node is at block {head}, before block {deployment.block}; wait, or use another.")
    headers = []
    for start in range(deployment.block, head + 1, HEADERS_AT_ONCE):
        headers += network.headers(start, min(head, start + HEADERS_AT_ONCE - 1))
    if keccak(headers[-1]) != block_hash:
        raise BadHistory(head, "its header cannot be recomputed from the node's answers")
    history = LedgerHistory(deployment, read_blocks(network, deployment, headers, deployment.block))
    history.verify()
    return history


# (4) no transaction stands twice, or before one that its author signed earlier
def _check_nonce(number: int, call: Call, nonces: dict[str, int]) -> None:
    """``nonces`` are the latest of each sender."""
    sender, nonce = call.signed.sender, call.signed.nonce
    if nonce <= nonces.get(sender, -1):
        raise BadHistory(number, f"a transaction of {sender} appears twice, or out of its author's order")
    nonces[sender] = nonce
