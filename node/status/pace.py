"""When a block is to be expected, judged by how fast the latest ones came."""

from dataclasses import dataclass

from fedgrove.chain.network.access import Network

BLOCKS = 32
STALLED_BLOCKS = 10
STALLED_SECONDS = 30.0


@dataclass(frozen=True)
class Pace:
    """The latest block, when it was made (seconds since 1970), and the mean seconds between the latest blocks."""

    block: int
    time: int
    seconds: float

    def expected(self, block: int, now: float) -> float | None:
        """About when a later block will be made, in seconds since 1970; None when the chain has stopped by ``now``."""
        if now - self.time > max(STALLED_SECONDS, STALLED_BLOCKS * self.seconds):
            return None
        return max(now, self.time + (block - self.block) * self.seconds)


def pace(network: Network) -> Pace | None:
    """How fast the chain makes blocks; None when it makes them on demand, or has too few to tell."""
    block = network.block_number()
    first = max(1, block - BLOCKS)  # a first block may bear any time
    if network.can_mine or first >= block:
        return None
    time = network.block_time(block)
    seconds = (time - network.block_time(first)) / (block - first)
    return Pace(block, time, seconds) if seconds > 0 else None
