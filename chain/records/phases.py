"""The phases of a round as a pure function of block numbers, the same arithmetic as in RoundClock.sol."""

from dataclasses import dataclass

from fedgrove.chain.records.base import Phase
from fedgrove.chain.records.deployment import LedgerSettings

LONGEST_DRAW = (1 << 19) - 1
"""Blocks after its opening at which a round of all members stops waiting for its quorum."""
NEVER = (1 << 64) - 1
"""The last block of what the clock does not end."""


@dataclass(frozen=True)
class Ends:
    """Recorded ends of a round's phases as block numbers; 0: none so far.

    Draw, share, commit, vouch and affirm end with the block in which the last of those acts who may, where nobody is
    missing; the seal phase with the order. Draws that waited for the quorum end with the one that reaches it. ``stage``
    is the block in which the latest stage of releases began, 0 in the first.
    """

    draw: int = 0
    seal: int = 0
    share: int = 0
    commit: int = 0
    vouch: int = 0
    affirm: int = 0
    stage: int = 0


@dataclass(frozen=True)
class Deadlines:
    """Block numbers of one round. Each ``…_end`` is the last block in which that phase accepts a record.

    The order can be sealed once ``order_block`` is past, whose randomness orders the drawn clients. Where updates are
    bounded, members can vouch once ``sketch_block`` is past, whose hash their sketch follows from; else that, like
    ``vouch_end`` and ``affirm_end``, is ``commit_end``: ``affirm_end`` is what the recovery begins after in any case.
    ``recover_end`` is the end of the window of the latest stage of releases. The round can be closed until
    ``close_end``: this is the same or, once enough have released in a round with bounds, NEVER.
    """

    opened_at: int
    seed_block: int
    draw_end: int
    order_block: int
    seal_end: int
    share_end: int
    commit_end: int
    sketch_block: int
    vouch_end: int
    affirm_end: int
    recover_end: int
    close_end: int

    @classmethod
    def of(
        cls, opened_at: int, settings: LedgerSettings, ends: Ends, waits: bool = False, released: int = 0
    ) -> "Deadlines":
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
        released : int
            How many have released shares in the first stage.
        """
        seed_block = opened_at + settings.seed_delay
        window_end = opened_at + LONGEST_DRAW if waits else seed_block + settings.draw_window
        draw_end = ends.draw or window_end
        order_block = draw_end + settings.order_delay
        seal_end = ends.seal or order_block + settings.seal_window
        share_end = ends.share or seal_end + settings.share_window
        commit_end = ends.commit or share_end + settings.commit_window
        sketch_block = commit_end + (settings.order_delay if settings.is_bounded else 0)
        vouch_end = ends.vouch or sketch_block + settings.vouch_window
        affirm_end = ends.affirm or vouch_end + settings.affirm_window
        recover_end = (ends.stage or affirm_end) + settings.recover_window
        may_be_open = settings.is_bounded and released >= settings.releases
        return cls(
            opened_at=opened_at,
            seed_block=seed_block,
            draw_end=draw_end,
            order_block=order_block,
            seal_end=seal_end,
            share_end=share_end,
            commit_end=commit_end,
            sketch_block=sketch_block,
            vouch_end=vouch_end,
            affirm_end=affirm_end,
            recover_end=recover_end,
            close_end=NEVER if may_be_open else recover_end,
        )

    def last_block(self, phase: Phase) -> int:
        """The last block in which a transaction finds the round in a phase; 0 for a phase without an end."""
        windows = {
            Phase.SEEDING: self.seed_block,
            Phase.DRAW: self.draw_end,
            Phase.SEAL: self.seal_end,
            Phase.SHARE: self.share_end,
            Phase.COMMIT: self.commit_end,
            Phase.VOUCH: self.vouch_end,
            Phase.AFFIRM: self.affirm_end,
            Phase.RECOVER: self.close_end if self.close_end != NEVER else 0,
        }
        return windows.get(phase, 0)
