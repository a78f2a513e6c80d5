"""Blocks that prove what they hold: a header by its hash, transactions and receipts by its roots, records by both.

Whoever has the hash of a chain's latest block can check everything below it without trusting whoever delivers it. A
record is checked further: the transaction that left it took effect, went to a contract of the federation, on its chain,
signed by the account that answers for the record, with the record's content as calldata (``chain.records.authors``).
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from eth_utils import keccak, to_canonical_address, to_checksum_address

from fedgrove.chain.errors import BadHistory
from fedgrove.chain.network.block_rlp import (
    SIGNED_KINDS,
    DecodedReceipt,
    bloom_bits,
    bloom_of,
    decode_header,
    decode_receipt,
    trie_root,
    type_of,
)
from fedgrove.chain.records import Drawn, DrawRejected, Log, Position, Record
from fedgrove.chain.records.authors import author_of, incomplete
from fedgrove.chain.records.deployment import Deployment
from fedgrove.chain.records.events import decode_from
from fedgrove.chain.records.signed_transactions import SignedTransaction, decode_transaction
from fedgrove.common.errors import InvalidContent

PARENT_FIELD, TIME_FIELD, MIX_FIELD = 0, 11, 13
_TRANSACTIONS, _RECEIPTS, _BLOOM, _NUMBER, _BASE_FEE = 4, 5, 6, 8, 15


@dataclass(frozen=True, slots=True)
class Body:
    """Contents of a block's two tries: transactions and receipts in their EIP-2718 encodings, in order."""

    transactions: tuple[bytes, ...]
    receipts: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """One block: RLP of its header, the hash it is claimed to have, its body if it may hold records."""

    header: bytes
    hash: bytes
    body: Body | None = None


def addresses_of(deployment: Deployment) -> frozenset[bytes]:
    """The canonical addresses of a federation's contracts."""
    return frozenset(map(to_canonical_address, deployment.contracts.values()))


def check_block(number: int, block: Block, parent: bytes | None, addresses: frozenset[bytes]) -> None:
    """Check hash, number, parent (None: not known) and body of a block; raises BadHistory at the first fault."""
    # (1) the header: hash, number, parent
    fields = check_header(number, block.header, parent)
    if keccak(block.header) != block.hash:
        raise BadHistory(number, "its header does not have the hash it claims")
    # (2) the body: there when it may hold records, and hashing to the header's roots
    if block.body is not None:
        check_body(number, block.header, block.body)
    elif may_hold_records(fields, addresses):
        raise BadHistory(number, "its receipts are missing, though it may hold records")


def check_header(number: int, header: bytes, parent: bytes | None) -> list[bytes]:
    """The fields of a header, which must have this number and, where one is given, this parent; raises BadHistory."""
    fields = header_fields(number, header)
    if int.from_bytes(fields[_NUMBER], "big") != number:
        raise BadHistory(number, "its header has the wrong number")
    if parent is not None and fields[PARENT_FIELD] != parent:
        raise BadHistory(number, "its parent hash is not that of the previous block")
    return fields


def check_body(number: int, header: bytes, body: Body) -> None:
    """Check that transactions and receipts are those of a header; raises BadHistory."""
    fields = header_fields(number, header)
    _check_lengths(number, body)
    if trie_root(body.transactions) != fields[_TRANSACTIONS]:
        raise BadHistory(number, "its transactions do not hash to the root in its header")
    if trie_root(body.receipts) != fields[_RECEIPTS]:
        raise BadHistory(number, "its receipts do not hash to the root in its header")
    bloom = 0
    for raw, encoded in zip(body.transactions, body.receipts, strict=True):
        receipt = _receipt(number, encoded)
        if receipt.kind != type_of(raw) or receipt.bloom != bloom_of(receipt.logs):
            raise BadHistory(number, "one of its receipts does not match its transaction or its logs")
        bloom |= int.from_bytes(receipt.bloom, "big")
    if bloom != int.from_bytes(fields[_BLOOM], "big"):
        raise BadHistory(number, "its bloom filter does not match its receipts")


def may_hold_records(fields: list[bytes], addresses: frozenset[bytes]) -> bool:
    """Whether a block may hold records, by the bloom filter among the fields of its header."""
    bits = int.from_bytes(fields[_BLOOM], "big")
    return any(bits & mask == mask for mask in map(_bloom_of, addresses))


def header_fields(number: int, header: bytes) -> list[bytes]:
    """The fields of a header; raises BadHistory for what is none."""
    try:
        return decode_header(header)
    except InvalidContent:
        raise BadHistory(number, "its header cannot be decoded") from None


def base_fee(number: int, header: bytes) -> int:
    """The base fee of a block in wei a unit of gas; 0 on a chain without one. Raises BadHistory."""
    fields = header_fields(number, header)
    return int.from_bytes(fields[_BASE_FEE][-32:], "big") if len(fields) > _BASE_FEE else 0


@dataclass(frozen=True, slots=True)
class Call:
    """A transaction that left records: block, hash, what its author signed, the gas it used, the records in order."""

    block: int
    hash: bytes
    signed: SignedTransaction
    gas_used: int
    records: tuple[Record, ...]


def records_of(number: int, body: Body, deployment: Deployment) -> list[Record]:
    """The records in a block, in order, each with the account that answers for it (``at.author``).

    Raises BadHistory: a log of a contract is no record, or its transaction does not imply it.
    """
    return [record for call in calls_of(number, body, deployment) for record in call.records]


def calls_of(number: int, body: Body, deployment: Deployment) -> Iterator[Call]:
    """The transactions of a block that left records, in order; raises as ``records_of``."""
    before, addresses = 0, addresses_of(deployment)
    for raw, receipt, logs in _transactions(number, body, addresses):
        # (4) it took effect, and left all that it must
        if logs and not receipt.succeeded:
            raise BadHistory(number, "a record lies in a transaction that failed")
        if logs or (receipt.succeeded and type_of(raw) in SIGNED_KINDS and any(each in raw for each in addresses)):
            signed = decoded_transaction(number, raw)
            records = tuple(records_in(number, signed, logs, deployment))
            if records:
                yield Call(number, keccak(raw), signed, receipt.cumulative_gas - before, records)
        before = receipt.cumulative_gas


def records_in(
    number: int, transaction: SignedTransaction, logs: Sequence[Log], deployment: Deployment
) -> Iterator[Record]:
    """The records in the logs that a transaction left, in order, each with its author; raises as ``records_of``."""
    draws, kinds = 0, []
    for log in logs:
        record = _record(number, log, transaction, draws, deployment)
        draws += isinstance(record, Drawn | DrawRejected)
        kinds.append(type(record))
        yield record
    fault = incomplete(transaction, kinds, deployment)
    if fault:
        raise BadHistory(number, fault)


def decoded_transaction(number: int, raw: bytes) -> SignedTransaction:
    """A transaction that left a record; raises BadHistory for what is none, or has no valid signature.

    Also for one of a type without a signature, as the OP stack's deposits: its record would be nobody's word.
    """
    kind = type_of(raw)
    if kind not in SIGNED_KINDS:
        raise BadHistory(number, f"a record lies in a transaction of type {kind:#x}, which no member can have signed")
    try:
        return decode_transaction(raw)
    except InvalidContent:
        raise BadHistory(number, "one of its transactions has no valid signature") from None


def _record(number: int, log: Log, transaction: SignedTransaction, item: int, deployment: Deployment) -> Record:
    # (3) each log is an event of the contract that emitted it
    record = decode_from(log, deployment)
    # (4) the transaction (which took effect) was signed for this chain, and its author says what the record says
    kind = type(record).__name__
    if transaction.chain_id not in (None, deployment.chain_id):
        raise BadHistory(number, f"the transaction of its record {kind} was signed for another chain")
    try:
        author = author_of(record, transaction, deployment, item)
    except InvalidContent as fault:
        raise BadHistory(number, f"its record {kind} does not follow from its transaction: {fault}") from None
    return replace(record, at=record.at._replace(author=author))


def _transactions(
    number: int, body: Body, addresses: frozenset[bytes]
) -> Iterator[tuple[bytes, DecodedReceipt, list[Log]]]:
    """Each transaction's bytes, its receipt, and the logs of these contracts in it."""
    _check_lengths(number, body)
    index = 0
    for raw, encoded in zip(body.transactions, body.receipts, strict=True):
        receipt, own = _receipt(number, encoded), []
        for address, topics, data in receipt.logs:
            if address in addresses:
                at = Position(number, keccak(raw), index)
                own.append(Log(to_checksum_address(address), tuple(topics), data, at))
            index += 1
        yield raw, receipt, own


def _check_lengths(number: int, body: Body) -> None:
    if len(body.transactions) != len(body.receipts):
        raise BadHistory(number, "it has a different number of receipts and transactions")


@functools.cache
def _bloom_of(address: bytes) -> int:
    """The bits that an address sets."""
    return bloom_bits(address)


def _receipt(number: int, encoded: bytes) -> DecodedReceipt:
    try:
        return decode_receipt(encoded)
    except InvalidContent:
        raise BadHistory(number, "one of its receipts cannot be decoded") from None
