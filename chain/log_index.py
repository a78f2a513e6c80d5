"""A federation's records, read block by block with the proofs that they are the chain's; no block is read twice.

Nothing that an endpoint says is believed beyond the hash of the latest block, on which ``Network.agreed_head`` wants
several endpoints to agree: headers must link up to that hash, and every record must follow from the roots in its
header, and from a transaction that its author signed (``chain.blocks``).
"""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from eth_utils import keccak

from chain.blocks import (
    MIX_FIELD,
    BadHistory,
    Block,
    addresses_of,
    check_block,
    header_fields,
    may_hold_records,
    records_of,
)
from chain.deployment import Deployment
from chain.errors import ConnectionFailed
from chain.records import Record

if TYPE_CHECKING:
    from chain.access import Network

READINGS = 5
HEADERS_AT_ONCE = 500
_HASH = 32


class LogIndex:
    """Proven records of a federation, up to the latest block; shared by all facades on one network.

    Blocks that the chain abandoned are dropped and read again, from where the chain still agrees. A node that is merely
    a few blocks behind the one asked before (``Network.head_tolerance``) abandons nothing.
    """

    def __init__(self, network: "Network", deployment: Deployment) -> None:
        self._network = network
        self._deployment = deployment
        self._addresses = addresses_of(deployment)
        self._hashes = bytearray()  # 32 bytes a block, and its RANDAO mix beside it
        self._mixes = bytearray()
        self._records: list[Record] = []
        self._lock = threading.Lock()

    def records(self) -> list[Record]:
        """All records up to the latest block, in the order of the chain; the list is the caller's own.

        Raises
        ------
        BadHistory
            What the endpoint delivers does not hold together, or a record does not follow from its transaction.
        ConnectionFailed
            No node answers, or the chain abandons blocks faster than they can be read.
        """
        with self._lock:
            for _ in range(READINGS):
                try:
                    if self._read_on():
                        return list(self._records)
                except BadHistory as fault:
                    self._network.distrust(str(fault))
                    raise
        raise ConnectionFailed(f"The chain changed under {READINGS} readings in a row; try again when it has settled.")

    @property
    def head(self) -> int:
        """The last block read; one below the first before anything is read."""
        return self._deployment.block + len(self._hashes) // _HASH - 1

    @property
    def head_hash(self) -> bytes:
        """Hash of the last block read, 32 bytes; empty before anything is read."""
        return bytes(self._hashes[-_HASH:])

    def block_hash(self, number: int) -> bytes:
        """Hash of a block that was read, 32 bytes; raises BadHistory for any other."""
        return self._word(self._hashes, number)

    def randomness(self, number: int) -> bytes:
        """The RANDAO mix in the header of a block that was read, 32 bytes; raises BadHistory for any other."""
        return self._word(self._mixes, number)

    def forget(self) -> None:
        """Drop every block, to read them anew."""
        with self._lock:
            self._keep(self._deployment.block - 1)

    def _read_on(self) -> bool:
        """Read what is new; False when blocks were abandoned meanwhile, so that what was read may be of two chains."""
        latest, latest_hash = self._network.agreed_head()
        if not self._drop_abandoned(latest, latest_hash):
            return True
        start = self.head + 1
        if latest < start:
            return True
        for first in range(start, latest + 1, HEADERS_AT_ONCE):
            last = min(latest, first + HEADERS_AT_ONCE - 1)
            headers = self._network.headers(first, last)
            if last == latest and keccak(headers[-1]) != latest_hash:
                return False
            blocks = read_blocks(self._network, self._deployment, headers, first)
            if first > self._deployment.block and not self._follows(blocks[0], first):
                return False  # the chain abandoned the blocks before since they were read
            self._add(blocks, first)
        return True

    def _follows(self, block: Block, number: int) -> bool:
        return header_fields(number, block.header)[0] == self._word(self._hashes, number - 1)

    def _add(self, blocks: Sequence[Block], first: int) -> None:
        """Check blocks and take them in; what was taken in before an error stays."""
        for number, block in enumerate(blocks, first):
            parent = self._word(self._hashes, number - 1) if number > self._deployment.block else None
            check_block(number, block, parent, self._addresses)
            records = records_of(number, block.body, self._deployment) if block.body is not None else []
            self._records += records
            self._hashes += block.hash
            self._mixes += header_fields(number, block.header)[MIX_FIELD].rjust(_HASH, b"\0")

    def _drop_abandoned(self, latest: int, latest_hash: bytes) -> bool:
        """Drop the blocks that the chain no longer has; False when there is nothing new, as the node is only behind."""
        head = self.head
        if head < self._deployment.block:
            return True
        if latest <= head and self._knows(latest, latest_hash):
            behind = head - latest
            if not behind or behind <= self._network.head_tolerance:
                return False
            self._keep(latest)
            return True
        common = min(head, latest)
        while common >= self._deployment.block and not self._knows(common, self._network.block_hash(common)):
            common -= 1
        self._keep(common)
        return True

    def _knows(self, number: int, block_hash: bytes) -> bool:
        return number < self._deployment.block or self._word(self._hashes, number) == block_hash

    def _keep(self, last: int) -> None:
        """Forget the blocks after this one."""
        size = max(0, (last + 1 - self._deployment.block) * _HASH)
        del self._hashes[size:], self._mixes[size:]
        self._records = [record for record in self._records if record.at.block <= last]

    def _word(self, words: bytearray, number: int) -> bytes:
        if not self._deployment.block <= number <= self.head:
            raise BadHistory(number, f"it is not among blocks {self._deployment.block} to {self.head}")
        start = (number - self._deployment.block) * _HASH
        return bytes(words[start : start + _HASH])


def read_blocks(network: "Network", deployment: Deployment, headers: Sequence[bytes], first: int) -> tuple[Block, ...]:
    """Blocks with these headers, from number ``first`` on, and the bodies of those that may hold records; unchecked."""
    addresses = addresses_of(deployment)
    numbered = list(enumerate(headers, first))
    wanted = [number for number, header in numbered if may_hold_records(number, header, addresses)]
    bodies = dict(zip(wanted, network.bodies(wanted), strict=True)) if wanted else {}
    return tuple(Block(header, keccak(header), bodies.get(number)) for number, header in numbered)
