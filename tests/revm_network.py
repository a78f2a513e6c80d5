"""The embedded chain for tests, under pyrevm: a transaction takes a twentieth of the time that py-evm needs.

Headers, transactions, receipts, logs and gas are those of the embedded chain, and a test makes the same blocks on both
(``tests/chain/embedded/test_revm_network.py``). What the product needs and this one lacks: a root of the state, so
nothing can be proven about a state; a file; and the price of gas as contracts read it, which is zero as is the base
fee, so they never refuse a call that pays too little. A transaction that fails after it has read a block's hash is
charged ``_READING`` too much.

pyrevm 0.3.7 keeps the accounts and slots that a transaction has loaded, so the next one would find them warm and pay
too little. Each transaction therefore runs above a snapshot: its changes are read from the journal, the snapshot is
reverted, which forgets what was loaded, and the changes are written below it.

pyrevm also invents what BLOCKHASH returns. Contracts have EXTCODEHASH in its place, which takes one word and returns
one as well, and each block has an account: its number is the address, its hash is the hash of the code.
"""

import hashlib
import os
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import rlp
from eth_utils import keccak, to_canonical_address, to_checksum_address, to_wei
from pyrevm import EVM, AccountInfo, BlockEnv, CfgEnv, Env

from fedgrove.chain.crypto.account import Account
from fedgrove.chain.errors import ChainError, InsufficientFunds, NonceConflict, TransactionRefused, decode_revert
from fedgrove.chain.network.access import Mined, Network, Paid, Payer
from fedgrove.chain.network.block_rlp import bloom_of, type_of
from fedgrove.chain.network.blocks import Body
from fedgrove.chain.network.practice_nodes import CONSTANT_BASE_FEE
from fedgrove.chain.network.transactions import sender_of
from fedgrove.chain.records import Log, Position
from fedgrove.chain.records.signed_transactions import SignedTransaction, decode_transaction

CHAIN_ID = 131277322940537  # that of the embedded chain
CALL_GAS = 16_000_000
GAS_LIMIT = 30_029_122  # of a block
FUNDS = 1_000_000  # ether of the account that gives it away
NOBODY = "0x" + 40 * "0"

_BLOCKHASH, _EXTCODEHASH, _PUSH1, _PUSH32 = 0x40, 0x3F, 0x60, 0x7F
_READING = 2_600 - 20
"""Gas of EXTCODEHASH of an account that was not loaded yet, less that of BLOCKHASH."""
_PRECOMPILED = 10
"""The accounts with these numbers are precompiled contracts, and always loaded."""
_READING_PRECOMPILED = 100 - 20
_CREATION = 32_000
_PADDING = bytes(33)
"""Follows code in the form in which it is run."""
_EMPTY_ROOT = keccak(rlp.encode(b""))
_NO_UNCLES = keccak(rlp.encode([]))
_NO_REQUESTS = hashlib.sha256().digest()
_CHANGED = re.compile(r"StorageChange \{ address: (0x\w{40}), key: (\w+), had_value: Some\((\w+)\)")
_NUMBERED = re.compile(r"Account(Loaded|Touched) \{ address: 0x0{24}(\w{16}) ")
_OUTPUT = re.compile(r"^Revert .*output: 0x(\w*)", re.DOTALL)


@dataclass
class _Outcome:
    """What a message came to; ``changes`` of storage are address, key, the value before, the one after."""

    succeeded: bool
    gas: int
    output: bytes
    logs: list[tuple[bytes, list[bytes], bytes]] = field(default_factory=list)
    changes: list[tuple[str, int, int, int]] = field(default_factory=list)
    created: str | None = None
    code: bytes = b""


@dataclass
class _Block:
    """A block, with the one transaction that it holds, or none."""

    number: int
    time: int
    mix: bytes
    transaction: bytes | None = None
    sent: SignedTransaction | None = None
    outcome: _Outcome | None = None
    receipt: bytes | None = None
    header: bytes = b""
    hash: bytes = b""


class RevmNetwork(Network):
    """A chain in this process; safe to share among threads."""

    can_mine = True
    chain_id = CHAIN_ID

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.RLock()
        self._evm = EVM(Env(cfg=CfgEnv(chain_id=CHAIN_ID)), spec_id="CANCUN")
        self._blocks: list[_Block] = []
        self._places: dict[bytes, int] = {}
        self._codes: dict[str, bytes] = {}
        self._nonces: dict[str, int] = {}
        self._funder = Account((1).to_bytes(32, "big"))
        self._balances = {self._funder.address: int(to_wei(FUNDS, "ether"))}
        self._append()

    # --- reading ----------------------------------------------------------------------------------------------------

    def block_number(self) -> int:
        return self._blocks[-1].number

    def block_hash(self, number: int) -> bytes:
        return self._block(number).hash

    def block_time(self, number: int) -> int:
        return self._block(number).time

    def call(self, to: str, data: bytes, payer: Payer | None = None, block: int | None = None) -> bytes:
        caller, gas = (payer.account, min(payer.gas, CALL_GAS)) if payer else (NOBODY, CALL_GAS)
        with self._lock:
            at = self._blocks[-1] if block is None else self._block(block)
            later = [
                change for each in self._blocks[at.number + 1 :] if each.outcome for change in each.outcome.changes
            ]
            for address, key, before, _ in reversed(later):
                self._store(address, key, before)
            outcome = self._run(at, caller, to, data, gas)
            for address, key, _, after in later:
                self._store(address, key, after)
        if not outcome.succeeded:
            raise decode_revert(outcome.output)
        return outcome.output

    def code(self, address: str) -> bytes:
        return self._codes.get(to_checksum_address(address), b"")

    def balance(self, address: str) -> int:
        return self._balances.get(to_checksum_address(address), 0)

    def nonce(self, address: str) -> int:
        return self._nonces.get(to_checksum_address(address), 0)

    def base_fee(self) -> int:
        return CONSTANT_BASE_FEE

    def logs(self, first: int, last: int, addresses: Sequence[str]) -> list[Log]:
        wanted = set(map(to_canonical_address, addresses))
        found = []
        for block in map(self._block, range(first, last + 1)):
            for index, (address, topics, data) in enumerate(block.outcome.logs if block.outcome else ()):
                if address in wanted:
                    at = Position(block.number, keccak(block.transaction), index)
                    found.append(Log(to_checksum_address(address), tuple(topics), data, at))
        return found

    def headers(self, first: int, last: int) -> list[bytes]:
        return [self._block(number).header for number in range(first, last + 1)]

    def bodies(self, numbers: Sequence[int]) -> list[Body]:
        blocks = map(self._block, numbers)
        return [
            Body((each.transaction,), (each.receipt,)) if each.transaction and each.receipt else Body((), ())
            for each in blocks
        ]

    def signed_transaction(self, transaction: bytes) -> bytes:
        return self._found(transaction).transaction

    def mined(self, transaction: bytes) -> Mined | None:
        block = self._found(transaction)
        outcome = block.outcome
        return Mined(transaction, block.number, outcome.gas, outcome.succeeded, outcome.created)

    def paid(self, transactions: Sequence[bytes]) -> list[Paid | None]:
        found = map(self._found, transactions)
        return [
            Paid(each.sent.sender, each.outcome.gas, each.outcome.gas * each.sent.price(CONSTANT_BASE_FEE))
            for each in found
        ]

    def knows(self, transaction: bytes) -> bool:
        return True

    # --- writing ----------------------------------------------------------------------------------------------------

    def send(self, raw: bytes) -> bytes:
        sent = decode_transaction(raw)
        gas, value = _limit_and_value(raw)
        with self._lock:
            self._check(sent, gas, value)
            self._append(raw, sent, gas, value)
        return keccak(raw)

    def fund(self, address: str, ether: float) -> None:
        sender_of(self, self._funder).transact(address, b"", 21_000, value=int(to_wei(ether, "ether")))

    def mine(self, blocks: int = 1) -> None:
        with self._lock:
            for _ in range(blocks):
                self._append()

    def close(self) -> None:
        """Nothing is held."""

    # --- blocks -----------------------------------------------------------------------------------------------------

    def _append(
        self, raw: bytes | None = None, sent: SignedTransaction | None = None, gas: int = 0, value: int = 0
    ) -> None:
        """Make the next block, of one transaction or of none."""
        block = _Block(len(self._blocks), *self._moment(), raw, sent)
        if sent is not None:
            block.outcome = self._transact(block, sent, gas, value)
        if raw is not None and block.outcome is not None:
            block.receipt = _receipt(type_of(raw), block.outcome)
        block.header = self._header(block)
        block.hash = keccak(block.header)
        if block.number:  # the account 0 is who calls without an account
            self._evm.insert_account_info(_account_of(block.number), AccountInfo(nonce=1, code_hash=block.hash))
        self._blocks.append(block)
        if raw is not None:
            self._places[keccak(raw)] = block.number

    def _moment(self) -> tuple[int, bytes]:
        """Time and RANDAO mix of the next block."""
        if not self._blocks:
            return int(time.time()), bytes(32)
        return max(int(time.time()), self._blocks[-1].time), os.urandom(32)

    def _header(self, block: _Block) -> bytes:
        parent = self._blocks[-1].hash if self._blocks else bytes(32)
        gas, logs = (block.outcome.gas, block.outcome.logs) if block.outcome else (0, [])
        return rlp.encode(
            [
                *(parent, _NO_UNCLES, bytes(20), bytes(32)),  # the last would be the root of the state
                *(_root_of(block.transaction), _root_of(block.receipt), bloom_of(logs)),
                *(b"", _number(block.number), _number(GAS_LIMIT), _number(gas), _number(block.time)),
                *(b"", block.mix, bytes(8), _number(CONSTANT_BASE_FEE), _EMPTY_ROOT, b"", b"", _EMPTY_ROOT),
                _NO_REQUESTS,
            ]
        )

    def _check(self, sent: SignedTransaction, gas: int, value: int) -> None:
        if sent.chain_id != CHAIN_ID:
            raise TransactionRefused("The transaction is for another chain; sign it for this one.")
        if sent.nonce != self.nonce(sent.sender):
            raise NonceConflict("Another transaction took this nonce; send it again.")
        if self.balance(sent.sender) < gas * sent.max_fee + value:
            raise InsufficientFunds("The account cannot pay for the transaction; fund it with more test ether.")
        intrinsic = max(_floor(sent.data), _intrinsic(sent))
        if not intrinsic <= gas <= GAS_LIMIT or sent.max_fee < max(CONSTANT_BASE_FEE, sent.max_tip):
            raise TransactionRefused("The chain refused the transaction (gas); correct it and send it again.")

    def _transact(self, block: _Block, sent: SignedTransaction, gas: int, value: int) -> _Outcome:
        """Apply a transaction to the state, and have its sender pay."""
        if sent.to is not None and sent.to not in self._codes:
            outcome = _Outcome(True, _intrinsic(sent), b"")
        else:
            outcome = self._run(block, sent.sender, sent.to, sent.data, gas, sent.nonce, value)
        outcome.gas = max(outcome.gas, _floor(sent.data))
        self._nonces[sent.sender] = sent.nonce + 1
        cost = outcome.gas * sent.price(CONSTANT_BASE_FEE) + (value if outcome.succeeded else 0)
        self._balances[sent.sender] -= cost
        if outcome.succeeded and sent.to is not None:
            self._balances[sent.to] = self.balance(sent.to) + value
        if outcome.created:
            self._codes[outcome.created] = outcome.code
            info = AccountInfo(nonce=1, code=_without_blockhash(outcome.code))
            self._evm.insert_account_info(outcome.created, info)
        for address, key, _, after in outcome.changes:
            self._store(address, key, after)
        return outcome

    def _store(self, address: str, key: int, value: int) -> None:
        """Write to storage below all snapshots; it loads the account, which the snapshot forgets."""
        snapshot = self._evm.snapshot()
        self._evm.insert_account_storage(address, key, value)
        self._evm.revert(snapshot)

    def _run(
        self, block: _Block, caller: str, to: str | None, data: bytes, gas: int, nonce: int = 0, value: int = 0
    ) -> _Outcome:
        """Run a message above the state, which stays as it is; see the top of the file."""
        evm = self._evm
        evm.set_block_env(BlockEnv(block.number, NOBODY, block.time, prevrandao=block.mix, gas_limit=GAS_LIMIT))
        if to is None:
            evm.insert_account_info(caller, AccountInfo(nonce=nonce))
        snapshot = evm.snapshot()
        if value:
            evm.set_balance(caller, self.balance(caller))
        created, output = None, b""
        try:
            if to is None:
                created = to_checksum_address(evm.deploy(caller, data, value, gas))
            else:
                output = evm.message_call(caller, to, data, value, gas + _READING)
        except RuntimeError as fault:
            if evm.result is None or evm.result.is_success:
                evm.revert(snapshot)
                raise ChainError(f"pyrevm fails: {str(fault)[:200]}") from fault
            output = bytes.fromhex(found[1]) if (found := _OUTPUT.match(str(fault))) else b""
        result = evm.result
        outcome = _Outcome(result.is_success, min(result.gas_used, gas), output)
        if result.is_success:
            journal = evm.journal_str.rpartition(", journal: ")[2]
            outcome.gas = result.gas_used - _paid_for_hashes(journal)
            outcome.logs = [(to_canonical_address(log.address), *_words(log.data)) for log in result.logs]
            # The first value that was overwritten is the one from before the transaction.
            before = {(address, int(key, 0)): int(old, 0) for address, key, old in reversed(_CHANGED.findall(journal))}
            outcome.changes = [(*slot, old, evm.storage(*slot)) for slot, old in before.items()]
            if created:
                outcome.created, outcome.code = created, evm.get_code(created).removesuffix(_PADDING)
        evm.revert(snapshot)
        return outcome

    def _block(self, number: int) -> _Block:
        if not 0 <= number < len(self._blocks):
            raise ChainError(f"The chain has no block {number}; it is at {self.block_number()}.")
        return self._blocks[number]

    def _found(self, transaction: bytes) -> _Block:
        return self._blocks[self._places[transaction]]


def _paid_for_hashes(journal: str) -> int:
    """What a transaction paid too much for the hashes of blocks: their accounts were loaded, but not called."""
    found = [(kind, int(number, 16)) for kind, number in _NUMBERED.findall(journal)]
    called = {number for kind, number in found if kind == "Touched"}
    read = {number for _, number in found} - called
    return sum(_READING_PRECOMPILED if number <= _PRECOMPILED else _READING for number in read)


def _account_of(number: int) -> str:
    """The account whose code has the hash of a block."""
    return f"0x{number:040x}"


def _without_blockhash(code: bytes) -> bytes:
    """Code with EXTCODEHASH in the place of BLOCKHASH."""
    changed, at = bytearray(code), 0
    while at < len(code):
        if code[at] == _BLOCKHASH:
            changed[at] = _EXTCODEHASH
        at += code[at] - _PUSH1 + 2 if _PUSH1 <= code[at] <= _PUSH32 else 1
    return bytes(changed)


def _words(data: tuple[list[bytes], bytes]) -> tuple[list[bytes], bytes]:
    topics, content = data
    return [bytes(topic) for topic in topics], bytes(content)


def _limit_and_value(raw: bytes) -> tuple[int, int]:
    """A transaction's limit of gas and what it transfers, in wei."""
    kind = type_of(raw)
    fields = rlp.decode(raw[1:] if kind else raw)
    at = {0: 2, 1: 3, 2: 4}[kind]
    return int.from_bytes(fields[at], "big"), int.from_bytes(fields[at + 2], "big")


def _intrinsic(sent: SignedTransaction) -> int:
    zeros = sent.data.count(0)
    gas = 21_000 + 4 * zeros + 16 * (len(sent.data) - zeros)
    return gas if sent.to else gas + _CREATION + 2 * -(-len(sent.data) // 32)


def _floor(data: bytes) -> int:
    """The least that a transaction with this calldata costs (EIP-7623)."""
    zeros = data.count(0)
    return 21_000 + 10 * (zeros + 4 * (len(data) - zeros))


def _receipt(kind: int, outcome: _Outcome) -> bytes:
    logs = [[address, topics, data] for address, topics, data in outcome.logs]
    fields = [b"\1" if outcome.succeeded else b"", _number(outcome.gas), bloom_of(logs), logs]
    return (bytes([kind]) if kind else b"") + rlp.encode(fields)


def _root_of(item: bytes | None) -> bytes:
    """Root of the trie that has one item, or none: a leaf, whose path is RLP of zero."""
    return keccak(rlp.encode([b"\x20\x80", item])) if item else _EMPTY_ROOT


def _number(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) // 8, "big")
