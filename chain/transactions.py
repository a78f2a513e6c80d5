"""Sending transactions: one sender for each account, nonces counted here, gas and fees always stated."""

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eth_account.signers.local import LocalAccount

from chain.errors import ChainError, ContractRevert, NonceConflict, TransactionTimeout

if TYPE_CHECKING:
    from chain.access import Network

GWEI = 10**9
TIP = GWEI
MAX_FEE = 500 * GWEI
FEE_SECONDS = 10.0
RECEIPT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Receipt:
    """A transaction that took effect: its block, the gas it used, its hash (32 bytes)."""

    block: int
    gas_used: int
    transaction: bytes


@dataclass(frozen=True, slots=True)
class Mined:
    """A transaction in a block, whether or not it took effect; ``contract`` is the address that it created."""

    transaction: bytes
    block: int
    gas_used: int
    succeeded: bool
    contract: str | None


class Sender:
    """Signs and sends for one account; safe to share among threads."""

    def __init__(self, network: "Network", account: LocalAccount) -> None:
        self._network = network
        self._account = account
        self._lock = threading.Lock()
        self._nonce: int | None = None
        self._fee: tuple[float, int] | None = None

    @property
    def address(self) -> str:
        """The account's checksummed address."""
        return self._account.address

    def next_nonce(self) -> int:
        """The nonce of the next transaction."""
        with self._lock:
            if self._nonce is None:
                self._nonce = self._network.nonce(self.address)
            return self._nonce

    def transact(
        self, to: str | None, data: bytes, gas: int, timeout: float = RECEIPT_SECONDS, value: int = 0
    ) -> Mined:
        """Send a transaction and wait until it is in a block; ``to`` is None for the creation of a contract.

        ``gas`` is its limit, ``value`` in wei, ``timeout`` in seconds.

        Raises
        ------
        ContractRevert
            The contract refused it; the error says why.
        TransactionTimeout
            It is in no block after ``timeout`` seconds; it may still get there.
        """
        sent = self._send(to, data, gas, value)
        mined = self._wait(sent, timeout)
        if not mined.succeeded:
            raise self._reason(to, data, mined, gas)
        return mined

    def _send(self, to: str | None, data: bytes, gas: int, value: int) -> bytes:
        with self._lock:
            try:
                return self._send_once(to, data, gas, value)
            except NonceConflict:
                # Another process sent from this account: count anew, once.
                return self._send_once(to, data, gas, value)

    def _send_once(self, to: str | None, data: bytes, gas: int, value: int) -> bytes:
        nonce = self._network.nonce(self.address) if self._nonce is None else self._nonce
        # If anything below fails, what the chain knows of the nonce is uncertain, so it is read again.
        self._nonce = None
        fields = {
            "type": 2,
            "chainId": self._network.chain_id,
            "nonce": nonce,
            "gas": gas,
            "maxFeePerGas": self._max_fee(),
            "maxPriorityFeePerGas": min(TIP, self._max_fee()),
            "value": value,
            "data": data,
        }
        if to is not None:
            fields["to"] = to
        sent = self._network.send(bytes(self._account.sign_transaction(fields).raw_transaction))
        self._nonce = nonce + 1
        return sent

    def _max_fee(self) -> int:
        """Twice the base fee and a tip, at most MAX_FEE: good for five full blocks in a row. Read every few seconds."""
        now = time.monotonic()
        if self._fee is None or now - self._fee[0] > FEE_SECONDS:
            self._fee = (now, min(MAX_FEE, 2 * self._network.base_fee() + TIP))
        return self._fee[1]

    def _wait(self, sent: bytes, timeout: float) -> Mined:
        deadline = time.monotonic() + timeout
        while (mined := self._network.mined(sent)) is None:
            if time.monotonic() > deadline:
                raise TransactionTimeout(
                    f"Transaction 0x{sent.hex()} is in no block after {timeout:.0f} s; look it up before you retry."
                )
            time.sleep(self._network.poll_seconds)
        return mined

    def _reason(self, to: str | None, data: bytes, mined: Mined, gas: int) -> ContractRevert:
        """Ask the chain again, upon the block in which the transaction failed: its number decides the phase."""
        if mined.gas_used >= gas or to is None:
            return ContractRevert("")
        for block in (mined.block, None):  # a pruned node has the latest state only
            try:
                self._network.call(to, data, self.address, block)
            except ContractRevert as refusal:
                return refusal
            except ChainError:
                continue
            break
        return ContractRevert("")
