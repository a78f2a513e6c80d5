"""A client's own computation in a round, and its errors."""

from typing import Protocol, TypeVar

from fedgrove.common.errors import Refused
from fedgrove.node.protocol.rounds import RoundRecords

UpdateT_co = TypeVar("UpdateT_co", covariant=True)


class CannotTakePart(Refused):
    """The client has nothing to upload in this round; the message says why."""


class Diverged(CannotTakePart):
    """Training left the numbers."""


class StateLost(Refused):
    """The strategy's state from an earlier round cannot be read and was removed."""


class BeginsAnew(Refused):
    """Training from the round's model failed, so the client turns to the first model; the message is the fault."""


class LocalWork(Protocol[UpdateT_co]):
    """A client's own part of every round."""

    def samples(self, current: RoundRecords, client: int) -> int:
        """How many samples the client states when it draws; raises CannotTakePart."""
        ...

    def result(self, current: RoundRecords, client: int) -> UpdateT_co | None:
        """Result of the client's computation in a round; None while it runs.

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
