"""When, in the affirm phase, honest members look, object and vote: so that each can answer what others may go by."""

from dataclasses import dataclass

from fedgrove.chain.records.deployment import LedgerSettings
from fedgrove.chain.records.phases import Deadlines


@dataclass(frozen=True)
class AffirmTimes:
    """Blocks of one round.

    Attributes
    ----------
    seen : int
        Who cannot have a voucher when it looks from here on does not vote for its author, whatever comes later: whom
        that voucher contradicts may have no time left to answer.
    objects : int
        Until here a member waits for what it misses before it deposes, which it does once. Others have looked by then,
        so it knows of every voucher that they may vote for.
    deposed : int
        The last block whose depositions the verdict goes by, and only by votes that are listed later: whoever made such
        a vote saw all depositions that count.
    late : int
        Until here a member waits for the bytes of depositions before it votes.
    """

    seen: int
    objects: int
    deposed: int
    late: int

    @classmethod
    def of(cls, deadlines: Deadlines, settings: LedgerSettings) -> "AffirmTimes":
        """Those of a round with bounds."""
        start, window = deadlines.vouch_end, settings.affirm_window
        return cls(*(start + eighths * window // 8 for eighths in (2, 3, 5, 6)))
