"""Schedule of rounds: when they open, who recomputes their sums, and which model is carried forward."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic

from fedgrove.node.protocol.content import ModelT
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.protocol.terms import FederationConfig


class Schedule(Generic[ModelT]):
    """Rounds follow each other at once, without leaders, and each model is the basis of the next round.

    Attributes
    ----------
    on_request : bool
        After the first model a round is opened only when a member asks for one.
    has_leaders : bool
        Some clients repeat the sum of a closed round in any case.
    needs_coordinator : bool
        Only the coordinator can state what a round closes with, so it alone opens rounds.
    """

    on_request: ClassVar[bool] = False
    has_leaders: ClassVar[bool] = False
    needs_coordinator: ClassVar[bool] = False

    def __init__(self, config: FederationConfig) -> None:
        self.config = config

    def due(self, rounds: Rounds, model: Callable[[], ModelT], block: int) -> int | None:
        """From which block on the next round is to be opened, past or to come; None: nobody needs one.

        Parameters
        ----------
        rounds : Rounds
            The ledger; its latest round has ended.
        model : callable
            Fetches the model that stands.
        block : int
            The latest.
        """
        return 0

    def repeats(self, inputs: RoundInputs[ModelT], client: int) -> bool:
        """Whether a client repeats the sum of a closed round, whatever else it looks at; raises StoreError."""
        return False

    def standing(self, model: ModelT, stated: Mapping[str, Any] | None) -> ModelT:
        """Model to carry forward from a round that closes with a model and statements."""
        return model
