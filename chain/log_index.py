"""An index of the logs of some contracts, filled block by block, so that no block is read twice."""

import threading
from typing import TYPE_CHECKING

from chain.events import decode_from
from chain.records import Record

if TYPE_CHECKING:
    from chain.access import Network

CHECKPOINTS = 128


class LogIndex:
    """Decoded records of a registry and a ledger, up to the latest block; shared by all facades on one network.

    Records of blocks that the chain abandoned are dropped and read again: the hash of the last block of each reading is
    kept, and a reading starts where the chain still agrees.

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
        """
        with self._lock:
            self._drop_abandoned()
            latest = self._network.block_number()
            start = self._checkpoints[-1][0] + 1 if self._checkpoints else self._first
            if latest >= start:
                block_hash = self._network.block_hash(latest)
                logs = self._network.logs(start, latest, (self._registry, self._ledger))
                self._records += [decode_from(log, self._registry, self._ledger) for log in logs]
                self._checkpoints = [*self._checkpoints[1 - CHECKPOINTS :], (latest, block_hash)]
            return list(self._records)

    def _drop_abandoned(self) -> None:
        latest = self._network.block_number()
        while self._checkpoints and not self._is_canonical(*self._checkpoints[-1], latest):
            self._checkpoints.pop()
            kept = self._checkpoints[-1][0] if self._checkpoints else self._first - 1
            self._records = [record for record in self._records if record.at.block <= kept]

    def _is_canonical(self, number: int, block_hash: bytes, latest: int) -> bool:
        return number <= latest and self._network.block_hash(number) == block_hash
