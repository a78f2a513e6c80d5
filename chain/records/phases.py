"""The phases of a round as a pure function of block numbers, the same arithmetic as in RoundClock.sol."""

from dataclasses import dataclass

from fedgrove.chain.records.base import Phase
from fedgrove.chain.records.deployment import LedgerSettings

LONGEST_DRAW = (1 << 19) - 1
"""Blocks after its opening at which a round of all members stops waiting for its quorum."""


@dataclass(frozen=True)
class Ends:
    """Recorded ends of a round's phases as block numbers; 0: none so far.

    Draw, share and commit end with the block in which the last of those acts who may, where nobody is missing; the seal
    phase with the order. Draws that waited for the quorum end with the one that reaches it.
    """

    draw: int = 0
    seal: int = 0
    share: int = 0
    commit: int = 0


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

    @classmethod
    def of(cls, opened_at: int, settings: LedgerSettings, ends: Ends, waits: bool = False) -> "Deadlines":
        """Compute the ends of a round's phases: the recorded ones, else the end of the phase before and the window.

        Parameters
        ----------
        opened_at : int
            The block in which the round was opened.
        settings : LedgerSettings
            The windows, in blocks.
        ends : Ends
            What is on record of the round.
        waits : bool
            All members may draw, and fewer have than the quorum.
        """
        seed_block = opened_at + settings.seed_delay
        window_end = opened_at + LONGEST_DRAW if waits else seed_block + settings.draw_window
        draw_end = ends.draw or window_end
        order_block = draw_end + settings.order_delay
        seal_end = ends.seal or order_block + settings.seal_window
        share_end = ends.share or seal_end + settings.share_window
        commit_end = ends.commit or share_end + settings.commit_window
        recover_end = commit_end + settings.recover_window
        return cls(opened_at, seed_block, draw_end, order_block, seal_end, share_end, commit_end, recover_end)

    def last_block(self, phase: Phase) -> int:
        """The last block in which a transaction finds the round in a phase; 0 for a phase without a window."""
        windows = {
            Phase.SEEDING: self.seed_block,
            Phase.DRAW: self.draw_end,
            Phase.SEAL: self.seal_end,
            Phase.SHARE: self.share_end,
            Phase.COMMIT: self.commit_end,
            Phase.RECOVER: self.recover_end,
        }
        return windows.get(phase, 0)
