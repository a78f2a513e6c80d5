"""Skips the blocks in which everybody would only wait, on a chain of one's own that makes blocks at an interval.

Windows can so be long enough for the slowest machine, and rounds as short as the work in them. On any other chain time
passes as it does.
"""

from fedgrove.chain.access import Network
from fedgrove.chain.ledger import Ledger
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.rounds import RoundRecords


class Pacer:
    """Mines on to the end of a phase in which everyone has acted.

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
        deadlines, block = self._view.deadlines(current), self._view.block
        if block < deadlines.seed_block:
            return deadlines.seed_block
        if current.sealed is None:
            rounds = self._view.rounds
            active = (m.client for m in rounds.members.values() if m.active_from <= deadlines.opened_at)
            eligible = (client for client in active if not rounds.left(client))
            return deadlines.order_block + 1 if all(client in current.draws for client in eligible) else 0
        if block < deadlines.share_end:
            return deadlines.share_end if current.shares.keys() >= current.draws.keys() else 0
        return deadlines.commit_end if current.commits.keys() >= current.shares.keys() else 0
