"""A federation's records, read block by block with the proofs that they are the chain's.

Nothing that an endpoint says is believed beyond the hash of the latest block, on which ``Network.agreed_head`` wants
several endpoints to agree: headers must link up to that hash, and every record must follow from the roots in its
header, and from a transaction that its author signed (``chain.network.blocks``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from eth_utils import keccak

from fedgrove.chain.errors import BadHistory
from fedgrove.chain.network.access import Network
from fedgrove.chain.network.blocks import (
    MIX_FIELD,
    PARENT_FIELD,
    Block,
    addresses_of,
    check_body,
    check_header,
    header_fields,
    may_hold_records,
    records_of,
)
from fedgrove.chain.network.record_index import RecordIndex
from fedgrove.chain.records.deployment import Deployment

HEADERS_AT_ONCE = 500
BODIES_AT_ONCE = 20
FEWEST_BACK = 8
_HASH = 32


@dataclass
class Span:
    """Blocks whose headers link up: their hashes and RANDAO mixes, 32 bytes each, and who their first one's parent is.

    ``wanted`` are the headers of those that may hold records, by number; the others are not kept.
    """

    first: int
    parent: bytes
    hashes: bytearray = field(default_factory=bytearray)
    mixes: bytearray = field(default_factory=bytearray)
    wanted: dict[int, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, headers: Sequence[bytes], first: int, addresses: frozenset[bytes]) -> "Span":
        """Raises BadHistory where the headers, from number ``first`` on, do not link up."""
        span = cls(first, b"")
        for number, header in enumerate(headers, first):
            fields = check_header(number, header, span.last_hash or None)
            span.parent = span.parent or fields[PARENT_FIELD]
            span.hashes += keccak(header)
            span.mixes += fields[MIX_FIELD]
            if may_hold_records(fields, addresses):
                span.wanted[number] = header
        return span

    @property
    def last(self) -> int:
        return self.first + len(self.hashes) // _HASH - 1

    @property
    def last_hash(self) -> bytes:
        return bytes(self.hashes[-_HASH:])

    def append(self, later: "Span") -> None:
        """Add the blocks that follow; raises BadHistory when they do not."""
        if later.parent != self.last_hash:
            raise BadHistory(later.first, "its parent hash is not that of the previous block")
        self.hashes += later.hashes
        self.mixes += later.mixes
        self.wanted |= later.wanted


class LogIndex(RecordIndex):
    """Proven records; see ``RecordIndex``. Nothing enters before it is proven up to the agreed hash."""

    def __init__(self, network: Network, deployment: Deployment) -> None:
        super().__init__(network, deployment)
        self._addresses = addresses_of(deployment)
        self._hashes = bytearray()  # 32 bytes a block, and its RANDAO mix next to it
        self._mixes = bytearray()

    @property
    def head(self) -> int:
        return self._deployment.block + len(self._hashes) // _HASH - 1

    @property
    def head_hash(self) -> bytes:
        return bytes(self._hashes[-_HASH:])

    def block_hash(self, number: int) -> bytes:
        return self._word(self._hashes, number)

    def randomness(self, number: int) -> bytes:
        return self._word(self._mixes, number)

    def _read_on(self) -> None:
        latest, latest_hash = self._network.agreed_head()
        if latest < self._deployment.block:
            return
        if latest <= self.head and self._knows(latest, latest_hash):
            if not self._is_behind(latest):
                self._keep(latest)
            return
        try:
            span = self._headers(latest, latest_hash)
        except BadHistory as fault:
            if self._hashes:
                raise
            # Not one block held together: rather a chain whose headers are not Ethereum's than a lie.
            raise BadHistory(fault.block, f"{fault.what} (if every node says so, see network.proofs)") from None
        self._keep(span.first - 1)
        self._take(span)

    def _headers(self, latest: int, latest_hash: bytes) -> Span:
        """The blocks up to the agreed one, from the first that is new on."""
        span = self._span(min(self.head + 1, latest), latest)
        if span.last_hash != latest_hash:
            raise BadHistory(latest, "its header does not have the hash that the endpoints state for the block")
        back = FEWEST_BACK
        while not self._knows(span.first - 1, span.parent):
            # The chain abandoned blocks that were read, back to the last one that it has, too.
            earlier = self._span(max(self._deployment.block, span.first - back), span.first - 1)
            earlier.append(span)
            span, back = earlier, min(2 * back, HEADERS_AT_ONCE)
        return span

    def _span(self, first: int, last: int) -> Span:
        pieces = (
            Span.of(self._network.headers(start, min(last, start + HEADERS_AT_ONCE - 1)), start, self._addresses)
            for start in range(first, last + 1, HEADERS_AT_ONCE)
        )
        span = next(pieces)
        for piece in pieces:
            span.append(piece)
        if span.last != last:
            raise BadHistory(last, "the wrong number of headers was returned")
        return span

    def _take(self, span: Span) -> None:
        """Take in proven headers, and the records of their blocks; what was taken in before an error stays."""
        wanted = list(span.wanted)
        for start in range(0, len(wanted), BODIES_AT_ONCE):
            numbers = wanted[start : start + BODIES_AT_ONCE]
            for number, body in zip(numbers, self._network.bodies(numbers), strict=True):
                check_body(number, span.wanted[number], body)
                records = records_of(number, body, self._deployment)
                self._advance(span, number)
                self._records += records
        self._advance(span, span.last)

    def _advance(self, span: Span, last: int) -> None:
        start, end = ((number - span.first) * _HASH for number in (self.head + 1, last + 1))
        self._hashes += span.hashes[start:end]
        self._mixes += span.mixes[start:end]

    def _knows(self, number: int, block_hash: bytes) -> bool:
        return number < self._deployment.block or (number <= self.head and self.block_hash(number) == block_hash)

    def _keep(self, last: int) -> None:
        size = max(0, (last + 1 - self._deployment.block) * _HASH)
        del self._hashes[size:], self._mixes[size:]
        self._keep_records(last)

    def _word(self, words: bytearray, number: int) -> bytes:
        self._check_read(number)
        start = (number - self._deployment.block) * _HASH
        return bytes(words[start : start + _HASH])


def read_blocks(network: Network, deployment: Deployment, headers: Sequence[bytes], first: int) -> tuple[Block, ...]:
    """Blocks with these headers, from number ``first`` on, and the bodies of those that may hold records; unchecked."""
    addresses = addresses_of(deployment)
    numbered = list(enumerate(headers, first))
    wanted = [number for number, header in numbered if may_hold_records(header_fields(number, header), addresses)]
    bodies = dict(zip(wanted, network.bodies(wanted), strict=True)) if wanted else {}
    return tuple(Block(header, keccak(header), bodies.get(number)) for number, header in numbered)
