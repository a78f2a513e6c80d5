"""In which phase a round is for a coordinator: a pure function of the ledger and the block."""

from enum import Enum

from fedgrove.chain.phases import Deadlines
from fedgrove.node.protocol.rounds import RoundRecords


class Phase(Enum):
    """What a coordinator is to do once there is a round."""

    REPORT = "report"
    OPEN = "open"
    SEAL = "seal"
    SHARE = "share"
    COMMIT = "commit"
    RECOVER = "recover"
    CLOSE = "close"
    OVERDUE = "overdue"


def phase_of(entry: RoundRecords, deadlines: Deadlines, block: int) -> Phase:
    """The phase of the latest round; ``OPEN`` follows ``REPORT`` when there is nothing to report.

    Parameters
    ----------
    entry : RoundRecords
        The latest round.
    deadlines : Deadlines
        Its windows.
    block : int
        The last confirmed block.
    """
    if entry.end is not None:
        return Phase.REPORT
    if entry.sealed is None:
        return Phase.SEAL if block < deadlines.seal_end else Phase.OVERDUE
    if entry.recovered is not None:
        return Phase.CLOSE if block < deadlines.close_end else Phase.OVERDUE
    if block < deadlines.share_end:
        return Phase.SHARE
    if block < deadlines.commit_end:
        return Phase.COMMIT
    return Phase.RECOVER if block < deadlines.recover_end else Phase.OVERDUE
