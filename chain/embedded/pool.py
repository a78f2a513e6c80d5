"""An embedded chain that makes blocks when it is told to, of the transactions that wait: what ``rpc_server`` runs.

It says no in the words of the nodes that people know, by which ``rpc`` knows what is meant.
"""

from pathlib import Path

from eth.abc import SignedTransactionAPI
from eth.exceptions import TransactionNotFound
from eth_typing import Address, Hash32
from eth_utils import ValidationError, to_wei

from fedgrove.chain.embedded.evm import EmbeddedNetwork
from fedgrove.chain.errors import InsufficientFunds, NonceConflict, TransactionRefused, Underpriced
from fedgrove.chain.network.access import Mined
from fedgrove.chain.network.block_rlp import type_of
from fedgrove.chain.network.transactions import Content, Offer, signed

MOST_WAITING = 10_000
KINDS = (0, 2)
TRANSFER_GAS = 21_000


class PooledNetwork(EmbeddedNetwork):
    """Transactions wait until ``mine`` is called, by nonce and then as they came."""

    can_mine = False

    def __init__(self, state_file: Path | None = None) -> None:
        self._waiting: dict[tuple[bytes, int], SignedTransactionAPI] = {}
        super().__init__(state_file)

    @property
    def funder(self) -> str:
        """The account that has test ether from the beginning."""
        return self._funder.address

    def send(self, raw: bytes) -> bytes:
        with self._lock:
            sent = self._read(raw)
            self._check(sent)
            self._waiting[sent.sender, sent.nonce] = sent
            return sent.hash

    def mined(self, transaction: bytes) -> Mined | None:
        with self._lock:
            return super().mined(transaction) if self.place_of(transaction) else None

    def knows(self, transaction: bytes) -> bool:
        return self.waiting(transaction) is not None or self.place_of(transaction) is not None

    def waiting(self, transaction: bytes) -> SignedTransactionAPI | None:
        """A transaction that waits for a block, by its hash."""
        with self._lock:
            return next((each for each in self._waiting.values() if each.hash == transaction), None)

    def place_of(self, transaction: bytes) -> tuple[int, int] | None:
        """Block and index of a transaction; None while it is in no block."""
        with self._lock:
            try:
                return self._chain.get_canonical_transaction_index(Hash32(transaction))
            except TransactionNotFound:
                return None

    def fund(self, address: str, ether: float) -> None:
        self.transfer(address, int(to_wei(ether, "ether")))

    def transfer(self, address: str, wei: int) -> bytes:
        """Hand in a transfer from the funder; returns the transaction's hash."""
        with self._lock:
            nonce = self.nonce(self.funder)
            nonce += sum(each.sender == self._funder_bytes() for each in self._waiting.values())
            content = Content(address, b"", TRANSFER_GAS, wei)
            return self.send(signed(self._funder, self.chain_id, nonce, Offer(2 * self.base_fee() + 1, 1), content))

    def mine(self, blocks: int = 1) -> None:
        with self._lock:
            for _ in range(blocks):
                self._take_waiting()

    def _take_waiting(self) -> None:
        waiting = sorted(self._waiting.values(), key=lambda one: one.nonce)
        # Those left out wait on: a nonce is missing, their fee is low or the block is full.
        self._make_block(waiting, refused=ValidationError)
        for sender, nonce in [key for key in self._waiting if key[1] < self._count(key[0])]:
            del self._waiting[sender, nonce]

    def _read(self, raw: bytes) -> SignedTransactionAPI:
        if type_of(raw) not in KINDS:
            raise TransactionRefused("transaction type not supported: this chain takes types 0 and 2")
        try:
            sent = self.decoded(raw)
            sent.validate()
            return sent
        except Exception as fault:  # py-evm has no class for all that may be wrong with bytes
            raise TransactionRefused(f"invalid transaction: {fault}") from None

    def _check(self, sent: SignedTransactionAPI) -> None:
        """Refuse what no block can take, now or later."""
        if sent.nonce < self._count(sent.sender):
            raise NonceConflict("nonce too low")
        if self._accounts.get_balance(Address(sent.sender)) < sent.value + sent.gas * _most(sent):
            raise InsufficientFunds("insufficient funds for gas * price + value")
        if sent.gas > self._chain.header.gas_limit:
            raise TransactionRefused("exceeds block gas limit")
        before = self._waiting.get((sent.sender, sent.nonce))
        if before is not None and before.hash == sent.hash:
            raise TransactionRefused("already known")
        if before is not None and 10 * _most(sent) < 11 * _most(before):
            raise Underpriced("replacement transaction underpriced")
        if before is None and len(self._waiting) >= MOST_WAITING:
            raise TransactionRefused("too many transactions wait for a block")

    def _count(self, sender: bytes) -> int:
        return self._accounts.get_nonce(Address(sender))

    def _funder_bytes(self) -> bytes:
        return bytes.fromhex(self.funder[2:])


def _most(transaction: SignedTransactionAPI) -> int:
    """The most that a transaction offers for a unit of gas, in wei."""
    return transaction.max_fee_per_gas if type_of(transaction.encode()) else transaction.gas_price
