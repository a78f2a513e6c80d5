"""Time on a chain while nobody has anything to do: blocks are asked for, or it is said that there are none."""

from fedgrove.chain.errors import ChainError
from fedgrove.chain.network.access import Network
from fedgrove.chain.network.standstill import Standstill

BLOCK_SECONDS = 1.0
"""After this long without a block a practice node is asked for one."""


class PassingTime:
    """What a service does between two blocks.

    Windows end by blocks, and a practice node may make one for each transaction only: without somebody who asks for
    more, a member that hangs would hold its round for ever.

    Parameters
    ----------
    network : Network
        The chain.
    asks : bool
        Ask a practice node for blocks; one service of a federation does, so that time passes for all at one pace.
    """

    def __init__(self, network: Network, asks: bool) -> None:
        self._network = network
        self._asks = asks and network.can_mine
        self._standstill = Standstill(network)
        self._refused_at = -1

    def note(self, block: int) -> str:
        """Take in the latest block; what people should be warned of, or nothing.

        That a node refuses to make blocks is said once a block: one that only claims to be for practice does for ever.
        """
        warning = self._standstill.note(block)
        if self._asks and self._standstill.seconds >= BLOCK_SECONDS:
            try:
                self._network.mine(1)
            except ChainError as fault:
                first, self._refused_at = block != self._refused_at, block
                return warning or (str(fault) if first else "")
        return warning
