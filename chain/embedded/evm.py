"""The embedded chain: py-evm in this process, in memory, one transaction a block; kept in a file if one is given.

Everything but ``web3`` goes to py-evm directly: eth-tester searches for a transaction block by block, and loses the
data of a revert.
"""

import os
import threading
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from eth.abc import AccountDatabaseAPI, BlockAPI, ComputationAPI, ReceiptAPI, SignedTransactionAPI
from eth.chains.base import MiningChain
from eth.constants import ZERO_ADDRESS
from eth.db.atomic import AtomicDB
from eth.db.backends.memory import MemoryDB
from eth.exceptions import HeaderNotFound
from eth.vm.message import Message
from eth_tester import EthereumTester, PyEVMBackend
from eth_typing import Address, BlockNumber, Hash32
from eth_utils import ValidationError, to_canonical_address, to_checksum_address, to_wei
from web3 import EthereumTesterProvider, Web3

from fedgrove.chain.crypto.account import Account
from fedgrove.chain.embedded.block_json import gas_price
from fedgrove.chain.embedded.blocks_file import StateFile
from fedgrove.chain.errors import ChainError, InsufficientFunds, NonceConflict, TransactionRefused, decode_revert
from fedgrove.chain.network.access import Mined, Network, Paid, Payer
from fedgrove.chain.network.blocks import Body
from fedgrove.chain.network.practice_nodes import CONSTANT_BASE_FEE
from fedgrove.chain.network.transactions import sender_of
from fedgrove.chain.records import Log, Position
from fedgrove.chain.records.deployment import created_address
from fedgrove.chain.records.rlp_bytes import rlp_bytes

CALL_GAS = 16_000_000
# How many blocks, and receipts of blocks, are kept decoded: everybody asks for the latest ones.
_KEPT = 64


class EmbeddedNetwork(Network):
    """A chain of our own under Prague rules; safe to share among threads.

    Parameters
    ----------
    state_file : Path, optional
        Where the chain is kept with every block, and goes on from; without one it ends with the object.
    """

    can_mine = True

    def __init__(self, state_file: Path | None = None) -> None:
        super().__init__()
        genesis = PyEVMBackend.generate_genesis_params() | {"base_fee_per_gas": CONSTANT_BASE_FEE}
        self._backend = PyEVMBackend(genesis_parameters=genesis)
        self._state = self._kept_in(state_file) if state_file is not None else None
        self.web3 = Web3(EthereumTesterProvider(EthereumTester(self._backend)))
        self.chain_id = self._chain.chain_id
        # The library sets the keys after its constructor's None, untyped.
        first = self._backend.account_keys[0]  # pyright: ignore[reportOptionalSubscript]
        self._funder = Account(first.to_bytes())  # pyright: ignore[reportAttributeAccessIssue]
        self._lock = threading.RLock()
        # By their hashes, as the web3 above may take blocks back.
        self._block_of = lru_cache(_KEPT)(lambda block_hash: self._chain.get_block_by_hash(block_hash))
        self._receipts_of = lru_cache(_KEPT)(
            lambda block_hash: self._block_of(block_hash).get_receipts(self._chain.chaindb)
        )

    def block_number(self) -> int:
        with self._lock:
            return self._chain.header.block_number - 1  # the header is of the block under construction

    def block_hash(self, number: int) -> bytes:
        with self._lock:
            return self.block(number).hash

    def block_time(self, number: int) -> int:
        with self._lock:
            return self.block(number).header.timestamp

    def call(self, to: str, data: bytes, payer: Payer | None = None, block: int | None = None) -> bytes:
        computation = self.computation(to, data, payer, block)
        if computation.is_error:
            raise decode_revert(computation.output)
        return computation.output

    def computation(self, to: str, data: bytes, payer: Payer | None = None, block: int | None = None) -> ComputationAPI:
        """A call as the machine has computed it, with the data of a revert where it is an error."""
        with self._lock:
            header = self.block(self.block_number() if block is None else block).header
            state = self._chain.get_vm(at_header=header).state
            origin = to_canonical_address(payer.account) if payer else Address(bytes(20))
            gas, price = (min(payer.gas, CALL_GAS), payer.price) if payer else (CALL_GAS, 0)
            target = to_canonical_address(to)
            message = Message(gas, target, origin, 0, data, state.get_code(target))
            context = state.get_transaction_context_class()(gas_price=price, origin=origin)
            # The state is this call's own and is never persisted.
            return state.computation_class.apply_message(state, message, context)

    def code(self, address: str) -> bytes:
        with self._lock:
            return self._accounts.get_code(to_canonical_address(address))

    def balance(self, address: str) -> int:
        with self._lock:
            return self._accounts.get_balance(to_canonical_address(address))

    def nonce(self, address: str) -> int:
        with self._lock:
            return self._accounts.get_nonce(to_canonical_address(address))

    def base_fee(self) -> int:
        with self._lock:
            fee = self._chain.header.base_fee_per_gas
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
                sent = self.decoded(raw)
                self._make_block([sent])
            except ValidationError as fault:
                raise _refusal(str(fault)) from None
            return sent.hash

    def mined(self, transaction: bytes) -> Mined | None:
        block, fields, receipt, gas = self._found(transaction)
        contract = None
        if not fields.to:
            contract = created_address(to_checksum_address(fields.sender), fields.nonce)
        return Mined(transaction, block.number, gas, receipt.state_root == b"\x01", contract)

    def paid(self, transactions: Sequence[bytes]) -> list[Paid | None]:
        return list(map(self._paid, transactions))

    def _paid(self, transaction: bytes) -> Paid:
        block, fields, _, gas = self._found(transaction)
        return Paid(to_checksum_address(fields.sender), gas, gas * gas_price(fields, block))

    def _found(self, transaction: bytes) -> tuple[BlockAPI, SignedTransactionAPI, ReceiptAPI, int]:
        """A transaction's block, itself, its receipt, and the gas that it used."""
        with self._lock:
            number, index = self._chain.get_canonical_transaction_index(Hash32(transaction))
            block = self.block(number)
            receipts = self.receipts(block)
        before = receipts[index - 1].gas_used if index else 0
        return block, block.transactions[index], receipts[index], receipts[index].gas_used - before

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
        """Close the file; a chain without one is freed with the object."""
        if self._state is not None:
            self._state.close()

    def _kept_in(self, path: Path) -> StateFile:
        """Have the chain go on from a file, or a new file begin with its genesis, and write to it from now on."""
        fresh = self._chain
        base = fresh.chaindb.db
        assert isinstance(base, AtomicDB) and isinstance(base.wrapped_db, MemoryDB)  # what eth-tester makes
        state = StateFile(path, dict(base.wrapped_db.kv_store))
        self._backend.chain = type(fresh)(AtomicDB(state))
        return state

    @property
    def _chain(self) -> MiningChain:
        chain = self._backend.chain
        if not isinstance(chain, MiningChain):
            raise ChainError("The embedded chain does not exist yet.")
        return chain

    @property
    def _accounts(self) -> AccountDatabaseAPI:
        """The accounts as the latest block leaves them; a whole state would look for the system's contracts first."""
        kind = self._chain.get_vm_class(self._chain.header).get_state_class().get_account_db_class()
        return kind(self._chain.chaindb.db, self._chain.header.state_root)

    def _make_block(
        self, transactions: Iterable[SignedTransactionAPI] = (), refused: type[Exception] | tuple[()] = ()
    ) -> None:
        """Make the next block of transactions.

        One that raises ``refused`` is left out. py-evm's own way computes the roots of the state and of all tries for
        each transaction and again for the block, which it then checks as if a stranger had made it.

        Raises
        ------
        ValidationError
            A transaction that the chain does not take; there is no block then.
        """
        chain = self._chain
        # Blocks bear the time at which they are made; a second has many, and later times would lie in the future.
        made = max(int(time.time()), self.block(self.block_number()).header.timestamp)
        header = chain.header.copy(coinbase=ZERO_ADDRESS, mix_hash=os.urandom(32), timestamp=made)
        machine = chain.get_vm(header)
        taken: list[SignedTransactionAPI] = []
        receipts: list[ReceiptAPI] = []
        for each in transactions:
            try:
                header, made, _ = machine.apply_all_transactions([each], header)
            except refused:
                continue
            taken.append(each)
            receipts += made
        machine.state.persist()
        header = header.copy(state_root=machine.state.state_root)
        block = machine.set_block_transactions_and_withdrawals(machine.get_block(), header, taken, receipts)
        chain.chaindb.persist_block(block)
        chain.header = chain.create_header_from_parent(block.header)
        if self._state is not None:
            self._state.commit()

    def decoded(self, raw: bytes) -> SignedTransactionAPI:
        """A signed transaction, read from its EIP-2718 encoding."""
        return self._chain.get_vm().get_transaction_builder().decode(raw)

    def block(self, number: int) -> BlockAPI:
        """A block. Raises ChainError where the chain has none of this number."""
        try:
            if number > self.block_number():
                raise HeaderNotFound
            return self._block_of(self._chain.chaindb.get_canonical_block_hash(BlockNumber(number)))
        except HeaderNotFound:
            raise ChainError(f"The embedded chain has no block {number}; it is at {self.block_number()}.") from None

    def receipts(self, block: BlockAPI) -> tuple[ReceiptAPI, ...]:
        """The receipts of a block's transactions."""
        return self._receipts_of(block.hash)

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


def _refusal(message: str) -> ChainError:
    lower = message.lower()
    if "afford" in lower or "balance" in lower:
        return InsufficientFunds("The account cannot pay for the transaction; fund it with more test ether.")
    if "nonce" in lower:
        return NonceConflict("Another transaction took this nonce; send it again.")
    return TransactionRefused(f"The chain refused the transaction ({message[:200]}); correct it and send it again.")
