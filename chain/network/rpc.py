"""Any EVM chain behind a JSON-RPC endpoint. The node's answers are hostile until they are parsed."""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from eth_utils import keccak, to_checksum_address, to_wei

from fedgrove.chain.errors import (
    ChainError,
    ConnectionFailed,
    InsufficientFunds,
    NonceConflict,
    TransactionRefused,
    Underpriced,
    decode_revert,
)
from fedgrove.chain.network.access import GWEI, MAX_FEE_GWEI, MAX_TIP_GWEI, RESEND_SECONDS, Mined, Network, Paid, Payer
from fedgrove.chain.network.block_rlp import header_rlp
from fedgrove.chain.network.blocks import Body
from fedgrove.chain.network.endpoint import RpcError, origin_of
from fedgrove.chain.network.endpoints import MAX_LAG_BLOCKS, Endpoints
from fedgrove.chain.network.fees import FeeHistory
from fedgrove.chain.network.hexadecimal import to_bytes, to_int
from fedgrove.chain.network.practice_nodes import practice_node
from fedgrove.chain.network.rpc_reading import (
    block_at,
    bodies_of,
    facts_of,
    fees_of,
    head_of,
    latest,
    logs_of,
    nonce_of,
    paid_by,
    parts_of,
    place_of,
    signed_transaction,
)
from fedgrove.chain.records import Log
from fedgrove.common.errors import InvalidContent

if TYPE_CHECKING:
    from web3 import Web3

PROOFS = ("headers", "endpoints")
FUND_SECONDS = 60
MINED_AT_ONCE = 50
OVERTAKEN, OVERTAKEN_TRIES = "BlockOutOfRange", 20  # anvil's word for a block whose state it has dropped


T = TypeVar("T")


class RpcNetwork(Network):
    """A chain at one or more http or https URLs, the first that works is asked; see ``endpoints``.

    Parameters
    ----------
    timeout : float
        Seconds for one request.
    max_fee_gwei, max_tip_gwei : float
        The most that a transaction offers for a unit of gas, and of that to the maker of the block.
    resend_seconds : float
        After so long in no block a transaction is sent again with higher fees.
    quorum : int
        How many endpoints must agree on a block before its records are acted on; 0: two where several are given. Two
        at one origin count as one.
    proofs : str
        ``headers``: blocks are proven by their headers. ``endpoints``: for chains whose headers cannot be recomputed,
        records are what ``quorum`` endpoints say.

    Raises
    ------
    ConnectionFailed
        Nothing answers within ``timeout`` seconds, or no EVM node does.
    WrongChain
        Another chain than ``expected_chain_id``.
    """

    poll_seconds = 0.05

    def __init__(
        self,
        urls: str | Sequence[str],
        expected_chain_id: int | None = None,
        timeout: float = 10.0,
        max_fee_gwei: float = MAX_FEE_GWEI,
        resend_seconds: float = RESEND_SECONDS,
        quorum: int = 0,
        proofs: str = "headers",
        max_tip_gwei: float = MAX_TIP_GWEI,
    ) -> None:
        super().__init__()
        urls = [urls] if isinstance(urls, str) else list(urls)
        if proofs not in PROOFS:
            raise ValueError(f"proofs must be one of {', '.join(PROOFS)}")
        self.proofs = proofs
        self.max_fee, self.max_tip = int(max_fee_gwei * GWEI), int(max_tip_gwei * GWEI)
        self.resend_seconds = resend_seconds
        origins = len({origin_of(url) for url in urls})
        self.quorum = quorum or min(2, origins)
        if self.quorum > origins:
            raise ConnectionFailed(f"{self.quorum} endpoints must agree, but only {origins} are given; name more.")
        self._endpoints = Endpoints(urls, expected_chain_id, timeout)
        self.chain_id = self._endpoints.chain_id
        self.head_tolerance = MAX_LAG_BLOCKS if self._endpoints.several else 0
        self.practice_node = practice_node(self.request("web3_clientVersion"))
        automine = self.practice_node.automine if self.practice_node else ""
        self.can_mine = bool(automine) and self.request(automine) is True

    @cached_property
    def web3(self) -> "Web3":
        """For whatever this interface lacks. Raises ChainError where the package web3 is not installed."""
        try:
            from fedgrove.chain.network.web3_provider import web3_of
        except ModuleNotFoundError:
            raise ChainError('Network.web3 needs the package web3: pip install "fedgrove[web3]"') from None
        return web3_of(self.request)

    def request(self, method: str, *parameters: Any) -> Any:
        """The result of one request. Raises ConnectionFailed or RpcError."""
        return self._endpoints.ask(lambda node: node.request(method, *parameters))

    def requests(self, calls: Iterable[tuple[str, tuple]]) -> list[Any]:
        """The results of many requests, a hundred at a time, all by the same endpoint."""
        calls = list(calls)
        return self._endpoints.ask(lambda node: node.requests(calls))

    # --- reading ----------------------------------------------------------------------------------------------------

    def block_number(self) -> int:
        return self._endpoints.ask(head_of)

    def known_head(self) -> int:
        return self._endpoints.head

    def block_hash(self, number: int) -> bytes:
        return self._endpoints.ask(lambda node: to_bytes(block_at(node, number)["hash"], 32))

    def agreed_head(self) -> tuple[int, bytes]:
        """The highest block that ``quorum`` endpoints have, with the hash that as many of them state for it.

        Where they do not agree on it, as when one of them lies and another is behind, the next lower head is tried.

        Raises ConnectionFailed: fewer endpoints answer, or they agree on no block that is anybody's head.
        """
        if self.quorum == 1:
            return self._endpoints.ask(latest)
        heads = sorted(self._endpoints.ask_all(head_of, self.quorum).values(), reverse=True)
        numbers = list(dict.fromkeys(heads[self.quorum - 1 :]))
        for number in numbers[:-1]:
            try:
                return number, self.agreed_block(number)[0]
            except ConnectionFailed:
                continue
        number = numbers[-1] if numbers else heads[-1]
        return number, self.agreed_block(number)[0]

    def agreed_block(self, number: int) -> tuple[bytes, bytes]:
        return self._endpoints.agree(lambda node: facts_of(block_at(node, number)), self.quorum, f"block {number}")

    def agreed_logs(self, first: int, last: int, addresses: Sequence[str]) -> list[Log]:
        return list(
            self._endpoints.agree(
                lambda node: tuple(sorted(logs_of(node, first, last, addresses), key=place_of)),
                self.quorum,
                f"the records of blocks {first} to {last}",
            )
        )

    def signed_transaction(self, transaction: bytes) -> bytes:
        return self._endpoints.ask(lambda node: signed_transaction(node, transaction))

    def block_time(self, number: int) -> int:
        return self._endpoints.ask(lambda node: to_int(block_at(node, number)["timestamp"]))

    def call(self, to: str, data: bytes, payer: Payer | None = None, block: int | None = None) -> bytes:
        fields = {"to": to, "data": "0x" + data.hex()}
        if payer:
            fields |= {"from": payer.account, "gas": hex(payer.gas), "gasPrice": hex(payer.price)}
        tries = OVERTAKEN_TRIES if block is None else 1
        while True:
            tries -= 1
            try:
                return self._read(to_bytes, "eth_call", fields, "latest" if block is None else hex(block))
            except RpcError as fault:
                # A node without history that makes a block during the call has lost the block it had begun with.
                if tries and OVERTAKEN in fault.message:
                    continue
                revert = _revert_data(fault)
                if revert is None:
                    raise
                raise decode_revert(revert) from None

    def code(self, address: str) -> bytes:
        return self._read(to_bytes, "eth_getCode", address, "latest")

    def balance(self, address: str) -> int:
        return self._read(to_int, "eth_getBalance", address, "latest")

    def nonce(self, address: str) -> int:
        return self._endpoints.ask(lambda node: nonce_of(node, address))

    def base_fee(self) -> int:
        method, block = "eth_getBlockByNumber", "latest"
        return self._read(lambda found: to_int(found.get("baseFeePerGas", "0x0")), method, block, False)

    def fees(self) -> FeeHistory:
        try:
            return self._endpoints.ask(fees_of)
        except RpcError:  # a chain without eth_feeHistory
            return super().fees()

    def logs(self, first: int, last: int, addresses: Sequence[str]) -> list[Log]:
        found = self._endpoints.ask(lambda node: logs_of(node, first, last, addresses))
        return sorted(found, key=place_of)

    def headers(self, first: int, last: int) -> list[bytes]:
        calls = [("eth_getBlockByNumber", (hex(number), False)) for number in range(first, last + 1)]
        return self._endpoints.ask(lambda node: [header_rlp(block) for block in parts_of(node, calls)])

    def bodies(self, numbers: Sequence[int]) -> list[Body]:
        return self._endpoints.ask(lambda node: bodies_of(node, numbers))

    # --- writing ----------------------------------------------------------------------------------------------------

    def send(self, raw: bytes) -> bytes:
        transaction = keccak(raw)
        try:
            self.request("eth_sendRawTransaction", "0x" + raw.hex())
        except RpcError as fault:
            refusal = _refusal(fault.message)
            # After a failover the node may have it from the one that was asked before, in its pool or in a block. And
            # hardhat says as an error that a transaction, which is in a block, did not take effect.
            if refusal is not None and self.mined(transaction) is None:
                raise refusal from None
        return transaction

    def mined(self, transaction: bytes) -> Mined | None:
        method, name = "eth_getTransactionReceipt", "0x" + transaction.hex()
        return self._read(lambda receipt: None if receipt is None else _mined(transaction, receipt), method, name)

    def paid(self, transactions: Sequence[bytes]) -> list[Paid | None]:
        return self._endpoints.ask(lambda node: paid_by(node, transactions))

    def knows(self, transaction: bytes) -> bool:
        return self.request("eth_getTransactionByHash", "0x" + transaction.hex()) is not None

    def fund(self, address: str, ether: float) -> None:
        amount = int(to_wei(ether, "ether"))
        if self.practice_node and self.practice_node.set_balance:
            self.request(self.practice_node.set_balance, address, hex(self.balance(address) + amount))
            return
        accounts = self.request("eth_accounts") or []
        if not accounts:
            raise InsufficientFunds(f"Account {address} has no funds here; send it {ether} ether from another account.")
        transfer = {"from": accounts[0], "to": address, "value": hex(amount)}
        transaction = self._read(lambda sent: to_bytes(sent, 32), "eth_sendTransaction", transfer)
        deadline = time.monotonic() + FUND_SECONDS
        while self.mined(transaction) is None:
            if time.monotonic() > deadline:
                raise ChainError(
                    f"The transfer to {address} is in no block after {FUND_SECONDS} s: if the chain makes none, "
                    f"{self.without_blocks}."
                )
            time.sleep(self.poll_seconds)

    def mine(self, blocks: int = 1) -> None:
        # In portions that a busy machine makes within the time allowed for an answer.
        if self.practice_node is None:
            raise ChainError("This chain makes its blocks by itself; only practice nodes can be asked for some.")
        for first in range(0, blocks, MINED_AT_ONCE):
            self.requests(self.practice_node.mining(min(MINED_AT_ONCE, blocks - first)))

    @property
    def mines_when_asked(self) -> bool:
        return self.practice_node is not None

    @property
    def without_blocks(self) -> str:
        kind = self.practice_node
        return super().without_blocks if kind is None else kind.without_blocks(self.can_mine)

    def distrust(self, reason: str) -> None:
        self._endpoints.distrust(reason)

    def close(self) -> None:
        self._endpoints.close()

    # --- talking to the node ----------------------------------------------------------------------------------------

    def _read(self, parse: Callable[[Any], T], method: str, *parameters: Any) -> T:
        return self._endpoints.ask(lambda node: parse(node.request(method, *parameters)))


def _revert_data(fault: RpcError) -> bytes | None:
    """The data of a revert, None when the call failed for another reason."""
    data = fault.data.get("data") if isinstance(fault.data, dict) else fault.data
    if isinstance(data, str) and data.startswith("0x"):
        try:
            return to_bytes(data)
        except (ValueError, InvalidContent):
            return b""
    return b"" if "revert" in fault.message.lower() else None


def _mined(transaction: bytes, receipt: dict) -> Mined:
    contract = receipt.get("contractAddress")
    return Mined(
        transaction,
        to_int(receipt["blockNumber"]),
        to_int(receipt["gasUsed"]),
        to_int(receipt["status"]) == 1,
        to_checksum_address(to_bytes(contract, 20)) if contract else None,
    )


_TAKEN = (
    "already known",
    "alreadyknown",
    "already imported",
    "already exists",
    "already in mempool",
    "known transaction",
)
_WITHOUT_FUNDS = ("insufficient funds", "insufficient balance", "enough funds")
_UNDERPRICED = (
    "underpriced",
    "insufficient fee",
    "less than block base fee",
    "fee too low",
    "feetoolow",
    "gas price too low",
    "too low for the next block",
)


def _refusal(message: str) -> ChainError | None:
    """Meaning of a refusal, by the known nodes' words; None if the node already has the transaction."""
    lower = message.lower()
    if any(words in lower for words in _TAKEN):
        return None
    if any(words in lower for words in _WITHOUT_FUNDS):
        return InsufficientFunds("The account cannot pay for the transaction; send it more of the chain's currency.")
    if any(words in lower for words in _UNDERPRICED):
        return Underpriced("The node wants higher fees for the transaction; offer more.")
    if "nonce" in lower:
        return NonceConflict("Another transaction took this nonce; send it again.")
    return TransactionRefused(f"The node refused the transaction ({message}); correct it and send it again.")
