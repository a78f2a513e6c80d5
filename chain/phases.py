"""The windows of a round as pure functions of block numbers, the same arithmetic as in TrainingLedger.sol."""

from dataclasses import dataclass

from fedgrove.chain.deployment import Settings


@dataclass(frozen=True)
class Deadlines:
    """Block numbers of one round. Each ``…_end`` is the last block in which that phase accepts a record.

    The order can be sealed once ``order_block`` is past, whose randomness orders the drawn clients.
    """

    opened_at: int
    seed_block: int
    draw_end: int
    order_block: int
    seal_end: int
    share_end: int
    commit_end: int
    recover_end: int
    close_end: int

    @classmethod
    def of(cls, opened_at: int, settings: Settings) -> "Deadlines":
        """Compute the windows of a round that was opened in block ``opened_at``."""
        seed_block = opened_at + settings.seed_delay
        draw_end = seed_block + settings.draw_window
        order_block = draw_end + settings.order_delay
        seal_end = order_block + settings.seal_window
        share_end = seal_end + settings.share_window
        commit_end = share_end + settings.commit_window
        recover_end = commit_end + settings.recover_window
        close_end = recover_end + settings.close_window
        return cls(
            opened_at, seed_block, draw_end, order_block, seal_end, share_end, commit_end, recover_end, close_end
        )
