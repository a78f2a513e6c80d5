"""What a client computes in a round, and how that fails."""

from typing import Protocol, TypeVar

from fedgrove.node.protocol.rounds import RoundRecords

UpdateT_co = TypeVar("UpdateT_co", covariant=True)


class CannotTakePart(RuntimeError):
    """The client has nothing to upload in this round; the message says why."""


class Diverged(CannotTakePart):
    """Training left the numbers."""


class StateLost(RuntimeError):
    """What the strategy kept after an earlier round cannot be read; it has been removed."""


class LocalWork(Protocol[UpdateT_co]):
    """A client's own part of every round."""

    def samples(self, current: RoundRecords, client: int) -> int:
        """How many samples the client states when it draws.

        Raises
        ------
        CannotTakePart
        """
        ...

    def result(self, current: RoundRecords, client: int) -> UpdateT_co | None:
        """What it computed in a round; None while that is under way.

        Raises
        ------
        CannotTakePart, StateLost, InvalidModel
        """
        ...

    def settle(self, client: int) -> None:
        """Destroy what the ledger shows that no later round can ask for.

        Raises
        ------
        StoreError, InvalidModel, InvalidBlob
            What the last round left cannot be read.
        """
        ...

    def leave(self) -> None:
        """Destroy what is kept for later rounds: there will be none."""
        ...
