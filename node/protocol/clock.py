"""The phase of a round: a function of what is on record and of a block number, the same as in ``RoundClock.sol``."""

from fedgrove.chain.records import Closed, Failed, Phase, Skipped
from fedgrove.chain.records.deployment import LedgerSettings
from fedgrove.chain.records.phases import Deadlines
from fedgrove.node.protocol.rounds import RoundRecords

IN_FORCE = {Closed: Phase.CLOSED, Skipped: Phase.SKIPPED, Failed: Phase.FAILED}


def phase_of(current: RoundRecords, deadlines: Deadlines, block: int) -> Phase:
    """The phase in which a transaction of this block finds a round.

    Parameters
    ----------
    current : RoundRecords
        The round, with its records before that transaction.
    deadlines : Deadlines
        Its windows.
    block : int
        A role that has seen block b acts in block b + 1 at the earliest.
    """
    if current.voided is not None:
        return Phase.VOIDED
    if current.end is not None:
        return IN_FORCE[type(current.end)]
    if current.sealed is None:
        return _before_order(current, deadlines, block)
    if block <= deadlines.share_end:
        return Phase.SHARE
    if block <= deadlines.commit_end:
        return Phase.COMMIT
    if block <= deadlines.vouch_end:
        return Phase.VOUCH
    if block <= deadlines.affirm_end:
        return Phase.AFFIRM
    return Phase.RECOVER if block <= deadlines.close_end else Phase.OVERDUE


def _before_order(current: RoundRecords, deadlines: Deadlines, block: int) -> Phase:
    if block <= deadlines.seed_block:
        return Phase.SEEDING
    if current.draw_end is None and block <= deadlines.draw_end:
        return Phase.DRAW
    return Phase.SEAL if block <= deadlines.seal_end else Phase.OVERDUE


def coordinator_turn(current: RoundRecords, deadlines: Deadlines, settings: LedgerSettings) -> tuple[int, int]:
    """From which block on the coordinator is due, and how many blocks it may take; others may after its grace."""
    if current.end is not None:
        return (current.voided or current.end).at.block, settings.recover_window
    if current.sealed is None:
        ended = current.draw_end is not None  # with everybody in, or late with a quorum
        return deadlines.draw_end if ended else draw_window_end(current, settings), settings.seal_window
    return deadlines.affirm_end, settings.recover_window


def slot_ends(slots: int, share_end: int, commit_end: int) -> list[int]:
    """The blocks after which clients commit (``federation.commit_slots``); none where they commit once they are ready.

    Behind the last slot there is as much of the window left as a slot has, for the transactions.
    """
    window = commit_end - share_end
    return [share_end + slot * window // (slots + 1) for slot in range(1, slots + 1)]


def draw_window_end(current: RoundRecords, settings: LedgerSettings) -> int:
    """The block with which a round's draws end, but where all members draw and fewer did than the quorum."""
    return current.opened.opened_at + settings.seed_delay + settings.draw_window
