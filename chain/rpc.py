"""Any EVM chain behind a JSON-RPC endpoint. What the node answers is hostile until it is parsed."""

import time
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

import requests
from eth_utils import keccak, to_checksum_address, to_wei
from web3 import HTTPProvider, Web3
from web3.exceptions import Web3Exception

from chain.access import Body, Network
from chain.block_rlp import header_rlp, receipt_rlp, transaction_rlp
from chain.errors import (
    ChainError,
    ConnectionFailed,
    InsufficientFunds,
    NonceConflict,
    TransactionRefused,
    TransactionTimeout,
    Underpriced,
    WrongChain,
    decode_revert,
)
from chain.hexadecimal import Malformed, to_bytes, to_int
from chain.records import Log, Position
from chain.transactions import GWEI, MAX_FEE_GWEI, RESEND_SECONDS, Mined

BATCH = 100
LOG_SPAN = 2_000
FUND_SECONDS = 60
_FAILURES = (requests.RequestException, Web3Exception, OSError, ValueError, RecursionError)


class RpcError(ChainError):
    """The node answered a request with an error."""

    def __init__(self, method: str, message: str, data: Any) -> None:
        super().__init__(f"The node refused {method} ({message[:200]}); check that it offers this method.")
        self.message = message
        self.data = data


class RpcNetwork(Network):
    """A chain at an http or https URL.

    Parameters
    ----------
    timeout : float
        Seconds for one request.
    max_fee_gwei : float
        The most that a transaction offers for a unit of gas.
    resend_seconds : float
        After so long in no block a transaction is sent again with higher fees.
    """

    poll_seconds = 0.05

    def __init__(
        self,
        urls: str | Sequence[str],
        expected_chain_id: int | None = None,
        timeout: float = 10.0,
        max_fee_gwei: float = MAX_FEE_GWEI,
        resend_seconds: float = RESEND_SECONDS,
    ) -> None:
        super().__init__()
        url = urls if isinstance(urls, str) else urls[0]
        self.max_fee, self.resend_seconds = int(max_fee_gwei * GWEI), resend_seconds
        self._where = _origin(url)
        options = {"timeout": timeout}
        self._provider = HTTPProvider(url, request_kwargs=options, exception_retry_configuration=None)
        self.web3 = Web3(self._provider)
        self.chain_id = self._number("eth_chainId")
        if expected_chain_id is not None and self.chain_id != expected_chain_id:
            raise WrongChain(
                f"The node at {self._where} serves chain {self.chain_id}, not {expected_chain_id}; give another URL."
            )
        self._is_test_node = self._find_test_node()
        self.can_mine = self._is_test_node and self.request("anvil_getAutomine") is True

    def request(self, method: str, *parameters: Any) -> Any:
        """The result of one request. Raises ConnectionFailed or RpcError."""
        return self._result(method, self._ask(lambda: self._provider.make_request(method, list(parameters))))

    def requests(self, calls: Iterable[tuple[str, tuple]]) -> list[Any]:
        """The results of many requests, a hundred at a time."""
        calls = list(calls)
        results = []
        for start in range(0, len(calls), BATCH):
            chunk = [(method, list(parameters)) for method, parameters in calls[start : start + BATCH]]
            answers = self._ask(lambda chunk=chunk: self._provider.make_batch_request(chunk))
            if not isinstance(answers, list) or len(answers) != len(chunk):
                raise ConnectionFailed(f"The node at {self._where} takes no batches of requests; use another node.")
            results += [self._result(method, answer) for (method, _), answer in zip(chunk, answers, strict=True)]
        return results

    # --- reading ----------------------------------------------------------------------------------------------------

    def block_number(self) -> int:
        return self._number("eth_blockNumber")

    def block_hash(self, number: int) -> bytes:
        return self._parse(lambda: to_bytes(self._block(number)["hash"], 32))

    def block_time(self, number: int) -> int:
        return self._parse(lambda: to_int(self._block(number)["timestamp"]))

    def call(self, to: str, data: bytes, sender: str | None = None, block: int | None = None) -> bytes:
        fields = {"to": to, "data": "0x" + data.hex()} | ({"from": sender} if sender else {})
        try:
            answer = self.request("eth_call", fields, "latest" if block is None else hex(block))
        except RpcError as fault:
            revert = self._revert_data(fault)
            if revert is None:
                raise
            raise decode_revert(revert) from None
        return self._parse(lambda: to_bytes(answer))

    def code(self, address: str) -> bytes:
        return self._parse(lambda: to_bytes(self.request("eth_getCode", address, "latest")))

    def balance(self, address: str) -> int:
        return self._number("eth_getBalance", address, "latest")

    def nonce(self, address: str) -> int:
        return self._number("eth_getTransactionCount", address, "latest")

    def base_fee(self) -> int:
        block = self.request("eth_getBlockByNumber", "latest", False)
        return self._parse(lambda: to_int(block.get("baseFeePerGas", "0x0")))

    def logs(self, first: int, last: int, addresses: Sequence[str]) -> list[Log]:
        found: list[Log] = []
        span = LOG_SPAN
        while first <= last:
            end = min(last, first + span - 1)
            wanted = {"fromBlock": hex(first), "toBlock": hex(end), "address": list(addresses)}
            try:
                answer = self.request("eth_getLogs", wanted)
            except RpcError:
                # Nodes limit the span or the size of an answer, each in its own way.
                if span == 1:
                    raise
                span = max(1, span // 4)
                continue
            found += self._parse(lambda answer=answer: [_log(item) for item in answer])
            first = end + 1
        return sorted(found, key=lambda log: (log.at.block, log.at.log_index))

    def headers(self, first: int, last: int) -> list[bytes]:
        calls = (("eth_getBlockByNumber", (hex(number), False)) for number in range(first, last + 1))
        return self._parse(lambda: [header_rlp(block) for block in self.requests(calls)])

    def bodies(self, numbers: Sequence[int]) -> list[Body]:
        blocks = self.requests(("eth_getBlockByNumber", (hex(number), True)) for number in numbers)
        receipts = self.requests(("eth_getBlockReceipts", (hex(number),)) for number in numbers)
        return self._parse(
            lambda: [
                Body(tuple(map(transaction_rlp, block["transactions"])), tuple(map(receipt_rlp, of_block)))
                for block, of_block in zip(blocks, receipts, strict=True)
            ]
        )

    # --- writing ----------------------------------------------------------------------------------------------------

    def send(self, raw: bytes) -> bytes:
        transaction = keccak(raw)
        try:
            self.request("eth_sendRawTransaction", "0x" + raw.hex())
        except RpcError as fault:
            refusal = _refusal(fault.message)
            # After a failover the node may have it from the one that was asked before, in its pool or in a block.
            taken = refusal is None or (isinstance(refusal, NonceConflict) and self.mined(transaction) is not None)
            if not taken:
                raise refusal from None
        return transaction

    def mined(self, transaction: bytes) -> Mined | None:
        receipt = self.request("eth_getTransactionReceipt", "0x" + transaction.hex())
        if receipt is None:
            return None
        return self._parse(lambda: _mined(transaction, receipt))

    def knows(self, transaction: bytes) -> bool:
        return self.request("eth_getTransactionByHash", "0x" + transaction.hex()) is not None

    def fund(self, address: str, ether: float) -> None:
        amount = int(to_wei(ether, "ether"))
        if self._is_test_node:
            self.request("anvil_setBalance", address, hex(self.balance(address) + amount))
            return
        accounts = self.request("eth_accounts") or []
        if not accounts:
            raise InsufficientFunds(f"Account {address} has no funds here; send it {ether} ether from another account.")
        sent = self.request("eth_sendTransaction", {"from": accounts[0], "to": address, "value": hex(amount)})
        transaction = self._parse(lambda: to_bytes(sent, 32))
        deadline = time.monotonic() + FUND_SECONDS
        while self.mined(transaction) is None:
            if time.monotonic() > deadline:
                raise TransactionTimeout(f"The transfer to {address} is in no block after {FUND_SECONDS} s; try later.")
            time.sleep(self.poll_seconds)

    def mine(self, blocks: int = 1) -> None:
        if blocks > 0:
            self.request("anvil_mine", hex(blocks))

    def close(self) -> None:
        """Nothing to end: connections are freed with the object."""

    # --- talking to the node ----------------------------------------------------------------------------------------

    def _ask(self, ask: Any) -> Any:
        try:
            return ask()
        except _FAILURES as fault:
            raise ConnectionFailed(
                f"The node at {self._where} does not answer ({type(fault).__name__}); check that it runs, and its URL."
            ) from None

    def _result(self, method: str, answer: Any) -> Any:
        if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
            fault = answer["error"]
            raise RpcError(method, str(fault.get("message", "")), fault.get("data"))
        if not isinstance(answer, dict) or "result" not in answer:
            raise self._nonsense()
        return answer["result"]

    def _parse(self, parse: Any) -> Any:
        try:
            return parse()
        except (Malformed, KeyError, TypeError, AttributeError, ValueError):
            raise self._nonsense() from None

    def _nonsense(self) -> ConnectionFailed:
        return ConnectionFailed(f"The node at {self._where} answers what no EVM node answers; give the URL of one.")

    def _number(self, method: str, *parameters: Any) -> int:
        return self._parse(lambda: to_int(self.request(method, *parameters)))

    def _block(self, number: int) -> dict:
        block = self.request("eth_getBlockByNumber", hex(number), False)
        if block is None:
            raise ConnectionFailed(f"The node at {self._where} has no block {number}; wait, or use an archive node.")
        return block

    def _revert_data(self, fault: RpcError) -> bytes | None:
        """The data of a revert, None when the call failed for another reason."""
        data = fault.data.get("data") if isinstance(fault.data, dict) else fault.data
        if isinstance(data, str) and data.startswith("0x"):
            return self._parse(lambda: to_bytes(data))
        return b"" if "revert" in fault.message.lower() else None

    def _find_test_node(self) -> bool:
        version = self.request("web3_clientVersion")
        return isinstance(version, str) and version.startswith("anvil/")


def _origin(url: str) -> str:
    """Scheme, host and port: a URL's path and user may hold a secret."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https"):
        raise ConnectionFailed("The node's URL must look like http://HOST:PORT or https://HOST; correct it.")
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "")


def _log(item: dict) -> Log:
    if item.get("removed"):
        raise Malformed("a log of an abandoned block")
    topics = item["topics"]
    if len(topics) > 4:
        raise Malformed("more than four topics")
    at = Position(to_int(item["blockNumber"]), to_bytes(item["transactionHash"], 32), to_int(item["logIndex"]))
    address = to_checksum_address(to_bytes(item["address"], 20))
    return Log(address, tuple(to_bytes(topic, 32) for topic in topics), to_bytes(item["data"]), at)


def _mined(transaction: bytes, receipt: dict) -> Mined:
    contract = receipt.get("contractAddress")
    return Mined(
        transaction,
        to_int(receipt["blockNumber"]),
        to_int(receipt["gasUsed"]),
        to_int(receipt["status"]) == 1,
        to_checksum_address(to_bytes(contract, 20)) if contract else None,
    )


_TAKEN = ("already known", "alreadyknown", "already imported", "already exists", "known transaction")
_UNDERPRICED = ("underpriced", "less than block base fee", "fee too low", "feetoolow", "gas price too low")


def _refusal(message: str) -> ChainError | None:
    """What a refusal means, by the words of the nodes in use; None when the node has the transaction already."""
    lower = message.lower()
    if any(words in lower for words in _TAKEN):
        return None
    if "insufficient funds" in lower or "insufficient balance" in lower:
        return InsufficientFunds("The account cannot pay for the transaction; send it more of the chain's currency.")
    if any(words in lower for words in _UNDERPRICED):
        return Underpriced("The node wants higher fees for the transaction; offer more.")
    if "nonce" in lower:
        return NonceConflict("Another transaction took this nonce; send it again.")
    return TransactionRefused(f"The node refused the transaction ({message[:200]}); correct it and send it again.")
