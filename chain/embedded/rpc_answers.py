"""Answers of an embedded chain to JSON-RPC: what fedgrove asks for of Ethereum's interface, and ``anvil_mine``."""

from collections.abc import Callable
from typing import Any

from eth_utils import encode_hex, to_checksum_address

from fedgrove.chain.embedded.block_json import block_json, receipts_json, transaction_json
from fedgrove.chain.embedded.evm import CALL_GAS
from fedgrove.chain.embedded.pool import PooledNetwork
from fedgrove.chain.errors import ChainError
from fedgrove.chain.network.access import Payer
from fedgrove.chain.network.hexadecimal import to_bytes, to_int
from fedgrove.common.errors import InvalidContent

PARSE, UNKNOWN_METHOD, BAD_PARAMETERS, REFUSED, REVERTED = -32700, -32601, -32602, -32000, 3
MOST_BLOCKS = 10_000
LATEST = ("latest", "pending", "safe", "finalized")


class Answers:
    """What a chain answers, by the names of JSON-RPC's methods."""

    def __init__(self, network: PooledNetwork) -> None:
        self._network = network
        self._methods: dict[str, Callable[..., Any]] = {
            "web3_clientVersion": lambda: "fedgrove/py-evm",
            "eth_chainId": lambda: hex(network.chain_id),
            "eth_blockNumber": lambda: hex(network.block_number()),
            "eth_accounts": lambda: [network.funder],
            "eth_call": self._call,
            "eth_getCode": lambda address, block="latest": encode_hex(network.code(_address(address))),
            "eth_getBalance": lambda address, block="latest": hex(network.balance(_address(address))),
            "eth_getTransactionCount": lambda address, block="latest": hex(network.nonce(_address(address))),
            "eth_getBlockByNumber": self._block,
            "eth_getBlockReceipts": self._receipts,
            "eth_getTransactionByHash": self._transaction,
            "eth_getTransactionReceipt": self._receipt,
            "eth_getLogs": self._logs,
            "eth_sendRawTransaction": lambda raw: encode_hex(network.send(to_bytes(raw, most=1 << 20))),
            "eth_sendTransaction": self._transfer,
            "anvil_mine": self._mine,
        }

    def answer(self, request: Any) -> dict[str, Any]:
        """The answer to one request, or the error that it is."""
        if not isinstance(request, dict):
            return _failed(None, PARSE, "a request is an object")
        name, parameters, number = request.get("method"), request.get("params", []), request.get("id")
        method = self._methods.get(name) if isinstance(name, str) else None
        if method is None or not isinstance(parameters, list):
            return _failed(number, UNKNOWN_METHOD, f"the method {str(name)[:50]} is not available")
        try:
            return {"jsonrpc": "2.0", "id": number, "result": method(*parameters)}
        except Reverted as fault:
            return _failed(number, REVERTED, "execution reverted", encode_hex(fault.data))
        except ChainError as fault:
            return _failed(number, REFUSED, str(fault))
        except (TypeError, ValueError, KeyError, InvalidContent) as fault:
            return _failed(number, BAD_PARAMETERS, f"invalid parameters: {str(fault)[:200]}")

    def _number(self, block: Any) -> int:
        if block == "earliest":
            return 0
        return self._network.block_number() if block in LATEST else to_int(block)

    def _known(self, block: Any) -> int | None:
        """A block's number, if it has been made."""
        number = self._number(block)
        return number if number <= self._network.block_number() else None

    def _block(self, block: Any, full: bool = False) -> dict | None:
        number = self._known(block)
        return None if number is None else block_json(self._network.block(number), full)

    def _receipts(self, block: Any) -> list[dict] | None:
        number = self._known(block)
        if number is None:
            return None
        found = self._network.block(number)
        return receipts_json(found, self._network.receipts(found))

    def _transaction(self, name: Any) -> dict | None:
        transaction = to_bytes(name, 32)
        if (waiting := self._network.waiting(transaction)) is not None:
            return transaction_json(waiting, None, 0)
        if (place := self._network.place_of(transaction)) is None:
            return None
        block = self._network.block(place[0])
        return transaction_json(block.transactions[place[1]], block, place[1])

    def _receipt(self, name: Any) -> dict | None:
        place = self._network.place_of(to_bytes(name, 32))
        if place is None:
            return None
        block = self._network.block(place[0])
        return receipts_json(block, self._network.receipts(block))[place[1]]

    def _logs(self, wanted: dict) -> list[dict]:
        first, last = (self._number(wanted.get(name, "latest")) for name in ("fromBlock", "toBlock"))
        if last - first >= MOST_BLOCKS:
            raise ValueError(f"more than {MOST_BLOCKS} blocks")
        given = wanted.get("address", [])
        addresses = {_address(each) for each in ([given] if isinstance(given, str) else given)}
        return [
            log
            for number in range(first, min(last, self._network.block_number()) + 1)
            if self._network.block(number).header.bloom
            for receipt in self._receipts(hex(number)) or []
            for log in receipt["logs"]
            if log["address"] in addresses
        ]

    def _call(self, fields: dict, block: Any = "latest") -> str:
        data = to_bytes(fields.get("data") or fields.get("input") or "0x", most=1 << 20)
        gas, price = (to_int(fields.get(name, other)) for name, other in (("gas", hex(CALL_GAS)), ("gasPrice", "0x0")))
        payer = Payer(_address(fields["from"]), gas, price) if fields.get("from") else None
        computation = self._network.computation(_address(fields["to"]), data, payer, self._number(block))
        if computation.is_error:
            raise Reverted(computation.output)
        return encode_hex(computation.output)

    def _transfer(self, fields: dict) -> str:
        if _address(fields["from"]) != self._network.funder:
            raise ValueError("only the first of eth_accounts sends without a signature")
        return encode_hex(self._network.transfer(_address(fields["to"]), to_int(fields["value"])))

    def _mine(self, blocks: Any = "0x1") -> None:
        count = to_int(blocks)
        if count > MOST_BLOCKS:
            raise ValueError(f"more than {MOST_BLOCKS} blocks")
        self._network.mine(count)


class Reverted(Exception):
    """A call that failed, with the data that say why."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = data


def _address(text: Any) -> str:
    """A checksummed address. Raises ValueError for anything else."""
    return to_checksum_address(to_bytes(text, 20))


def _failed(number: Any, code: int, message: str, data: str | None = None) -> dict[str, Any]:
    fault = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return {"jsonrpc": "2.0", "id": number, "error": fault}
