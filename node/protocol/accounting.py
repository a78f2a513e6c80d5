"""Releases of a mechanism's rounds about the clients, for privacy accounting."""

from abc import ABC, abstractmethod
from typing import ClassVar

from fedgrove.node.privacy.accountant import GaussianRelease, Release
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.terms import FederationConfig


class Accounting(ABC):
    """One mechanism's releases. Stateless except for the terms.

    Attributes
    ----------
    everybody_spends : bool
        A round costs all clients the same, whoever took part.
    counts_when_opened : bool
        An upload tells nothing before holders release shares that take its masks off; else it tells when it is there.
    budget : float or None
        ε that no client may exceed; None sets no limit.
    delta : float
        δ at which every ε is stated.
    """

    everybody_spends: bool = False
    counts_when_opened: ClassVar[bool] = False
    budget: float | None = None
    delta: float = 0.0

    def __init__(self, config: FederationConfig) -> None:
        self.config = config

    @abstractmethod
    def planned_release(self, number: int, parameters: int) -> Release:
        """Expected release of a round about a client that takes part; the model has d = ``parameters``."""

    @abstractmethod
    def release(self, current: RoundRecords, parameters: int) -> Release:
        """Release of a round about a client whose upload is listed.

        Parameters
        ----------
        current : RoundRecords
            The round; its lists of shares and commitments are final.
        parameters : int
            d, of the model.
        """

    def release_to_readers(self, current: RoundRecords, parameters: int) -> Release:
        """Release of a round about a client whose upload is listed, towards readers of the ledger."""
        return self.release(current, parameters)

    def unfit(self, number: int, members: int) -> str:
        """Reason why a round with this many members breaks the accounting's assumptions, in one clause; else empty."""
        return ""

    def later_phases(self, number: int) -> tuple[int, ...]:
        """Rounds after ``number`` from which on ``planned_release`` is another."""
        return ()

    def is_summed(self, current: RoundRecords, client: int) -> bool:
        """Whether a client's upload in a sealed round is to be part of a sum, or may be of one."""
        return True


class NoMechanism(Accounting):
    """No mechanism of differential privacy: uploads, or their sums, are what they are."""

    def planned_release(self, number: int, parameters: int) -> Release:
        return GaussianRelease(0.0)

    def release(self, current: RoundRecords, parameters: int) -> Release:
        return GaussianRelease(0.0)
