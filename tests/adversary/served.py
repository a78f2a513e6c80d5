"""Any chain of the tests as a JSON-RPC endpoint, so that a client with several endpoints can be played."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import rlp
from eth_utils import keccak

from fedgrove.chain.errors import ChainError, ContractRevert
from fedgrove.chain.network.access import Mined, Network
from fedgrove.chain.network.block_rlp import DEPOSIT, SIGNED_KINDS, decode_header, decode_receipt
from fedgrove.chain.records.signed_transactions import decode_transaction

WORDS = ("parentHash", "sha3Uncles", "miner", "stateRoot", "transactionsRoot", "receiptsRoot", "logsBloom")
NUMBERS = ("difficulty", "number", "gasLimit", "gasUsed", "timestamp")
LATER = (
    ("baseFeePerGas", int),
    ("withdrawalsRoot", bytes),
    ("blobGasUsed", int),
    ("excessBlobGas", int),
    ("parentBeaconBlockRoot", bytes),
    ("requestsHash", bytes),
)


@contextmanager
def served(network: Network) -> Iterator[str]:
    """The URL at which the chain is served, by one thread: embedded chains are not asked twice at once."""
    answering = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with answering:
                calls = payload if isinstance(payload, list) else [payload]
                answers = [_answer(network, call) for call in calls]
            body = json.dumps(answers if isinstance(payload, list) else answers[0]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(network: Network, call: dict[str, Any]) -> dict[str, Any]:
    method = METHODS.get(call["method"])
    found: dict[str, Any] = {"jsonrpc": "2.0", "id": call["id"]}
    if method is None:
        return found | {"error": {"code": -32601, "message": "method not found"}}
    try:
        return found | {"result": method(network, *call["params"])}
    except ContractRevert as refusal:
        return found | {"error": {"code": 3, "message": f"execution reverted: {refusal.name}", "data": "0x"}}
    except LookupError:
        return found | {"result": None}
    except ChainError as fault:
        return found | {"error": {"code": -32000, "message": f"nonce too low: {fault}"}}


def _block(network: Network, name: str, full: bool) -> dict[str, Any]:
    number, _ = network.agreed_head()
    if name != "latest":
        if int(name, 16) > number:
            raise LookupError
        number = int(name, 16)
    fields = decode_header(network.headers(number, number)[0])
    found = {name: _hex(field) for name, field in zip(WORDS, fields, strict=False)}
    found |= {name: _quantity(field) for name, field in zip(NUMBERS, fields[7:], strict=False)}
    found |= {"extraData": _hex(fields[12]), "mixHash": _hex(fields[13]), "nonce": _hex(fields[14])}
    for (name, kind), field in zip(LATER, fields[15:], strict=False):
        found[name] = _quantity(field) if kind is int else _hex(field)
    body = network.bodies([number])[0]
    listed = [_transaction(raw) for raw in body.transactions]
    return found | {
        "hash": _hex(keccak(rlp.encode(fields))),
        "transactions": listed if full else [each["hash"] for each in listed],
    }


def _receipts(network: Network, name: str) -> list[dict[str, Any]]:
    found = []
    for receipt in network.bodies([int(name, 16)])[0].receipts:
        kind = receipt[0] if receipt[0] < 0x80 else 0
        fields = rlp.decode(receipt[1:] if kind else receipt)
        logs = [
            {"address": _hex(address), "topics": [_hex(topic) for topic in topics], "data": _hex(data)}
            for address, topics, data in decode_receipt(receipt).logs
        ]
        numbers = {"status": _quantity(fields[0]), "cumulativeGasUsed": _quantity(fields[1]), "type": hex(kind)}
        later = zip(("depositNonce", "depositReceiptVersion"), map(_quantity, fields[4:]), strict=False)
        found.append(numbers | {"logsBloom": _hex(fields[2]), "logs": logs} | dict(later))
    return found


def _transaction(raw: bytes) -> dict[str, Any]:
    """Legacy ones, those with dynamic fees, and deposits; of all others the type and the hash."""
    kind = raw[0] if raw[0] < 0x80 else 0
    if kind == DEPOSIT:
        return _deposit(raw)
    if kind not in SIGNED_KINDS:
        return {"type": hex(kind), "hash": _hex(keccak(raw))}
    fields = rlp.decode(raw[1:] if kind else raw)
    if kind == 0:
        names = ("nonce", "gasPrice", "gas", "to", "value", "input", "v", "r", "s")
    else:
        names = ("chainId", "nonce", "maxPriorityFeePerGas", "maxFeePerGas", "gas", "to", "value", "input")
        names += ("accessList", "yParity", "r", "s")
    found = {name: _quantity(field) for name, field in zip(names, fields, strict=True) if name != "accessList"}
    texts = {"to": _hex(fields[names.index("to")]) if fields[names.index("to")] else None}
    texts |= {"input": _hex(fields[names.index("input")]), "hash": _hex(keccak(raw)), "type": hex(kind)}
    assert decode_transaction(raw)
    return found | texts


def _deposit(raw: bytes) -> dict[str, Any]:
    """As op-geth shows it."""
    source, sender, to, mint, value, gas, is_system, data = rlp.decode(raw[1:])
    found = {"type": "0x7e", "hash": _hex(keccak(raw)), "sourceHash": _hex(source), "from": _hex(sender)}
    found |= {"to": _hex(to) if to else None, "value": _quantity(value), "gas": _quantity(gas), "input": _hex(data)}
    unsigned = dict.fromkeys(("v", "r", "s", "gasPrice"), "0x0") | {"nonce": "0x7"}
    return found | unsigned | {"mint": _quantity(mint) if mint else None} | ({"isSystemTx": True} if is_system else {})


def _call(network: Network, fields: dict[str, str], block: str) -> str:
    return _hex(network.call(fields["to"], bytes.fromhex(fields["data"][2:])))


def _mined(network: Network, transaction: str) -> dict[str, Any] | None:
    found: Mined | None = network.mined(bytes.fromhex(transaction[2:]))
    if found is None:
        return None
    numbers = {"blockNumber": hex(found.block), "gasUsed": hex(found.gas_used), "status": hex(found.succeeded)}
    return numbers | {"contractAddress": found.contract}


def _hex(data: bytes) -> str:
    return "0x" + data.hex()


def _quantity(data: bytes) -> str:
    return hex(int.from_bytes(data, "big"))


METHODS: dict[str, Callable[..., Any]] = {
    "eth_chainId": lambda network: hex(network.chain_id),
    "web3_clientVersion": lambda network: "test",
    "eth_blockNumber": lambda network: hex(network.agreed_head()[0]),
    "eth_getBlockByNumber": _block,
    "eth_getBlockReceipts": _receipts,
    "eth_call": _call,
    "eth_getCode": lambda network, address, block: _hex(network.code(address)),
    "eth_getBalance": lambda network, address, block: hex(network.balance(address)),
    "eth_getTransactionCount": lambda network, address, block: hex(network.nonce(address)),
    "eth_sendRawTransaction": lambda network, raw: _hex(network.send(bytes.fromhex(raw[2:]))),
    "eth_getTransactionReceipt": _mined,
    "eth_getRawTransactionByHash": lambda network, name: _hex(network.signed_transaction(bytes.fromhex(name[2:]))),
    "eth_getTransactionByHash": lambda network, name: _transaction(network.signed_transaction(bytes.fromhex(name[2:]))),
}
