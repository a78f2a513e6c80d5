"""The embedded chain: py-evm in this process, in memory, one transaction a block.

It is gone when the process ends, unless it keeps a journal, of which a later process makes the same blocks again.
Everything but ``web3`` goes to py-evm directly: eth-tester searches for a transaction block by block, and loses the
data of a revert.
"""

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from eth.abc import BlockAPI, ComputationAPI, ReceiptAPI, SignedTransactionAPI
from eth.chains.base import MiningChain
from eth.constants import ZERO_ADDRESS
from eth.exceptions import HeaderNotFound
from eth.vm.forks.cancun.state import get_total_blob_gas
from eth.vm.message import Message
from eth_account import Account
from eth_tester import EthereumTester, PyEVMBackend
from eth_typing import Address, BlockNumber, Hash32
from eth_utils import ValidationError, to_canonical_address, to_checksum_address, to_wei
from fedgrove.chain.access import Mined, Network
from fedgrove.chain.block_journal import BlockJournal, BlockRecipe
from fedgrove.chain.blocks import Body
from fedgrove.chain.errors import ChainError, InsufficientFunds, NonceConflict, TransactionRefused, decode_revert
from fedgrove.chain.records import Log, Position
from fedgrove.chain.rlp_bytes import rlp_bytes
from fedgrove.chain.transactions import sender_of
from web3 import EthereumTesterProvider, Web3

CALL_GAS = 16_000_000


class EmbeddedNetwork(Network):
    """A chain of our own under Prague rules; safe to share among threads.

    Parameters
    ----------
    journal : Path, optional
        File that keeps the blocks; those that are in it are made again first.
    """

    can_mine = True

    def __init__(self, journal: Path | None = None) -> None:
        super().__init__()
        now = int(time.time())
        self._journal = BlockJournal(journal, now) if journal is not None else None
        genesis = {"timestamp": self._journal.genesis if self._journal else now}
        self._backend = PyEVMBackend(PyEVMBackend.generate_genesis_params(genesis))
        self.web3 = Web3(EthereumTesterProvider(EthereumTester(self._backend)))
        self.chain_id = self._chain.chain_id
        # The library sets the keys after its constructor's None, untyped.
        first = self._backend.account_keys[0]  # pyright: ignore[reportOptionalSubscript]
        self._funder = Account.from_key(first.to_bytes())  # pyright: ignore[reportAttributeAccessIssue]
        self._lock = threading.RLock()
        for recipe in self._journal.recipes() if self._journal else ():
            self._repeat(recipe)

    def block_number(self) -> int:
        with self._lock:
            # py-evm's head is the block under construction.
            return self._chain.get_block().number - 1

    def block_hash(self, number: int) -> bytes:
        with self._lock:
            return self.block(number).hash

    def block_time(self, number: int) -> int:
        with self._lock:
            return self.block(number).header.timestamp

    def call(self, to: str, data: bytes, sender: str | None = None, block: int | None = None) -> bytes:
        computation = self.computation(to, data, sender, block)
        if computation.is_error:
            raise decode_revert(computation.output)
        return computation.output

    def computation(self, to: str, data: bytes, sender: str | None = None, block: int | None = None) -> ComputationAPI:
        """A call as the machine has computed it, with the data of a revert where it is an error."""
        with self._lock:
            header = self.block(self.block_number() if block is None else block).header
            state = self._chain.get_vm(at_header=header).state
            origin = to_canonical_address(sender) if sender else Address(bytes(20))
            target = to_canonical_address(to)
            message = Message(CALL_GAS, target, origin, 0, data, state.get_code(target))
            context = state.get_transaction_context_class()(gas_price=0, origin=origin)
            # The state is this call's own and is never persisted.
            return state.computation_class.apply_message(state, message, context)

    def code(self, address: str) -> bytes:
        with self._lock:
            return self._backend.get_code(to_canonical_address(address))

    def balance(self, address: str) -> int:
        with self._lock:
            return self._backend.get_balance(to_canonical_address(address))

    def nonce(self, address: str) -> int:
        with self._lock:
            return self._backend.get_nonce(to_canonical_address(address))

    def base_fee(self) -> int:
        with self._lock:
            fee = self._chain.get_block().header.base_fee_per_gas
        if fee is None:
            raise ChainError("The embedded chain has no base fee.")
        return fee

    def logs(self, first: int, last: int, addresses: Sequence[str]) -> list[Log]:
        wanted = {to_canonical_address(address) for address in addresses}
        with self._lock:
            blocks = [self.block(number) for number in range(first, last + 1)]
            return [log for block in blocks if block.header.bloom for log in self._logs_of(block, wanted)]

    def headers(self, first: int, last: int) -> list[bytes]:
        with self._lock:
            return [rlp_bytes(self.block(number).header) for number in range(first, last + 1)]

    def bodies(self, numbers: Sequence[int]) -> list[Body]:
        with self._lock:
            blocks = [self.block(number) for number in numbers]
            return [
                Body(
                    tuple(transaction.encode() for transaction in block.transactions),
                    tuple(receipt.encode() for receipt in self.receipts(block)),
                )
                for block in blocks
            ]

    def signed_transaction(self, transaction: bytes) -> bytes:
        with self._lock:
            number, index = self._chain.get_canonical_transaction_index(Hash32(transaction))
            return self.block(number).transactions[index].encode()

    def send(self, raw: bytes) -> bytes:
        with self._lock:
            try:
                sent = self._backend.send_raw_transaction(raw)
            except ValidationError as fault:
                raise _refusal(str(fault)) from None
            self._make_block()
            return sent

    def mined(self, transaction: bytes) -> Mined | None:
        with self._lock:
            number, index = self._chain.get_canonical_transaction_index(Hash32(transaction))
            block = self.block(number)
            receipts, fields = self.receipts(block), block.transactions[index]
        before = receipts[index - 1].gas_used if index else 0
        receipt = receipts[index]
        contract = None
        if not fields.to:
            contract = to_checksum_address(_created(fields.sender, fields.nonce))
        succeeded = receipt.state_root == b"\x01"
        return Mined(transaction, number, receipt.gas_used - before, succeeded, contract)

    def knows(self, transaction: bytes) -> bool:
        # A transaction is in a block as soon as it is sent, and no block is ever abandoned.
        return True

    def fund(self, address: str, ether: float) -> None:
        sender_of(self, self._funder).transact(address, b"", 21_000, value=int(to_wei(ether, "ether")))

    def mine(self, blocks: int = 1) -> None:
        with self._lock:
            for _ in range(blocks):
                self._make_block()

    def close(self) -> None:
        """Free the journal; the chain is freed with the object."""
        if self._journal is not None:
            self._journal.close()

    @property
    def _chain(self) -> MiningChain:
        chain = self._backend.chain
        if not isinstance(chain, MiningChain):
            raise ChainError("The embedded chain does not exist yet.")
        return chain

    def _make_block(self) -> None:
        """Put what was applied since the latest block into a block."""
        mix = os.urandom(32)
        self._seal(mix)
        if self._journal is not None:
            made = self.block(self.block_number())
            transactions = tuple(each.encode() for each in made.transactions)
            self._journal.append(BlockRecipe(made.header.timestamp, mix, transactions))

    def _repeat(self, recipe: BlockRecipe) -> None:
        self._chain.set_header_timestamp(recipe.time)
        for raw in recipe.transactions:
            self._chain.apply_transaction(self.decoded(raw))
        self._seal(recipe.mix)

    def _seal(self, mix: bytes) -> None:
        blob_gas = sum(map(get_total_blob_gas, self._chain.get_block().transactions))
        self._chain.mine_block(coinbase=ZERO_ADDRESS, mix_hash=mix, blob_gas_used=blob_gas)

    def decoded(self, raw: bytes) -> SignedTransactionAPI:
        """A signed transaction, read from its EIP-2718 encoding."""
        return self._chain.get_vm().get_transaction_builder().decode(raw)

    def block(self, number: int) -> BlockAPI:
        """A block. Raises ChainError where the chain has none of this number."""
        try:
            if number > self.block_number():
                raise HeaderNotFound
            return self._chain.get_canonical_block_by_number(BlockNumber(number))
        except HeaderNotFound:
            raise ChainError(f"The embedded chain has no block {number}; it is at {self.block_number()}.") from None

    def receipts(self, block: BlockAPI) -> tuple[ReceiptAPI, ...]:
        """The receipts of a block's transactions."""
        return block.get_receipts(self._chain.chaindb)

    def _logs_of(self, block: BlockAPI, wanted: set[Address]) -> list[Log]:
        found, index = [], 0
        for transaction, receipt in zip(block.transactions, self.receipts(block), strict=True):
            for log in receipt.logs:
                if log.address in wanted:
                    topics = tuple(topic.to_bytes(32, "big") for topic in log.topics)
                    at = Position(block.number, transaction.hash, index)
                    found.append(Log(to_checksum_address(log.address), topics, log.data, at))
                index += 1
        return found


def _created(sender: bytes, nonce: int) -> bytes:
    return Web3.keccak(rlp_bytes([sender, nonce]))[12:]


def _refusal(message: str) -> ChainError:
    lower = message.lower()
    if "afford" in lower or "balance" in lower:
        return InsufficientFunds("The account cannot pay for the transaction; fund it with more test ether.")
    if "nonce" in lower:
        return NonceConflict("Another transaction took this nonce; send it again.")
    return TransactionRefused(f"The chain refused the transaction ({message[:200]}); correct it and send it again.")
