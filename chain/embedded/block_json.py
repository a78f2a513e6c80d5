"""JSON-RPC's form of an embedded chain's blocks, as ``block_rlp`` reads it again."""

from typing import Any

from eth.abc import BlockAPI, ReceiptAPI, SignedTransactionAPI
from eth_utils import encode_hex, to_checksum_address

from fedgrove.chain.network.block_rlp import type_of
from fedgrove.chain.records.deployment import created_address

BLOOM_BYTES = 256


def block_json(block: BlockAPI, full: bool) -> dict[str, Any]:
    """A block; with its transactions in full, or by their hashes."""
    header: Any = block.header
    transactions = block.transactions
    return {
        "hash": encode_hex(block.hash),
        "parentHash": encode_hex(header.parent_hash),
        "sha3Uncles": encode_hex(header.uncles_hash),
        "miner": to_checksum_address(header.coinbase),
        "stateRoot": encode_hex(header.state_root),
        "transactionsRoot": encode_hex(header.transaction_root),
        "receiptsRoot": encode_hex(header.receipt_root),
        "logsBloom": _bloom(header.bloom),
        "difficulty": hex(header.difficulty),
        "number": hex(header.block_number),
        "gasLimit": hex(header.gas_limit),
        "gasUsed": hex(header.gas_used),
        "timestamp": hex(header.timestamp),
        "extraData": encode_hex(header.extra_data),
        "mixHash": encode_hex(header.mix_hash),
        "nonce": encode_hex(header.nonce),
        "baseFeePerGas": hex(header.base_fee_per_gas),
        "withdrawalsRoot": encode_hex(header.withdrawals_root),
        "blobGasUsed": hex(header.blob_gas_used),
        "excessBlobGas": hex(header.excess_blob_gas),
        "parentBeaconBlockRoot": encode_hex(header.parent_beacon_block_root),
        "requestsHash": encode_hex(header.requests_hash),
        "uncles": [],
        "transactions": [
            transaction_json(each, block, index) if full else encode_hex(each.hash)
            for index, each in enumerate(transactions)
        ],
    }


def transaction_json(transaction: SignedTransactionAPI, block: BlockAPI | None, index: int) -> dict[str, Any]:
    """A signed transaction of type 0 or 2; without a block while it waits for one."""
    fields: Any = transaction
    kind = type_of(transaction.encode())
    place = {"blockHash": None, "blockNumber": None, "transactionIndex": None}
    if block is not None:
        place = {"blockHash": encode_hex(block.hash), "blockNumber": hex(block.number), "transactionIndex": hex(index)}
    common = {
        "hash": encode_hex(transaction.hash),
        "type": hex(kind),
        "from": to_checksum_address(transaction.sender),
        "to": to_checksum_address(transaction.to) if transaction.to else None,
        "nonce": hex(transaction.nonce),
        "gas": hex(transaction.gas),
        "value": hex(transaction.value),
        "input": encode_hex(transaction.data),
        "r": hex(fields.r),
        "s": hex(fields.s),
    }
    if kind == 0:
        return place | common | {"gasPrice": hex(fields.gas_price), "v": hex(fields.v)}
    return place | common | _fee_market(fields)


def _fee_market(fields: Any) -> dict[str, Any]:
    """The fields that transactions of type 2 have beyond those of all."""
    lists = [
        {"address": to_checksum_address(address), "storageKeys": [f"0x{key:064x}" for key in keys]}
        for address, keys in fields.access_list
    ]
    return {
        "chainId": hex(fields.chain_id),
        "maxFeePerGas": hex(fields.max_fee_per_gas),
        "maxPriorityFeePerGas": hex(fields.max_priority_fee_per_gas),
        "accessList": lists,
        "yParity": hex(fields.y_parity),
    }


def receipts_json(block: BlockAPI, receipts: tuple[ReceiptAPI, ...]) -> list[dict[str, Any]]:
    """The receipts of a block's transactions, with what their places in the block say of them."""
    found, gas, logs = [], 0, 0
    for index, (transaction, receipt) in enumerate(zip(block.transactions, receipts, strict=True)):
        sender = to_checksum_address(transaction.sender)
        place = {
            "transactionHash": encode_hex(transaction.hash),
            "transactionIndex": hex(index),
            "blockHash": encode_hex(block.hash),
            "blockNumber": hex(block.number),
        }
        found.append(
            place
            | {
                "type": hex(type_of(transaction.encode())),
                "from": sender,
                "to": to_checksum_address(transaction.to) if transaction.to else None,
                "contractAddress": None if transaction.to else created_address(sender, transaction.nonce),
                "status": hex(receipt.state_root == b"\x01"),
                "cumulativeGasUsed": hex(receipt.gas_used),
                "gasUsed": hex(receipt.gas_used - gas),
                "effectiveGasPrice": hex(gas_price(transaction, block)),
                "logsBloom": _bloom(receipt.bloom),
                "logs": _logs(receipt, place, logs),
            }
        )
        gas, logs = receipt.gas_used, logs + len(receipt.logs)
    return found


def gas_price(transaction: Any, block: BlockAPI) -> int:
    """What a transaction in a block paid for each unit of gas, in wei."""
    base = block.header.base_fee_per_gas or 0
    return min(transaction.max_fee_per_gas, base + transaction.max_priority_fee_per_gas)


def _logs(receipt: ReceiptAPI, place: dict[str, Any], first: int) -> list[dict[str, Any]]:
    return [
        place
        | {
            "address": to_checksum_address(log.address),
            "topics": [f"0x{topic:064x}" for topic in log.topics],
            "data": encode_hex(log.data),
            "logIndex": hex(index),
            "removed": False,
        }
        for index, log in enumerate(receipt.logs, first)
    ]


def _bloom(bits: int) -> str:
    return encode_hex(bits.to_bytes(BLOOM_BYTES, "big"))
