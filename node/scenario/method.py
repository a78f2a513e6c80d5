"""What a scenario says of the method that its rounds compute: one table, in one class for each method."""

from dataclasses import dataclass, fields
from typing import ClassVar

from fedgrove.common.settings import Settings
from fedgrove.node.base.nested_tables import Tables
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.methods.training.terms import TrainingTerms
from fedgrove.node.protocol.terms import MethodTerms

NOBODY = "0x" + 40 * "0"
"""In place of the coordinator's account, where it does not matter whose it is."""


class MethodChoice(Settings):
    """Base of a method's table in a scenario, a frozen dataclass.

    Attributes
    ----------
    name : str
        Of the method, and of its table.
    meaning : str
        What it computes, in a few words, for the help of commands.
    stated : str
        A key of the table that only a federation's own file has; empty where another table shows the same.
    trains : bool
        Clients train a shipped network or a task.
    several : bool
        They train several models, each of them some clients.
    on_request : bool
        Rounds are held when members ask for one, not one after the other.
    unsimulated : str
        Why ``fedgrove simulate`` does not run it, behind its name; of a method that it runs nobody asks.
    """

    name: ClassVar[str]
    meaning: ClassVar[str]
    stated: ClassVar[str] = ""
    trains: ClassVar[bool] = True
    several: ClassVar[bool] = False
    on_request: ClassVar[bool] = False
    unsimulated: ClassVar[str] = "has no simulation"

    @classmethod
    def suited(cls, tables: Tables) -> Tables:
        """What suits the method where a scenario leaves keys out; its ``tables`` are not checked yet."""
        return {}

    @classmethod
    def of_terms(cls, table: Tables) -> Tables:
        """The table in that of a federation's terms; raises InvalidConfig where a scenario cannot say the same."""
        known = {item.name for item in fields(cls)}  # pyright: ignore[reportArgumentType] (each kind is a dataclass)
        return {key: value for key, value in table.items() if key in known}

    def terms(self, counter: bytes, signer: str) -> MethodTerms:
        """The table of a federation's terms, where it follows from the scenario alone.

        Parameters
        ----------
        counter, signer : bytes, str
            The coordinator's mailbox key and account.

        Raises
        ------
        InvalidConfig
            No federation has the method.
        """
        raise InvalidConfig(f"method must be one of a federation: {self.name} is simulated only")

    @property
    def first_rounds(self) -> int:
        """Rounds of a federation before the first that trains."""
        return 0

    def comparisons(self, clients: int) -> int:
        """Private comparisons of two clients' data before the first round."""
        return 0

    def first_stage(self, rounds: int) -> int:
        """Rounds, of all, that train one model for everybody before there are several."""
        return 0


@dataclass(frozen=True)
class TrainingChoice(MethodChoice):
    """One model for everybody; it has no table of its own."""

    name: ClassVar[str] = "training"
    meaning: ClassVar[str] = "one model"

    def terms(self, counter: bytes, signer: str) -> TrainingTerms:
        return TrainingTerms()
