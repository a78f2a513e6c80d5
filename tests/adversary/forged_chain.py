"""A chain that an endpoint makes up: blocks of its own, whose headers link up and whose roots fit their contents.

It begins as a copy of a true chain. The endpoint signs for nobody: what it can use are the transactions that others
signed, its own, and receipts and headers, which nobody signs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import rlp
from eth_bloom import BloomFilter
from eth_utils import keccak, to_canonical_address, to_checksum_address

from fedgrove.chain.network.access import Mined, Network, Paid, Payer
from fedgrove.chain.network.block_rlp import decode_header, trie_root
from fedgrove.chain.network.blocks import Body
from fedgrove.chain.network.history import Block, LedgerHistory
from fedgrove.chain.records import Log, Position
from fedgrove.chain.records.deployment import Deployment

PARENT, TRANSACTIONS, RECEIPTS, BLOOM, NUMBER, TIME, EXTRA = 0, 4, 5, 6, 8, 11, 12


@dataclass(frozen=True)
class Made:
    """One block: the fields of its header, what it holds."""

    fields: tuple[bytes, ...]
    body: Body

    @cached_property
    def header(self) -> bytes:
        return rlp.encode(self.fields)

    @cached_property
    def hash(self) -> bytes:
        return keccak(self.header)

    def changed(self, fields: dict[int, bytes], body: Body | None = None) -> "Made":
        """With other values of some fields, by their places."""
        kept = tuple(fields.get(place, value) for place, value in enumerate(self.fields))
        return Made(kept, self.body if body is None else body)


class ForgedChain(Network):
    """Shows made-up blocks from ``first`` on, and hands everything else on to the true chain."""

    def __init__(self, truth: Network, first: int = 1) -> None:
        super().__init__()
        self.truth, self.first = truth, first
        self.chain_id, self.can_mine = truth.chain_id, truth.can_mine
        self.blocks: list[Made] = []
        self.follow()

    def follow(self) -> None:
        """Take over what the true chain has beyond these blocks, with parents as they are here."""
        last = self.truth.block_number()
        numbers = list(range(self.block_number() + 1, last + 1))
        if numbers:
            headers = self.truth.headers(numbers[0], last)
            for header, body in zip(headers, self.truth.bodies(numbers), strict=True):
                self.blocks.append(Made(tuple(decode_header(header)), body))
            self._link(numbers[0])

    def copy(self) -> "ForgedChain":
        """Another one, which begins with the same blocks."""
        other = ForgedChain.__new__(ForgedChain)
        Network.__init__(other)
        other.truth, other.first = self.truth, self.first
        other.chain_id, other.can_mine = self.chain_id, self.can_mine
        other.blocks = list(self.blocks)
        return other

    # --- forging ----------------------------------------------------------------------------------------------------

    def fork(self, number: int) -> None:
        """Forget the blocks after this one."""
        del self.blocks[number + 1 - self.first :]

    def body(self, number: int) -> Body:
        return self._made(number).body

    def put(self, number: int, body: Body) -> None:
        """Give a block this body, and roots and blooms that fit; those after it name it as before."""
        self.set(number, {BLOOM: bloom([log for receipt in body.receipts for log in logs_of(receipt)])})
        self.put_unread(number, body)

    def put_unread(self, number: int, body: Body) -> None:
        """As ``put``, for receipts that nobody can read: the block's bloom filter stays."""
        self.set(number, {TRANSACTIONS: trie_root(body.transactions), RECEIPTS: trie_root(body.receipts)}, body)

    def set(self, number: int, fields: dict[int, bytes], body: Body | None = None) -> None:
        """Give a header other fields; the blocks after it name it as before."""
        self.blocks[number - self.first] = self._made(number).changed(fields, body)
        self._link(number + 1)

    def add(self, body: Body | None = None, extra: bytes = b"") -> int:
        """Make one more block; ``extra`` data gives it another hash."""
        number = self.block_number() + 1
        fields = {NUMBER: number.to_bytes(8, "big").lstrip(b"\0"), PARENT: self.blocks[-1].hash, EXTRA: extra}
        self.blocks.append(self.blocks[-1].changed(fields))
        self.put(number, body or Body((), ()))
        return number

    def drop(self, transaction: bytes) -> None:
        """Leave a transaction out."""
        number, index = self._find(transaction)
        body = self.body(number)
        kept = [place for place in range(len(body.transactions)) if place != index]
        self.put(number, Body(*(tuple(part[place] for place in kept) for part in (body.transactions, body.receipts))))

    def replace(self, transaction: bytes, other: bytes) -> None:
        """Show another transaction of the same type in the place of one; the receipt stays."""
        number, index = self._find(transaction)
        body = self.body(number)
        self.put(number, Body((*body.transactions[:index], other, *body.transactions[index + 1 :]), body.receipts))

    def alter(self, at: Position, data: bytes | None = None, topics: Sequence[bytes] | None = None) -> None:
        """Give a log other data or topics."""
        logs, place = self._logs(at)
        address, old_topics, old_data = logs[place]
        logs[place] = [address, list(topics) if topics is not None else old_topics, old_data if data is None else data]
        self._relog(at, logs)

    def omit(self, at: Position) -> None:
        """Leave a log out."""
        logs, place = self._logs(at)
        self._relog(at, logs[:place] + logs[place + 1 :])

    def _logs(self, at: Position) -> tuple[list, int]:
        """The logs of a record's transaction, and which of them is the record's."""
        number, index = self._find(at.transaction)
        receipts = self.body(number).receipts
        before = sum(len(logs_of(receipt)) for receipt in receipts[:index])
        return logs_of(receipts[index]), at.log_index - before

    def _relog(self, at: Position, logs: list) -> None:
        number, index = self._find(at.transaction)
        body = self.body(number)
        receipts = list(body.receipts)
        receipts[index] = with_logs(receipts[index], logs)
        self.put(number, Body(body.transactions, tuple(receipts)))

    def _find(self, transaction: bytes) -> tuple[int, int]:
        for number in range(self.first, self.block_number() + 1):
            hashes = [keccak(raw) for raw in self.body(number).transactions]
            if transaction in hashes:
                return number, hashes.index(transaction)
        raise LookupError("no such transaction")

    def _link(self, number: int) -> None:
        for later in range(max(number, self.first + 1), self.block_number() + 1):
            fields = {PARENT: self._made(later - 1).hash}
            self.blocks[later - self.first] = self._made(later).changed(fields)

    def _made(self, number: int) -> Made:
        if not self.first <= number <= self.block_number():
            raise LookupError(f"no block {number}")
        return self.blocks[number - self.first]

    def history(self, deployment: Deployment) -> LedgerHistory:
        """The made-up blocks as a file would hold them."""
        last = self.block_number()
        blocks = (self._made(number) for number in range(deployment.block, last + 1))
        return LedgerHistory(deployment, tuple(Block(made.header, made.hash, made.body) for made in blocks))

    # --- as an endpoint shows it ------------------------------------------------------------------------------------

    def block_number(self) -> int:
        return self.first + len(self.blocks) - 1

    def block_hash(self, number: int) -> bytes:
        return self._made(number).hash

    def block_time(self, number: int) -> int:
        return int.from_bytes(self._made(number).fields[TIME], "big")

    def headers(self, first: int, last: int) -> list[bytes]:
        return [self._made(number).header for number in range(first, last + 1)]

    def bodies(self, numbers: Sequence[int]) -> list[Body]:
        return [self.body(number) for number in numbers]

    def logs(self, first: int, last: int, addresses: Sequence[str]) -> list[Log]:
        wanted, found = {to_canonical_address(address) for address in addresses}, []
        for number in range(max(first, self.first), last + 1):
            index, body = 0, self.body(number)
            for raw, receipt in zip(body.transactions, body.receipts, strict=True):
                for address, topics, data in logs_of(receipt):
                    if address in wanted:
                        at = Position(number, keccak(raw), index)
                        found.append(Log(to_checksum_address(address), tuple(topics), data, at))
                    index += 1
        return found

    def signed_transaction(self, transaction: bytes) -> bytes:
        number, index = self._find(transaction)
        return self.body(number).transactions[index]

    # --- as the true chain does it ----------------------------------------------------------------------------------

    def call(self, to: str, data: bytes, payer: Payer | None = None, block: int | None = None) -> bytes:
        return self.truth.call(to, data, payer, block)

    def code(self, address: str) -> bytes:
        return self.truth.code(address)

    def balance(self, address: str) -> int:
        return self.truth.balance(address)

    def nonce(self, address: str) -> int:
        return self.truth.nonce(address)

    def base_fee(self) -> int:
        return self.truth.base_fee()

    def send(self, raw: bytes) -> bytes:
        return self.truth.send(raw)

    def mined(self, transaction: bytes) -> Mined | None:
        return self.truth.mined(transaction)

    def paid(self, transactions: Sequence[bytes]) -> list[Paid | None]:
        return self.truth.paid(transactions)

    def knows(self, transaction: bytes) -> bool:
        return self.truth.knows(transaction)

    def fund(self, address: str, ether: float) -> None:
        self.truth.fund(address, ether)

    def mine(self, blocks: int = 1) -> None:
        self.truth.mine(blocks)

    def close(self) -> None:
        """Nothing to end."""


def logs_of(receipt: bytes) -> list[list[Any]]:
    """The logs of an EIP-2718 receipt as [address, topics, data]."""
    return rlp.decode(receipt[1:] if receipt[0] < 0x80 else receipt)[3]


def with_logs(receipt: bytes, logs: list[list[Any]]) -> bytes:
    """The receipt with other logs, and the bloom that fits."""
    kind = receipt[:1] if receipt[0] < 0x80 else b""
    fields = rlp.decode(receipt[len(kind) :])
    fields[2], fields[3] = bloom(logs), logs
    return kind + rlp.encode(fields)


def receipt_of(logs: list[list[Any]]) -> bytes:
    """A receipt of type 2 that took effect."""
    return b"\2" + rlp.encode([1, 100_000, bloom(logs), logs])


def bloom(logs: list[list[Any]]) -> bytes:
    found = BloomFilter()
    for address, topics, _ in logs:
        found.add(address)
        for topic in topics:
            found.add(topic)
    return int(found).to_bytes(256, "big")
