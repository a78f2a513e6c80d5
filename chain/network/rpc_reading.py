"""Reading of blocks from one JSON-RPC node; every answer is hostile until it is parsed."""

import itertools
from collections.abc import Sequence
from typing import Any

from eth_utils import keccak, to_checksum_address

from fedgrove.chain.network.access import Paid
from fedgrove.chain.network.block_rlp import (
    DEPOSIT,
    MAX_DATA_BYTES,
    SIGNED_KINDS,
    kind_of,
    receipt_rlp,
    transaction_rlp,
)
from fedgrove.chain.network.blocks import Body
from fedgrove.chain.network.endpoint import MAX_ANSWER_BYTES, AnswerTooLarge, Endpoint, Lacking, RpcError
from fedgrove.chain.network.fees import BLOCKS, PERCENTILE, FeeHistory
from fedgrove.chain.network.hexadecimal import to_bytes, to_int
from fedgrove.chain.records import Log, Position
from fedgrove.common.errors import InvalidContent

BODY_BATCH = 20
LOG_SPAN = 2_000
_NO_MIX = "0x" + "00" * 32


def latest(node: Endpoint) -> tuple[int, bytes]:
    """Number and hash of the latest block; the number is noted as the node's head."""
    block = node.request("eth_getBlockByNumber", "latest", False)
    node.standing.head = to_int(block["number"])
    return node.standing.head, to_bytes(block["hash"], 32)


def head_of(node: Endpoint) -> int:
    """Number of the latest block, noted as the node's head."""
    node.standing.head = to_int(node.request("eth_blockNumber"))
    return node.standing.head


def nonce_of(node: Endpoint, address: str) -> int:
    """Nonce of an account's next transaction, pending ones not counted; the node's head is noted on the way."""
    nonce, head = node.requests([("eth_getTransactionCount", (address, "latest")), ("eth_blockNumber", ())])
    node.standing.head = to_int(head)
    return to_int(nonce)


def block_at(node: Endpoint, number: int) -> dict:
    """A block without its transactions, as JSON; raises Lacking where the node does not have it."""
    block = node.request("eth_getBlockByNumber", hex(number), False)
    if block is None:
        raise Lacking(f"has no block {number}", "wait, or use an archive node")
    return block


def fees_of(node: Endpoint) -> FeeHistory:
    """Fees of recent blocks; RpcError where the node does not keep them."""
    asked = ("eth_feeHistory", (hex(BLOCKS), "latest", [PERCENTILE]))
    answer, suggested = node.requests([asked, ("eth_maxPriorityFeePerGas", ())])
    if not isinstance(answer, dict):
        raise InvalidContent("not a history of fees")
    bases, used, rewards = (answer.get(name) or [] for name in ("baseFeePerGas", "gasUsedRatio", "reward"))
    if not len(used) == len(rewards) == len(bases) - 1 <= BLOCKS or not all(map(_is_share, used)):
        raise InvalidContent("not a history of fees")
    tips = tuple(to_int(reward[0]) for reward in rewards)
    return FeeHistory(to_int(bases[-1]), tuple(map(float, used)), tips, to_int(suggested))


def _is_share(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1


def logs_of(node: Endpoint, first: int, last: int, addresses: Sequence[str]) -> list[Log]:
    """Logs of these contracts in blocks first to last, both included."""
    # Asked for blocks that it does not have yet, a node answers with fewer logs rather than with an error.
    block_at(node, last)
    found: list[Log] = []
    span = LOG_SPAN
    while first <= last:
        end = min(last, first + span - 1)
        wanted = {"fromBlock": hex(first), "toBlock": hex(end), "address": list(addresses)}
        try:
            answer = node.request("eth_getLogs", wanted)
        except RpcError:
            # Nodes limit the span or the size of an answer, each in its own way.
            if span == 1:
                raise
            span = max(1, span // 4)
            continue
        found += [_log(item) for item in answer]
        first = end + 1
    return found


def bodies_of(node: Endpoint, numbers: Sequence[int]) -> list[Body]:
    """Transactions and receipts, in batches.

    A batch that is too large for an answer, since anybody can fill blocks, is asked for in halves.
    """
    found: list[Body] = []
    waiting = [list(numbers[start : start + BODY_BATCH]) for start in range(0, len(numbers), BODY_BATCH)]
    while waiting:
        batch = waiting.pop(0)
        try:
            blocks = parts_of(node, [("eth_getBlockByNumber", (hex(number), True)) for number in batch])
            receipts = receipts_of(node, batch, blocks)
        except AnswerTooLarge:
            if len(batch) == 1:
                raise
            half = len(batch) // 2
            waiting[:0] = [batch[:half], batch[half:]]
            continue
        found += [
            Body(transactions_of(node, block["transactions"]), tuple(map(receipt_rlp, of_block)))
            for block, of_block in zip(blocks, receipts, strict=True)
        ]
    return found


def receipts_of(node: Endpoint, numbers: Sequence[int], blocks: Sequence[dict]) -> list[list[dict]]:
    """The receipts of each block, given by its number and its transactions in full.

    A node that does not give the receipts of a block at once is asked for each. Whoever hashes the block sees whether
    they are the chain's, in either way.

    Raises AnswerTooLarge: they are larger, taken together, than any answer that is read.
    """
    if node.receipts_by_block:
        calls = [("eth_getBlockReceipts", (hex(number),)) for number in numbers]
        try:
            return _all_there(calls, node.requests(calls))
        except RpcError as fault:
            if not fault.lacks_method:
                raise _refuses(calls, fault) from None
            node.receipts_by_block = False
    found = iter(_receipts_one_by_one(node, [each["hash"] for block in blocks for each in block["transactions"]]))
    return [list(itertools.islice(found, len(block["transactions"]))) for block in blocks]


def _receipts_one_by_one(node: Endpoint, transactions: Sequence[str]) -> list[dict]:
    calls = [("eth_getTransactionReceipt", (transaction,)) for transaction in transactions]
    try:
        found = node.requests(calls, most_bytes=MAX_ANSWER_BYTES)
    except RpcError as fault:
        raise _refuses(calls, fault) from None
    if None in found:
        raise Lacking("does not have all receipts of a block", "wait, or use another node")
    return found


def transactions_of(node: Endpoint, listed: Sequence[dict]) -> tuple[bytes, ...]:
    """The EIP-2718 encodings of a block's transactions; of types that are not known here, as the node has them.

    A chain may have types of its own. Whoever hashes the block sees whether the node's bytes are the chain's.
    """
    own = [fields for fields in listed if kind_of(fields) not in (*SIGNED_KINDS, DEPOSIT)]
    calls = [("eth_getRawTransactionByHash", (fields["hash"],)) for fields in own]
    try:
        answers = zip(calls, node.requests(calls), strict=True)
        raw = {call[1][0]: to_bytes(each, most=MAX_DATA_BYTES) for call, each in answers}
    except RpcError as fault:
        kind = f"{kind_of(own[0]):#x}"
        what = f"has transactions of type {kind} and refuses eth_getRawTransactionByHash ({fault.message})"
        raise Lacking(what, "use another node") from None
    return tuple(raw[each["hash"]] if each.get("hash") in raw else transaction_rlp(each) for each in listed)


def parts_of(node: Endpoint, calls: Sequence[tuple[str, tuple]]) -> list[Any]:
    """Parts of blocks. A node that does not have them, or does not give them, is no reason not to ask the next."""
    try:
        found = node.requests(calls)
    except RpcError as fault:
        raise _refuses(calls, fault) from None
    return _all_there(calls, found)


def _refuses(calls: Sequence[tuple[str, tuple]], fault: RpcError) -> Lacking:
    return Lacking(f"refuses {calls[0][0]} ({fault.message})", "use another node")


def _all_there(calls: Sequence[tuple[str, tuple]], found: list[Any]) -> list[Any]:
    for (_, parameters), part in zip(calls, found, strict=True):
        if part is None:
            raise Lacking(f"has no block {int(parameters[0], 16)}", "wait, or use an archive node")
    return found


def facts_of(block: dict) -> tuple[bytes, bytes]:
    """Hash and RANDAO mix, as the node states them."""
    return to_bytes(block["hash"], 32), to_bytes(block.get("mixHash") or _NO_MIX, 32)


def place_of(log: Log) -> tuple[int, int]:
    """Block and index, by which logs are sorted."""
    return log.at.block, log.at.log_index


def signed_transaction(node: Endpoint, transaction: bytes) -> bytes:
    """The signed transaction with this hash, as it was sent; raises Malformed where it has another hash."""
    fields = node.request("eth_getTransactionByHash", "0x" + transaction.hex())
    if fields is None:
        raise Lacking(f"has no transaction 0x{transaction.hex()}", "wait, or use an archive node")
    [raw] = transactions_of(node, [fields])
    if keccak(raw) != transaction:
        raise InvalidContent("another transaction")
    return raw


def paid_by(node: Endpoint, transactions: Sequence[bytes]) -> list[Paid | None]:
    """What transactions cost by their receipts; None where the node has none."""
    calls = [("eth_getTransactionReceipt", ("0x" + transaction.hex(),)) for transaction in transactions]
    return [None if receipt is None else _paid(receipt) for receipt in node.requests(calls)]


def _paid(receipt: dict) -> Paid:
    gas = to_int(receipt["gasUsed"])
    # Rollups also charge for what they post to another chain; those of the OP stack state it as l1Fee.
    posted = to_int(receipt.get("l1Fee") or "0x0")
    sender = to_checksum_address(to_bytes(receipt["from"], 20))
    return Paid(sender, gas, gas * to_int(receipt["effectiveGasPrice"]) + posted)


def _log(item: dict) -> Log:
    if item.get("removed"):
        raise InvalidContent("a log of an abandoned block")
    topics = item["topics"]
    if len(topics) > 4:
        raise InvalidContent("more than four topics")
    at = Position(to_int(item["blockNumber"]), to_bytes(item["transactionHash"], 32), to_int(item["logIndex"]))
    address = to_checksum_address(to_bytes(item["address"], 20))
    return Log(address, tuple(to_bytes(topic, 32) for topic in topics), to_bytes(item["data"]), at)
