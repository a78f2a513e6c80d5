"""Headers, transactions and receipts in the encoding that the chain hashes: made of JSON-RPC's answers, and read again.

Nothing made here is checked: whoever hashes the result sees whether it is right.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import rlp
from eth_utils import keccak
from rlp.exceptions import RLPException
from trie import HexaryTrie

from fedgrove.chain.network.hexadecimal import to_bytes, to_int
from fedgrove.chain.records.rlp_bytes import rlp_bytes
from fedgrove.common.errors import InvalidContent

MAX_HEADER_BYTES = 4096
MAX_TOPICS = 4
SIGNED_KINDS = range(5)
DEPOSIT = 0x7E
"""EIP-2718 types of Ethereum's signed transactions, and of the OP stack's deposits, which nobody signs there."""

# What a block's limit of gas allows is for the chain to say; whoever answers is bounded already (``endpoints``).
MAX_DATA_BYTES = 1 << 25
_EMPTY_ROOT = keccak(rlp_bytes(b""))
_HEAD = ("parentHash", "sha3Uncles", "miner", "stateRoot", "transactionsRoot", "receiptsRoot", "logsBloom")
_QUANTITIES = ("difficulty", "number", "gasLimit", "gasUsed", "timestamp")
# What each fork appended to the header, in order: London, Shanghai, Cancun, Prague.
_LATER = (
    ("baseFeePerGas", to_int),
    ("withdrawalsRoot", to_bytes),
    ("blobGasUsed", to_int),
    ("excessBlobGas", to_int),
    ("parentBeaconBlockRoot", to_bytes),
    ("requestsHash", to_bytes),
)


def header_rlp(block: dict[str, Any]) -> bytes:
    """RLP of a block's header; its Keccak hash is the block's hash."""
    fields: list[Any] = [to_bytes(block[name]) for name in _HEAD]
    fields += [to_int(block[name]) for name in _QUANTITIES]
    fields += [to_bytes(block["extraData"]), to_bytes(block["mixHash"], 32), to_bytes(block["nonce"], 8)]
    for name, parse in _LATER:
        if block.get(name) is None:
            break
        fields.append(parse(block[name]))
    return rlp_bytes(fields)


def receipt_rlp(receipt: dict[str, Any]) -> bytes:
    """EIP-2718 encoding of a receipt (EIP-658 status)."""
    logs = [_log(log) for log in receipt["logs"]]
    body = [to_int(receipt["status"]), to_int(receipt["cumulativeGasUsed"]), to_bytes(receipt["logsBloom"], 256), logs]
    kind = to_int(receipt.get("type", "0x0"))
    if kind == DEPOSIT and receipt.get("depositReceiptVersion") is not None:  # since the fork Canyon
        body += [to_int(receipt["depositNonce"]), to_int(receipt["depositReceiptVersion"])]
    return _typed(kind, body)


def _log(log: dict[str, Any]) -> list:
    topics = [to_bytes(topic, 32) for topic in log["topics"]]
    return [to_bytes(log["address"], 20), topics, to_bytes(log["data"], most=MAX_DATA_BYTES)]


def kind_of(fields: dict[str, Any]) -> int:
    """EIP-2718 type of a transaction that a node describes."""
    return to_int(fields.get("type", "0x0"))


def transaction_rlp(fields: dict[str, Any]) -> bytes:
    """EIP-2718 encoding of a transaction of types 0 to 4, or a deposit; its Keccak hash is the transaction's hash."""
    kind = kind_of(fields)
    if kind == DEPOSIT:
        return _deposit(fields)
    to = to_bytes(fields["to"], 20) if fields.get("to") else b""
    numbers = {name: to_int(fields[name]) for name in ("nonce", "gas", "value")}
    data = to_bytes(fields["input"], most=MAX_DATA_BYTES)
    signature = [to_int(fields["r"]), to_int(fields["s"])]
    if kind == 0:
        price = to_int(fields["gasPrice"])
        parity = [to_int(fields["v"]), *signature]
        return rlp_bytes([numbers["nonce"], price, numbers["gas"], to, numbers["value"], data, *parity])
    head = [to_int(fields["chainId"]), numbers["nonce"], *_prices(kind, fields)]
    head += [numbers["gas"], to, numbers["value"], data]
    parity = [to_int(fields["yParity"] if "yParity" in fields else fields["v"]), *signature]
    return _typed(kind, [*head, _access_list(fields), *_later_parts(kind, fields), *parity])


def _deposit(fields: dict[str, Any]) -> bytes:
    source, sender = to_bytes(fields["sourceHash"], 32), to_bytes(fields["from"], 20)
    to = to_bytes(fields["to"], 20) if fields.get("to") else b""
    numbers = [to_int(fields.get("mint") or "0x0"), to_int(fields["value"]), to_int(fields["gas"])]
    is_system = int(fields.get("isSystemTx") is True)
    data = to_bytes(fields["input"], most=MAX_DATA_BYTES)
    return _typed(DEPOSIT, [source, sender, to, *numbers, is_system, data])


def _prices(kind: int, fields: dict[str, Any]) -> list[int]:
    if kind == 1:
        return [to_int(fields["gasPrice"])]
    return [to_int(fields["maxPriorityFeePerGas"]), to_int(fields["maxFeePerGas"])]


def _access_list(fields: dict[str, Any]) -> list:
    return [
        [to_bytes(each["address"], 20), [to_bytes(key, 32) for key in each["storageKeys"]]]
        for each in fields.get("accessList") or []
    ]


def _later_parts(kind: int, fields: dict[str, Any]) -> list:
    """Additional fields of blob (type 3) and set-code (type 4) transactions."""
    if kind == 3:
        return [to_int(fields["maxFeePerBlobGas"]), [to_bytes(item, 32) for item in fields["blobVersionedHashes"]]]
    if kind == 4:
        return [[_authorization(item) for item in fields["authorizationList"]]]
    if kind > 4:
        raise InvalidContent(f"unknown transaction type {kind}")
    return []


def _authorization(item: dict[str, Any]) -> list:
    head = [to_int(item["chainId"]), to_bytes(item["address"], 20), to_int(item["nonce"])]
    return [*head, to_int(item["yParity"]), to_int(item["r"]), to_int(item["s"])]


def _typed(kind: int, body: list) -> bytes:
    encoded = rlp_bytes(body)
    return bytes([kind]) + encoded if kind else encoded


# Bytes of the fields that all forks have, from the parent's hash to the nonce; 0 where they vary.
_SIZES = (32, 32, 20, 32, 32, 32, 256, 0, 0, 0, 0, 0, 0, 32, 8)


@dataclass(frozen=True, slots=True)
class DecodedReceipt:
    """EIP-2718 type, whether it took effect, gas used in the block up to it, bloom filter (256 bytes); logs as
    [address, topics, data], of checked sizes."""

    kind: int
    succeeded: bool
    cumulative_gas: int
    bloom: bytes
    logs: list[list[Any]]


def decode_receipt(encoded: bytes) -> DecodedReceipt:
    """Read an EIP-2718 receipt. Raises InvalidContent on anything else."""
    try:
        kind = type_of(encoded)
        status, gas, bloom, logs, *further = rlp.decode(encoded[1:] if kind else encoded)
        if further and kind in SIGNED_KINDS:
            raise InvalidContent("a receipt with too many fields")
        if status not in (b"", b"\x01") or not isinstance(gas, bytes) or not _is_word(bloom, 256):
            raise InvalidContent("a malformed receipt")
        for address, topics, data in logs:
            if not (_is_word(address, 20) and isinstance(topics, list) and isinstance(data, bytes)):
                raise InvalidContent("a malformed log")
            if len(topics) > MAX_TOPICS or not all(_is_word(topic, 32) for topic in topics):
                raise InvalidContent("a log with malformed topics")
        return DecodedReceipt(kind, status == b"\x01", int.from_bytes(gas, "big"), bloom, logs)
    except (RLPException, TypeError, ValueError, RecursionError) as fault:  # of another shape, too
        raise InvalidContent(f"not a receipt: {fault}") from None


def decode_header(encoded: bytes) -> list[bytes]:
    """The fields of a header, at least the 15 of the first block. Raises InvalidContent on anything else."""
    try:
        fields = rlp.decode(encoded) if len(encoded) <= MAX_HEADER_BYTES else []
    except (RLPException, RecursionError) as fault:
        raise InvalidContent(f"not a header: {fault}") from None
    if not isinstance(fields, list) or len(fields) < len(_SIZES) or not all(isinstance(item, bytes) for item in fields):
        raise InvalidContent("not a header")
    if any(size and len(field) != size for field, size in zip(fields, _SIZES, strict=False)):
        raise InvalidContent("a header with fields of the wrong size")
    return fields


def type_of(encoded: bytes) -> int:
    """The EIP-2718 type of a transaction or a receipt; 0 for legacy ones."""
    return encoded[0] if encoded and encoded[0] < 0x80 else 0


def bloom_of(logs: Iterable[Sequence[Any]]) -> bytes:
    """The bloom filter over the addresses and topics of logs, 256 bytes."""
    bits = 0
    for address, topics, _ in logs:
        for item in (address, *topics):
            bits |= bloom_bits(item)
    return bits.to_bytes(256, "big")


def bloom_bits(item: bytes) -> int:
    """The bits that an address or a topic sets (Yellow Paper, 4.4.1): three pairs of its hash, each modulo 2048."""
    digest = keccak(item)
    bits = 0
    for at in (0, 2, 4):
        bits |= 1 << (int.from_bytes(digest[at : at + 2], "big") % 2048)
    return bits


def _is_word(item: Any, size: int) -> bool:
    return isinstance(item, bytes) and len(item) == size


def trie_root(items: Sequence[bytes]) -> bytes:
    """Root of the Merkle-Patricia trie that maps RLP(index) to the items, as in a block's header."""
    if not items:
        return _EMPTY_ROOT
    trie = HexaryTrie({}, prune=True)
    for index, item in enumerate(items):
        trie[rlp_bytes(index)] = item
    return trie.root_hash
