"""An editor of kept runs: changes one thing in a history and makes everything that needs no key fit again.

A ``Tape`` is a history taken apart by the project's own library: header fields, transactions, receipts, logs.
``encode`` puts it together again: logs into blooms, transactions and receipts into roots, roots into headers, each
header's hash into the next header; seeds and orders are drawn anew from the new hashes. Only signatures and VRF proofs
stay what they were, or are made with the keys that a forger has.
"""

import copy
from dataclasses import dataclass, fields, replace
from typing import Any

import rlp
from eth_abi import decode as abi_decode
from eth_abi import encode as abi_encode
from eth_bloom import BloomFilter
from eth_keys.datatypes import PrivateKey
from eth_utils import keccak, to_canonical_address, to_checksum_address

from fedgrove.chain.crypto import tree, vrf
from fedgrove.chain.crypto.account import Account
from fedgrove.chain.network.block_rlp import decode_header, decode_receipt, trie_root
from fedgrove.chain.network.history import Block, Body, LedgerHistory
from fedgrove.chain.records import (
    Approved,
    Closed,
    Committed,
    DrawEnded,
    Drawn,
    Failed,
    Judged,
    Log,
    MailboxKeyRotated,
    Phase,
    Position,
    Record,
    Registered,
    Released,
    Replaced,
    Resumed,
    Revoked,
    RoundOpened,
    Sealed,
    SeedFixed,
    Shared,
    Skipped,
    VrfKeyRotated,
    Withdrawn,
)
from fedgrove.chain.records.abi import functions
from fedgrove.chain.records.deployment import Deployment
from fedgrove.chain.records.events import EVENTS, decode
from fedgrove.chain.records.phases import Deadlines, Ends

PARENT, TRANSACTIONS, RECEIPTS, BLOOM, NUMBER = 0, 4, 5, 6, 8
STRANGER = Account(keccak(text="a stranger's key"))

# Which argument of the call holds which field of the record.
ARGUMENTS: dict[type[Record], tuple[str, ...]] = {
    Registered: ("vrf_x", "vrf_y", "mailbox_key"),
    VrfKeyRotated: ("vrf_x", "vrf_y"),
    MailboxKeyRotated: ("mailbox_key",),
    Withdrawn: ("points", "digest"),
    Approved: ("account",),
    Revoked: ("account",),
    RoundOpened: ("model_digest", "barred"),
    SeedFixed: ("round",),
    Drawn: ("round", "", "", "mask_key", "seal_key", "samples"),
    Sealed: ("round",),
    Skipped: ("round",),
    Shared: ("round", "digest"),
    Committed: ("round", "digest", "seed_hash"),
    Released: ("round", "digest"),
    Closed: ("round", "model_digest", "metrics_digest"),
    Failed: ("round",),
    Judged: ("round", "asked", "model_digest", "metrics_digest"),
    Replaced: ("round", "", "model_digest", "metrics_digest"),
    Resumed: (),
}


@dataclass
class Call:
    """A transaction, its receipt and the logs that it left; ``fields`` are the RLP fields, the signature last."""

    kind: int
    fields: list[Any]
    receipt_kind: int
    status: bytes
    gas: int
    logs: list[list[Any]]
    bloom: bytes | None = None
    """Of the receipt, where it is not to follow from the logs."""

    @classmethod
    def of(cls, raw: bytes, receipt: bytes, gas_before: int) -> "Call":
        kind, receipt_kind = (encoded[0] if encoded[0] < 0x80 else 0 for encoded in (raw, receipt))
        status, _, _, logs = rlp.decode(receipt[1:] if receipt_kind else receipt)
        gas = decode_receipt(receipt).cumulative_gas - gas_before
        transaction = list(rlp.decode(raw[1:] if kind else raw))
        return cls(kind, transaction, receipt_kind, status, gas, [list(log) for log in logs])

    @property
    def to_place(self) -> int:
        """Which field is the recipient; calldata is two behind it."""
        return {0: 3, 1: 4}.get(self.kind, 5)

    @property
    def to(self) -> bytes:
        return self.fields[self.to_place]

    @to.setter
    def to(self, address: bytes) -> None:
        self.fields[self.to_place] = address

    @property
    def data(self) -> bytes:
        return self.fields[self.to_place + 2]

    @data.setter
    def data(self, data: bytes) -> None:
        self.fields[self.to_place + 2] = data

    def sign(self, account: Any, chain_id: int) -> None:
        """Sign what the transaction says now."""
        key, place = PrivateKey(bytes(account.key)), len(self.fields) - 3
        content = self.fields[:place]
        if self.kind:
            digest = keccak(bytes([self.kind]) + rlp.encode(content))
            v, r, s = key.sign_msg_hash(digest).vrs
        else:
            v, r, s = key.sign_msg_hash(keccak(rlp.encode([*content, chain_id, 0, 0]))).vrs
            v += 35 + 2 * chain_id
        self.fields[place:] = [_big_endian(number) for number in (v, r, s)]

    def become_unprotected(self, account: Any = None) -> None:
        """A legacy transaction without chain id; the old signature stays unless an account is given."""
        at, (_, r, s) = self.to_place, self.fields[-3:]
        nonce = self.fields[0 if not self.kind else 1]
        content = [nonce, self.fields[at - 2], self.fields[at - 1], self.fields[at], self.fields[at + 1], self.data]
        parity = 27 + int.from_bytes(self.fields[-3], "big") % 2
        if account is not None:
            parity, r, s = PrivateKey(bytes(account.key)).sign_msg_hash(keccak(rlp.encode(content))).vrs
            parity, r, s = parity + 27, _big_endian(r), _big_endian(s)
        self.kind, self.receipt_kind = 0, 0
        self.fields = [*content, _big_endian(parity), r, s]

    def raw(self) -> bytes:
        return (bytes([self.kind]) if self.kind else b"") + rlp.encode(self.fields)

    def receipt(self, gas: int) -> bytes:
        bloom = BloomFilter()
        for address, topics, _ in self.logs:
            bloom.extend([address, *topics])
        body = [self.status, gas, self.bloom or int(bloom).to_bytes(256, "big"), self.logs]
        return (bytes([self.receipt_kind]) if self.receipt_kind else b"") + rlp.encode(body)


@dataclass
class Sheet:
    """A block: header fields, and its calls (None: no body is delivered).

    ``claimed`` is a false hash to state, ``breaks`` a header field to change when all else fits; a ``bare`` block is
    delivered without its body.
    """

    fields: list[bytes]
    calls: list[Call] | None
    claimed: bytes = b""
    breaks: int | None = None
    bare: bool = False


@dataclass(frozen=True)
class Place:
    """Where a record lies: index of the block, of the call in it, of the log in that."""

    block: int
    call: int
    log: int
    record: Record


@dataclass
class Tape:
    """A history that can be edited."""

    deployment: Deployment
    sheets: list[Sheet]
    mends: bool = True
    """Whether seeds, orders and block numbers in records follow the new blocks."""

    @classmethod
    def of(cls, history: LedgerHistory) -> "Tape":
        return cls(history.deployment, [_sheet(block) for block in history.blocks])

    def copy(self) -> "Tape":
        return copy.deepcopy(self)

    # --- looking ----------------------------------------------------------------------------------------------------

    def places(self, *kinds: type[Record]) -> list[Place]:
        """Where the records of these kinds lie, all of them by default, in the order of the chain."""
        own = {to_canonical_address(self.deployment.registry), to_canonical_address(self.deployment.ledger)}
        found = []
        for block, sheet in enumerate(self.sheets):
            for index, call in enumerate(sheet.calls or ()):
                for number, log in enumerate(call.logs):
                    if log[0] in own:
                        record = self._decoded(block, log)
                        if not kinds or isinstance(record, kinds):
                            found.append(Place(block, index, number, record))
        return found

    def first(self, kind: type[Record], number: int = 0) -> Place:
        """The first record of a kind (in a round)."""
        return next(each for each in self.places(kind) if not number or each.record.round == number)

    def last(self, kind: type[Record]) -> Place:
        return self.places(kind)[-1]

    def call(self, place: Place) -> Call:
        return self.sheets[place.block].calls[place.call]

    def number(self, place: Place) -> int:
        """Number of the block in which a record lies."""
        return self.deployment.block + place.block

    def _decoded(self, block: int, log: list[Any]) -> Record:
        at = Position(self.deployment.block + block, bytes(32), 0)
        return decode(Log(to_checksum_address(log[0]), tuple(log[1]), log[2], at))

    # --- changing ---------------------------------------------------------------------------------------------------

    def set_record(self, inputs: Place, **changes: Any) -> Record:
        """Change fields of a record, in its log alone."""
        record = replace(inputs.record, **changes)
        self.call(inputs).logs[inputs.log] = log_of(record, self.deployment)
        return record

    def set_calldata(self, place: Place, **changes: Any) -> None:
        """Change the arguments of the call that hold these fields of its record."""
        call, kind = self.call(place), type(place.record)
        contract = kind.CALLED or kind.CONTRACT
        function = next((each for each in functions(contract).values() if each.selector == call.data[:4]), None)
        if function is None:  # the contract's creation: accounts that it approves are arguments behind its code
            for name in ARGUMENTS[kind]:
                before, after = getattr(place.record, name), changes.get(name, getattr(place.record, name))
                call.data = call.data.replace(*(abi_encode(["address"], [account]) for account in (before, after)))
            return
        arguments = list(abi_decode(function.inputs, call.data[4:]))
        for name, value in changes.items():
            if name in ARGUMENTS[kind]:
                at, before = ARGUMENTS[kind].index(name), getattr(place.record, name)
                arguments[at] = _with_argument(arguments[at], before, value)
        call.data = function.selector + abi_encode(function.inputs, arguments)

    def change(self, place: Place, signer: Any = None, **changes: Any) -> None:
        """Change fields of a record and its calldata; signed by an account, or under the old signature."""
        self.set_record(place, **changes)
        self.set_calldata(place, **changes)
        if signer is not None:
            self.call(place).sign(signer, self.deployment.chain_id)

    def drop(self, place: Place) -> None:
        """Leave a record's transaction out."""
        del self.sheets[place.block].calls[place.call]

    def insert(self, block: int, call: Call) -> None:
        """Put a transaction at the end of a block."""
        sheet = self.sheets[block]
        sheet.calls = [*(sheet.calls or ()), call]

    def move(self, place: Place, block: int) -> None:
        """Move a record's transaction to the end of another block."""
        call = self.call(place)
        self.drop(place)
        self.insert(block, call)

    def resign(self, signers: Any) -> None:
        """Sign every call anew; ``signers`` maps the old sender to an account."""
        for sheet in self.sheets:
            for call in sheet.calls or ():
                call.sign(signers(call), self.deployment.chain_id)

    def cut(self, last: int) -> None:
        """End the history with a block, by its number."""
        del self.sheets[last + 1 - self.deployment.block :]

    def go_on(self, last: int) -> None:
        """Make up empty blocks up to one with this number."""
        while self.deployment.block + len(self.sheets) <= last:
            header = list(self.sheets[-1].fields)
            header[TRANSACTIONS] = header[RECEIPTS] = trie_root(())
            header[BLOOM], header[NUMBER] = bytes(256), _big_endian(self.deployment.block + len(self.sheets))
            self.sheets.append(Sheet(header, None))

    # --- putting together -------------------------------------------------------------------------------------------

    def encode(self) -> LedgerHistory:
        """The history that the tape says, with everything in order that needs no key."""
        mending = _Mending(self.deployment) if self.mends else None
        blocks: list[Block] = []
        for number, sheet in enumerate(self.sheets, self.deployment.block):
            if mending is not None:
                mending.mend(number, sheet)
            blocks.append(_block(sheet, blocks[-1].hash if blocks else sheet.fields[PARENT]))
            if mending is not None:
                mending.hashes[number] = blocks[-1].hash
        return LedgerHistory(self.deployment, tuple(blocks))


class _Mending:
    """Draws anew what follows from the hashes of blocks, and from the numbers of the blocks that records lie in."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self.hashes: dict[int, bytes] = {}
        self._opened: dict[int, int] = {}
        self._tickets: dict[int, dict[int, int]] = {}
        self._ends: dict[int, Ends] = {}
        self._root = bytes(32)

    def mend(self, number: int, sheet: Sheet) -> None:
        for call in sheet.calls or ():
            for index, log in enumerate(call.logs):
                try:
                    record = decode(Log("", tuple(log[1]), log[2], Position(number, bytes(32), 0)))
                except Exception:
                    continue  # no record, or one that is forged so that it is none
                mended = self._mended(record, number)
                if mended != record:
                    call.logs[index] = log_of(mended, self._deployment)

    def _mended(self, record: Record, number: int) -> Record:
        d = self._deployment
        match record:
            case RoundOpened():
                shift = number - record.opened_at
                self._opened.setdefault(record.round, number)
                self._tickets.setdefault(record.round, {})
                if shift and record.seed_block - record.opened_at == d.settings.seed_delay:
                    return replace(record, opened_at=number, seed_block=number + d.settings.seed_delay)
            case Drawn():
                ticket = tree.ticket(vrf.proof_to_hash(record.proof), record.client)
                self._tickets.get(record.round, {})[record.client] = ticket
            case DrawEnded():
                self._ends[record.round] = Ends(draw=number)
            case SeedFixed() if record.round in self._opened:
                block = Deadlines.of(self._opened[record.round], d.settings, Ends()).seed_block
                old = record.block_hash
                new = self.hashes.get(block, old)
                if tree.seed(old, self._root) == record.seed or new != old:
                    return replace(record, block_hash=new, seed=tree.seed(new, self._root))
            case Sealed() if record.round in self._opened:
                block = self._order_block(record.round)
                if block in self.hashes:
                    seed = tree.order_seed(d.chain_id, d.ledger, record.round, self.hashes[block])
                    tickets = tuple(self._tickets[record.round].values())
                    root = tree.order_root(tree.order(tickets, seed))
                    record = replace(record, drawn=len(tickets), order_seed=seed, order_root=root)
                self._root = record.order_root
        return record

    def _order_block(self, number: int) -> int:
        ends = self._ends.get(number, Ends())
        return Deadlines.of(self._opened[number], self._deployment.settings, ends).order_block


# --- values -----------------------------------------------------------------------------------------------------------


def _with_argument(argument: Any, before: Any, value: Any) -> Any:
    """An argument with another value, or, if it is a list in which the record's is one of several, with that in it."""
    if not isinstance(argument, list | tuple) or isinstance(before, tuple):
        return value
    return [value if each == before or str(each).lower() == str(before).lower() else each for each in argument]


def other_value(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, bytes):
        return value[:-1] + bytes([value[-1] ^ 1]) if value else b"\1"
    if isinstance(value, str):
        return STRANGER.address if value != STRANGER.address else to_checksum_address(b"\1" * 20)
    if isinstance(value, Phase):
        return Phase.CLOSED if value is Phase.RECOVER else Phase.RECOVER
    return (*value, STRANGER.address) if isinstance(value, tuple) else value + 1


def record_fields(record: Record) -> list[str]:
    return [each.name for each in fields(record) if each.name != "at"]


def log_of(record: Record, deployment: Deployment) -> list[Any]:
    """The log that says a record."""
    own = _EVENTS_OF[type(record)]
    topic, event = own
    values = [getattr(record, name) for name in record_fields(record)]
    indexed = [
        abi_encode([kind], [value]) for kind, value in zip(event.indexed, values[: len(event.indexed)], strict=True)
    ]
    data = abi_encode(event.plain, values[len(event.indexed) :])
    address = deployment.contracts[record.CONTRACT]
    return [to_canonical_address(address), [topic, *indexed], data]


_EVENTS_OF = {event.record: (topic, event) for topic, event in EVENTS.items()}


def _sheet(block: Block) -> Sheet:
    calls = None
    if block.body is not None:
        calls, before = [], 0
        for raw, receipt in zip(block.body.transactions, block.body.receipts, strict=True):
            calls.append(Call.of(raw, receipt, before))
            before = decode_receipt(receipt).cumulative_gas
    return Sheet(decode_header(block.header), calls)


def _block(sheet: Sheet, parent: bytes) -> Block:
    header, body = list(sheet.fields), None
    header[PARENT] = parent
    if sheet.calls is not None:
        transactions = tuple(call.raw() for call in sheet.calls)
        receipts, gas = [], 0
        for call in sheet.calls:
            gas += call.gas
            receipts.append(call.receipt(gas))
        body = Body(transactions, tuple(receipts))
        header[TRANSACTIONS], header[RECEIPTS] = trie_root(transactions), trie_root(receipts)
        bloom = 0
        for receipt in receipts:
            bloom |= int.from_bytes(rlp.decode(receipt[1:] if receipt[0] < 0x80 else receipt)[2], "big")
        header[BLOOM] = bloom.to_bytes(256, "big")
    if sheet.breaks is not None:
        header[sheet.breaks] = other_value(header[sheet.breaks])
    encoded = rlp.encode(header)
    return Block(encoded, sheet.claimed or keccak(encoded), None if sheet.bare else body)


def _big_endian(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")
