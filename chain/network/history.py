"""A federation's chain history as a file: everything that is needed to check its records without any node.

Headers from the deployment on, linked by their hashes, and for each block with records all transactions and receipts,
which must hash to the roots in its header. A header's bloom filter says whether a block may hold records, so a block's
receipts cannot be left out unnoticed.

The chain of headers proves that nothing was altered since; that it is the chain's, a reader sees by comparing the hash
of its last block (``head_block``, ``block_hash``) with a node of their own.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from eth_utils import keccak

from fedgrove.chain.errors import ConnectionFailed
from fedgrove.chain.network.access import Network, Paid
from fedgrove.chain.network.blocks import (
    MIX_FIELD,
    TIME_FIELD,
    BadHistory,
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
from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.common.wire import canonical_json

__all__ = ["BadHistory", "Block", "Body", "LedgerHistory", "capture"]

FORMAT = "fedgrove-history-2"
MAX_LINE_BYTES = 1 << 26
MAX_BRACKETS = 8  # so that no nesting can exhaust the parser's stack
MAX_BLOCKS = 10_000_000
HEADERS_AT_ONCE = 500


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
        if not self.first_block <= number <= self.head_block:
            raise BadHistory(number, f"it is not among blocks {self.first_block} to {self.head_block}")
        return self.blocks[number - self.first_block].hash

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
        self.block_hash(number)
        return header_fields(number, self.blocks[number - self.first_block].header)[MIX_FIELD]

    def time(self, number: int) -> int:
        """When a block was made, by its maker's clock, in seconds since 1970; raises as ``randomness``."""
        self.block_hash(number)
        return int.from_bytes(header_fields(number, self.blocks[number - self.first_block].header)[TIME_FIELD], "big")

    @cached_property
    def transactions(self) -> dict[bytes, Paid]:
        """What each transaction cost that left a record, by its hash; without a rollup's charge for data elsewhere."""
        return {call.hash: self._facts(call) for call in self._calls}

    def _facts(self, call: Call) -> Paid:
        price = call.signed.price(base_fee(call.block, self.blocks[call.block - self.first_block].header))
        return Paid(call.signed.sender, call.gas_used, call.gas_used * price)

    @cached_property
    def _records(self) -> tuple[Record, ...]:
        return tuple(record for call in self._calls for record in call.records)

    @cached_property
    def _calls(self) -> tuple[Call, ...]:
        """The transactions that left records, in order. An account's come by its nonces, none twice."""
        found: list[Call] = []
        nonces: dict[str, int] = {}
        for number, body in self._bodies():
            for call in calls_of(number, body, self.deployment):
                _check_nonce(number, call, nonces)
                found.append(call)
        return tuple(found)

    def _bodies(self) -> Iterator[tuple[int, Body]]:
        for number, block in enumerate(self.blocks, self.first_block):
            if block.body is not None:
                yield number, block.body

    # --- file -------------------------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write JSON lines: the deployment, then one line for each block."""
        head = {"format": FORMAT, "deployment": json.loads(self.deployment.to_json()), "blocks": len(self.blocks)}
        with path.open("w", encoding="ascii", newline="\n") as file:
            file.write(_line(head))
            for block in self.blocks:
                file.write(_line(_block_fields(block)))

    @staticmethod
    def peek(path: Path) -> Deployment:
        """The deployment that a file of ``save`` begins with; raises BadHistory and OSError as ``load``."""
        with path.open("rb") as file:
            deployment, _ = _parse(None, lambda: _head(_read_line(file.readline(MAX_LINE_BYTES + 1))))
        return deployment

    # (0) the file: canonical lines, each within bounds
    @classmethod
    def load(cls, path: Path) -> "LedgerHistory":
        """Read what ``save`` wrote; raises BadHistory for a file of another form, and OSError."""
        with path.open("rb") as file:
            deployment, count = _parse(None, lambda: _head(_read_line(file.readline(MAX_LINE_BYTES + 1))))
            blocks = []
            for number in range(deployment.block, deployment.block + count):
                line = file.readline(MAX_LINE_BYTES + 1)
                blocks.append(_parse(number, lambda line=line: _block(_read_line(line))))
            if file.read(1):
                raise BadHistory(None, "there are lines after the last block")
        return cls(deployment, tuple(blocks))


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


def _block_fields(block: Block) -> dict[str, Any]:
    fields: dict[str, Any] = {"hash": block.hash.hex(), "header": block.header.hex()}
    if block.body is not None:
        fields["receipts"] = [item.hex() for item in block.body.receipts]
        fields["transactions"] = [item.hex() for item in block.body.transactions]
    return fields


def _block(fields: dict[str, Any]) -> Block:
    body = None
    if set(fields) == {"hash", "header", "receipts", "transactions"}:
        body = Body(tuple(map(bytes.fromhex, fields["transactions"])), tuple(map(bytes.fromhex, fields["receipts"])))
    elif set(fields) != {"hash", "header"}:
        raise ValueError("unknown fields")
    return Block(bytes.fromhex(fields["header"]), bytes.fromhex(fields["hash"]), body)


def _head(fields: dict[str, Any]) -> tuple[Deployment, int]:
    if set(fields) != {"format", "deployment", "blocks"} or fields["format"] != FORMAT:
        raise ValueError("another format")
    count = fields["blocks"]
    if type(count) is not int or not 1 <= count <= MAX_BLOCKS:
        raise ValueError("the wrong number of blocks")
    return Deployment.from_json(canonical_json(fields["deployment"]).decode()), count


def _line(fields: dict[str, Any]) -> str:
    return canonical_json(fields).decode() + "\n"


def _read_line(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES or line.count(b"[") + line.count(b"{") > MAX_BRACKETS:
        raise ValueError("the line is too long or too deep")
    fields = json.loads(line)
    if not isinstance(fields, dict) or _line(fields).encode() != line:
        raise ValueError("not in canonical form")
    return fields


def _parse(number: int | None, parse: Callable[[], Any]) -> Any:
    try:
        return parse()
    except (ValueError, TypeError, KeyError, RecursionError, InvalidContent, InvalidInput):
        raise BadHistory(number, "its line in the file is missing or cannot be read") from None
