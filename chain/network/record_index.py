"""Common part of all record indexes: they grow with the chain, and each block is read once."""

import threading
from abc import ABC, abstractmethod

from fedgrove.chain.errors import BadHistory
from fedgrove.chain.network.access import Network
from fedgrove.chain.records import Record
from fedgrove.chain.records.deployment import Deployment

READINGS = 5


class RecordIndex(ABC):
    """Records of a federation up to the latest block; shared by all facades on one network.

    Blocks that the chain abandoned are dropped and read again, from where the chain still agrees. A node that is merely
    a few blocks behind the one asked before (``Network.head_tolerance``) abandons nothing.
    """

    def __init__(self, network: Network, deployment: Deployment) -> None:
        self._network = network
        self._deployment = deployment
        self._records: list[Record] = []
        self._lock = threading.Lock()

    def records(self) -> list[Record]:
        """All records up to the latest block, in the order of the chain; the list is the caller's own.

        Raises
        ------
        BadHistory
            What the endpoints deliver does not hold together, or a record does not follow from its transaction,
            ``READINGS`` times in a row: a chain that changes while it is read looks like that once.
        ConnectionFailed
            No node answers, or too few of them agree.
        """
        with self._lock:
            for remaining in reversed(range(READINGS)):
                try:
                    self._read_on()
                    break
                except BadHistory as fault:
                    self._network.distrust(str(fault))
                    if not remaining:
                        raise
            return list(self._records)

    @property
    @abstractmethod
    def head(self) -> int:
        """The last block read; one below the first before anything is read."""

    @property
    @abstractmethod
    def head_hash(self) -> bytes:
        """Hash of the last block read, 32 bytes; empty before anything is read."""

    @abstractmethod
    def block_hash(self, number: int) -> bytes:
        """Hash of a block that was read, 32 bytes; raises BadHistory for any other."""

    @abstractmethod
    def randomness(self, number: int) -> bytes:
        """The RANDAO mix in the header of a block that was read, 32 bytes; raises BadHistory for any other."""

    def forget(self) -> None:
        """Drop every block, to read them again."""
        with self._lock:
            self._keep(self._deployment.block - 1)

    @abstractmethod
    def _read_on(self) -> None:
        """Read what is new, up to the block on which the endpoints agree; raises BadHistory for what does not hold."""

    @abstractmethod
    def _keep(self, last: int) -> None:
        """Forget the blocks after this one."""

    def _keep_records(self, last: int) -> None:
        while self._records and self._records[-1].at.block > last:
            self._records.pop()

    def _check_read(self, number: int) -> None:
        if not self._deployment.block <= number <= self.head:
            raise BadHistory(number, f"it is not among blocks {self._deployment.block} to {self.head}")

    def _is_behind(self, latest: int) -> bool:
        """Whether a node whose latest block is known already is only a little behind, or has nothing new."""
        return self.head - latest <= self._network.head_tolerance
