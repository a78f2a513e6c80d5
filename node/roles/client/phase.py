"""In which phase a running round is for a client: a pure function of the ledger and the block."""

from enum import Enum

from fedgrove.chain.phases import Deadlines
from fedgrove.node.protocol.rounds import RoundRecords


class Phase(Enum):
    """What a client is to do in a running round; a file of this package for each."""

    DRAW = "draw"
    SEAL = "seal"
    SHARE = "share"
    COMMIT = "commit"
    PUBLISH = "publish"
    RECOVER = "recover"


def phase_of(entry: RoundRecords, deadlines: Deadlines, block: int, client: int) -> Phase:
    """The phase of a running round for one client.

    It depends on what the client has done, not on the clock alone: a client that is late goes straight to ``RECOVER``,
    where it still helps others to recover.

    Parameters
    ----------
    entry : RoundRecords
        The round; it has not ended.
    deadlines : Deadlines
        Its windows.
    block : int
        The last confirmed block.
    client : int
        Index of the client.
    """
    if client not in entry.draws:
        return Phase.DRAW
    if entry.sealed is None:
        return Phase.SEAL
    if client not in entry.shares and block < deadlines.share_end:
        return Phase.SHARE
    if client in entry.commits:
        return Phase.PUBLISH
    if client in entry.shares and block < deadlines.commit_end:
        return Phase.COMMIT
    return Phase.RECOVER
