"""An index of the logs of some contracts, filled block by block, so that no block is read twice."""

import threading
from typing import TYPE_CHECKING

from chain.errors import ConnectionFailed
from chain.events import decode_from
from chain.records import Record

if TYPE_CHECKING:
    from chain.access import Network

CHECKPOINTS = 128
READINGS = 5


class LogIndex:
    """Decoded records of a registry and a ledger, up to the latest block; shared by all facades on one network.

    Records of blocks that the chain abandoned are dropped and read again: the hash of the last block of each reading is
    kept, and a reading starts where the chain still agrees. A node that is merely a few blocks behind the one asked
    before (``Network.head_tolerance``) abandons nothing.

    Parameters
    ----------
    addresses : tuple of str
        Registry and ledger, checksummed.
    first_block : int
        Nothing is read below it.
    """

    def __init__(self, network: "Network", addresses: tuple[str, ...], first_block: int) -> None:
        self._network = network
        self._registry, self._ledger = addresses
        self._first = first_block
        self._records: list[Record] = []
        self._checkpoints: list[tuple[int, bytes]] = []
        self._lock = threading.Lock()

    def records(self) -> list[Record]:
        """All records up to the latest block, in the order of the chain; the list is the caller's own.

        Raises
        ------
        InvalidLog
            One of the two contracts emitted what no fedgrove contract emits.
        ConnectionFailed
            No node answers, or the chain abandons blocks faster than they can be read.
        """
        with self._lock:
            for _ in range(READINGS):
                if self._read_on():
                    return list(self._records)
        raise ConnectionFailed(f"The chain changed under {READINGS} readings in a row; try again when it has settled.")

    def _read_on(self) -> bool:
        """Read what is new; False when blocks were abandoned meanwhile, so that what was read may be of two chains."""
        latest = self._network.block_number()
        self._drop_abandoned(latest)
        start = self._checkpoints[-1][0] + 1 if self._checkpoints else self._first
        if latest < start:
            return True
        block_hash = self._network.block_hash(latest)
        logs = self._network.logs(start, latest, (self._registry, self._ledger))
        before = self._checkpoints[-1:]
        if not all(self._is_canonical(*checkpoint) for checkpoint in [*before, (latest, block_hash)]):
            return False
        self._records += [decode_from(log, self._registry, self._ledger) for log in logs]
        self._checkpoints = [*self._checkpoints[1 - CHECKPOINTS :], (latest, block_hash)]
        return True

    def forget(self) -> None:
        """Drop every record, to read them anew."""
        with self._lock:
            self._records, self._checkpoints = [], []

    def _drop_abandoned(self, latest: int) -> None:
        if self._is_a_little_behind(latest):
            return
        while self._checkpoints and not (
            self._checkpoints[-1][0] <= latest and self._is_canonical(*self._checkpoints[-1])
        ):
            self._checkpoints.pop()
            kept = self._checkpoints[-1][0] if self._checkpoints else self._first - 1
            self._records = [record for record in self._records if record.at.block <= kept]

    def _is_a_little_behind(self, latest: int) -> bool:
        """Whether the node asked now may merely not have the last blocks yet, as nothing it has contradicts them."""
        if not self._checkpoints or not 0 < self._checkpoints[-1][0] - latest <= self._network.head_tolerance:
            return False
        shared = [checkpoint for checkpoint in self._checkpoints if checkpoint[0] <= latest]
        return not shared or self._is_canonical(*shared[-1])

    def _is_canonical(self, number: int, block_hash: bytes) -> bool:
        return self._network.block_hash(number) == block_hash
