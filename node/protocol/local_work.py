"""A client's own computation in a round, and its errors."""

from typing import Protocol, TypeVar

from fedgrove.common.errors import Refused
from fedgrove.node.protocol.rounds import RoundRecords

UpdateT_co = TypeVar("UpdateT_co", covariant=True)


class CannotTakePart(Refused):
    """The client has nothing to upload in this round; the message says why.

    Attributes
    ----------
    brief : str
        The same for logs, which others may read: the kind of a fault and its place, without anything that its text may
        quote of the data. The message itself where that quotes nothing.
    """

    def __init__(self, message: str, brief: str = "") -> None:
        super().__init__(message)
        self.brief = brief or message


class StateLost(Refused):
    """The strategy's state from an earlier round cannot be read and was removed."""


class BeginsAnew(Refused):
    """Training from the round's model failed, so the client turns to the first model; ``fault`` says how."""

    def __init__(self, fault: CannotTakePart) -> None:
        super().__init__(str(fault))
        self.fault = fault


class LocalWork(Protocol[UpdateT_co]):
    """A client's own part of every round."""

    def samples(self, current: RoundRecords, client: int) -> int:
        """What the client states as ``samples`` when it draws; raises CannotTakePart.

        Its own weight, which no code of a task has a say in (``node.protocol.weight``), or what else the method asks
        for.
        """
        ...

    def result(self, current: RoundRecords, client: int, last: bool = False) -> UpdateT_co | None:
        """Result of the client's computation in a round; None while it runs.

        ``last``: nobody waits for it any longer. A computation that still runs then is one that failed.

        Raises
        ------
        CannotTakePart, InvalidContent
        StateLost, BeginsAnew
            Once; asked again, it goes on.
        """
        ...

    def settle(self, client: int) -> None:
        """Destroy what the ledger shows that no later round can ask for.

        Raises
        ------
        StoreError, InvalidContent
            What the last round left cannot be read.
        """
        ...

    def leave(self) -> None:
        """Destroy what is kept for later rounds: there will be none."""
        ...
