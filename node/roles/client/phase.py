"""In which phase a running round is for a client: a pure function of the ledger and the block."""

from enum import Enum

from fedgrove.chain.phases import Deadlines
from fedgrove.node.protocol.rounds import RoundRecords


class ClientPhase(Enum):
    """A client's phases in a running round; each has a file in this package."""

    DRAW = "draw"
    SEAL = "seal"
    SHARE = "share"
    COMMIT = "commit"
    PUBLISH = "publish"
    RECOVER = "recover"


def phase_of(current: RoundRecords, deadlines: Deadlines, block: int, client: int) -> ClientPhase:
    """The phase of a running round for one client.

    It depends on what the client has done, not on the clock alone: a client that is late goes straight to ``RECOVER``,
    where it still helps others to recover.

    Parameters
    ----------
    current : RoundRecords
        The round; it has not ended.
    deadlines : Deadlines
        Its windows.
    block : int
        The last confirmed block.
    client : int
        Index of the client.
    """
    if client not in current.draws:
        return ClientPhase.DRAW
    if current.sealed is None:
        return ClientPhase.SEAL
    if client not in current.shares and block < deadlines.share_end:
        return ClientPhase.SHARE
    if client in current.commits:
        return ClientPhase.PUBLISH
    if client in current.shares and block < deadlines.commit_end:
        return ClientPhase.COMMIT
    return ClientPhase.RECOVER
