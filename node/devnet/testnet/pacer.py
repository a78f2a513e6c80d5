"""Skips the blocks whose hashes seed and order a round, on a chain of one's own that makes blocks at an interval.

Nobody has anything to do in them. On any other chain time passes as it does.
"""

from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.network.access import Network
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.rounds import RoundRecords


class Pacer:
    """Mines on to the block for which everybody waits.

    Parameters
    ----------
    network : Network
        A test node: it must take orders to mine.
    ledger : Ledger
        Whose rounds are hurried.
    """

    def __init__(self, network: Network, ledger: Ledger) -> None:
        self._network = network
        self._view = LedgerView(ledger)

    def step(self) -> int:
        """Skip what can be skipped; returns the number of blocks."""
        current = self._view.refresh()
        blocks = self._until(current) - self._view.block if current is not None and current.end is None else 0
        if blocks > 0:
            self._network.mine(blocks)
        return max(0, blocks)

    def _until(self, current: RoundRecords) -> int:
        """The last block for which nobody has anything to do; 0 when somebody has."""
        deadlines = self._view.deadlines(current)
        if self._view.block < deadlines.seed_block:
            return deadlines.seed_block
        return deadlines.order_block if current.draw_end is not None and current.sealed is None else 0
