"""In which phase a round is for a coordinator: a pure function of the ledger and the block."""

from enum import Enum

from fedgrove.chain.phases import Deadlines
from fedgrove.node.protocol.rounds import RoundRecords


class CoordinatorPhase(Enum):
    """A coordinator's phases once there is a round."""

    REPORT = "report"
    OPEN = "open"
    SEAL = "seal"
    SHARE = "share"
    COMMIT = "commit"
    RECOVER = "recover"
    CLOSE = "close"
    OVERDUE = "overdue"


def phase_of(current: RoundRecords, deadlines: Deadlines, block: int) -> CoordinatorPhase:
    """The phase of the latest round; ``OPEN`` follows ``REPORT`` when there is nothing to report.

    Parameters
    ----------
    current : RoundRecords
        The latest round.
    deadlines : Deadlines
        Its windows.
    block : int
        The last confirmed block.
    """
    if current.end is not None:
        return CoordinatorPhase.REPORT
    if current.sealed is None:
        return CoordinatorPhase.SEAL if block < deadlines.seal_end else CoordinatorPhase.OVERDUE
    if current.recovered is not None:
        return CoordinatorPhase.CLOSE if block < deadlines.close_end else CoordinatorPhase.OVERDUE
    if block < deadlines.share_end:
        return CoordinatorPhase.SHARE
    if block < deadlines.commit_end:
        return CoordinatorPhase.COMMIT
    return CoordinatorPhase.RECOVER if block < deadlines.recover_end else CoordinatorPhase.OVERDUE
