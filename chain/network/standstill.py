"""Noticing that a chain makes no blocks: whoever waits for one says so, and what to do."""

import time
from collections.abc import Callable

from fedgrove.chain.network.access import Network

STANDSTILL_SECONDS = 60.0


class Standstill:
    """Follows the height of a chain for one who waits.

    Parameters
    ----------
    network : Network
        Which says what to do.
    clock : callable
        Seconds on any clock that never goes back.
    """

    def __init__(self, network: Network, clock: Callable[[], float] = time.monotonic) -> None:
        self._network, self._clock = network, clock
        self._block = -1
        self._since = clock()
        self._reported = False

    @property
    def seconds(self) -> float:
        """Time since the latest block was first noted."""
        return self._clock() - self._since

    def note(self, block: int) -> str:
        """Take in the latest block; one sentence a minute after the last new one; otherwise nothing."""
        if block > self._block:
            self._block, self._since, self._reported = block, self._clock(), False
        if self._reported or self.seconds < STANDSTILL_SECONDS:
            return ""
        self._reported = True
        return standstill(self._network, block, self.seconds)


def standstill(network: Network, block: int, seconds: float) -> str:
    """That a chain has made no block for so long, and what to do."""
    return f"the chain has made no block for {seconds:.0f} s (it is at block {block}): {network.without_blocks}"


def stopped(network: Network, now: float) -> str:
    """That a chain makes no blocks, by the time in its latest one; empty where it does, or makes them on demand.

    ``now`` is in seconds since 1970.
    """
    block = network.block_number()
    age = now - network.block_time(block)
    return "" if network.can_mine or age < STANDSTILL_SECONDS else standstill(network, block, age)
