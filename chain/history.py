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

from eth_account import Account
from eth_bloom import BloomFilter
from eth_utils import keccak, to_canonical_address, to_checksum_address

from chain.access import Body, Network
from chain.block_rlp import DecodedReceipt, decode_header, decode_receipt, trie_root
from chain.deployment import Deployment
from chain.errors import ChainError, ConnectionFailed, InvalidLog
from chain.events import decode_from
from chain.records import Log, Position, Record

FORMAT = "fedgrove-history-1"
MAX_LINE_BYTES = 1 << 26
MAX_BRACKETS = 8  # so that no nesting can exhaust the parser's stack
MAX_BLOCKS = 10_000_000
HEADERS_AT_ONCE = 500
_PARENT, _TRANSACTIONS, _RECEIPTS, _BLOOM, _NUMBER = 0, 4, 5, 6, 8


class BadHistory(ChainError):
    """A history that contradicts itself; ``block`` is the first bad one (None: the file's head), ``what`` the fault."""

    def __init__(self, block: int | None, what: str) -> None:
        place = "The history" if block is None else f"Block {block} of the history"
        super().__init__(f"{place} does not hold: {what}; get it again from a node that you trust.")
        self.block = block
        self.what = what


@dataclass(frozen=True, slots=True)
class TransactionFacts:
    """A transaction that left a record: checksummed sender, gas used."""

    sender: str
    gas_used: int


@dataclass(frozen=True, slots=True)
class Block:
    """One block: RLP of its header, the hash it is claimed to have, its body if it may hold records."""

    header: bytes
    hash: bytes
    body: Body | None = None


@dataclass(frozen=True)
class History:
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
        parent = None
        for number, block in enumerate(self.blocks, self.first_block):
            fields = _header_fields(number, block.header)
            if keccak(block.header) != block.hash:
                raise BadHistory(number, "its header does not have the hash it claims")
            if int.from_bytes(fields[_NUMBER], "big") != number:
                raise BadHistory(number, "its header has another number")
            if parent is not None and fields[_PARENT] != parent:
                raise BadHistory(number, "it does not name the block before as its parent")
            parent = block.hash
            self._verify_body(number, fields, block.body)

    def records(self) -> list[Record]:
        """All records of both contracts, in the order of the chain.

        Raises BadHistory where a log of a contract is no record.
        """
        return list(self._records)

    @cached_property
    def transactions(self) -> dict[bytes, TransactionFacts]:
        """Sender and gas of each transaction that left a record, by transaction hash."""
        found = {}
        for number, body in self._bodies():
            receipts = [_receipt(number, receipt) for receipt in body.receipts]
            before = 0
            for raw, receipt in zip(body.transactions, receipts, strict=True):
                if any(log[0] in self._addresses for log in receipt.logs):
                    found[keccak(raw)] = TransactionFacts(_sender(number, raw), receipt.cumulative_gas - before)
                before = receipt.cumulative_gas
        return found

    # --- checking ---------------------------------------------------------------------------------------------------

    def _verify_body(self, number: int, fields: list[bytes], body: Body | None) -> None:
        if body is None:
            if self._may_hold_records(fields[_BLOOM]):
                raise BadHistory(number, "its receipts are missing, though it may hold records")
            return
        if len(body.transactions) != len(body.receipts):
            raise BadHistory(number, "it has not as many receipts as transactions")
        if trie_root(body.transactions) != fields[_TRANSACTIONS]:
            raise BadHistory(number, "its transactions do not hash to the root in its header")
        if trie_root(body.receipts) != fields[_RECEIPTS]:
            raise BadHistory(number, "its receipts do not hash to the root in its header")

    def _may_hold_records(self, bloom: bytes) -> bool:
        bits = BloomFilter(int.from_bytes(bloom, "big"))
        return any(address in bits for address in self._addresses)

    @cached_property
    def _addresses(self) -> frozenset[bytes]:
        return frozenset(map(to_canonical_address, (self.deployment.registry, self.deployment.ledger)))

    @cached_property
    def _records(self) -> tuple[Record, ...]:
        found = []
        for number, body in self._bodies():
            for log in _logs(number, body, self._addresses):
                try:
                    found.append(decode_from(log, self.deployment.registry, self.deployment.ledger))
                except InvalidLog as fault:
                    raise BadHistory(number, str(fault)) from None
        return tuple(found)

    def _bodies(self) -> Iterator[tuple[int, Body]]:
        for number, block in enumerate(self.blocks, self.first_block):
            if block.body is not None:
                if len(block.body.transactions) != len(block.body.receipts):
                    raise BadHistory(number, "it has not as many receipts as transactions")
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

    @classmethod
    def load(cls, path: Path) -> "History":
        """Read what ``save`` wrote; raises BadHistory for a file of another form, and OSError."""
        with path.open("rb") as file:
            deployment, count = _parse(None, lambda: _head(_read_line(file.readline(MAX_LINE_BYTES + 1))))
            blocks = []
            for number in range(deployment.block, deployment.block + count):
                line = file.readline(MAX_LINE_BYTES + 1)
                blocks.append(_parse(number, lambda line=line: _block(_read_line(line))))
            if file.read(1):
                raise BadHistory(None, "lines follow the last block")
        return cls(deployment, tuple(blocks))


def capture(network: Network, deployment: Deployment) -> History:
    """Read a federation's history from a chain, up to its latest block.

    Raises
    ------
    BadHistory
        The node's answers do not hash to what the chain claims, so that no history can be made of them.
    ConnectionFailed
        The node has not reached the first block.
    """
    head = network.block_number()
    if head < deployment.block:
        raise ConnectionFailed(f"The node is at block {head}, before block {deployment.block}; wait, or use another.")
    headers = []
    for start in range(deployment.block, head + 1, HEADERS_AT_ONCE):
        headers += network.headers(start, min(head, start + HEADERS_AT_ONCE - 1))
    bare = History(deployment, tuple(Block(header, keccak(header)) for header in headers))
    wanted = [
        number
        for number, header in enumerate(headers, deployment.block)
        if bare._may_hold_records(_header_fields(number, header)[_BLOOM])
    ]
    bodies = dict(zip(wanted, network.bodies(wanted), strict=True))
    numbered = enumerate(bare.blocks, deployment.block)
    blocks = tuple(Block(block.header, block.hash, bodies.get(number)) for number, block in numbered)
    history = History(deployment, blocks)
    if history.blocks[-1].hash != network.block_hash(head):
        raise BadHistory(head, "its header cannot be recomputed from what the node answers")
    history.verify()
    return history


def _logs(number: int, body: Body, addresses: frozenset[bytes]) -> Iterator[Log]:
    index = 0
    for raw, encoded in zip(body.transactions, body.receipts, strict=True):
        for address, topics, data in _receipt(number, encoded).logs:
            if address in addresses:
                at = Position(number, keccak(raw), index)
                yield Log(to_checksum_address(address), tuple(topics), data, at)
            index += 1


def _receipt(number: int, encoded: bytes) -> DecodedReceipt:
    try:
        return decode_receipt(encoded)
    except ValueError:
        raise BadHistory(number, "one of its receipts cannot be decoded") from None


def _sender(number: int, raw: bytes) -> str:
    try:
        return Account.recover_transaction(raw)
    except Exception:
        # eth-account raises errors of several libraries for bytes that are no signed transaction.
        raise BadHistory(number, "one of its transactions has no valid signature") from None


def _header_fields(number: int, header: bytes) -> list[bytes]:
    try:
        return decode_header(header)
    except ValueError:
        raise BadHistory(number, "its header cannot be decoded") from None


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
        raise ValueError("another number of blocks")
    return Deployment.from_json(json.dumps(fields["deployment"])), count


def _line(fields: dict[str, Any]) -> str:
    return json.dumps(fields, sort_keys=True, separators=(",", ":")) + "\n"


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
    except (ValueError, TypeError, KeyError, RecursionError):
        raise BadHistory(number, "its line in the file is missing or cannot be read") from None
