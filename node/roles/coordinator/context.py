"""Context that the phases of a coordinator share."""

from dataclasses import dataclass

from fedgrove.node.protocol.method import Aides
from fedgrove.node.roles.context import RoleContext
from fedgrove.node.roles.coordinator.outcomes import Outcomes


@dataclass(frozen=True)
class CoordinatorContext(RoleContext):
    """The collaborators of a coordinator.

    Attributes
    ----------
    initial_model : bytes
        θ₁, for the first round.
    members : int
        How many must be active before the first round is opened.
    aides : Aides
        How models are evaluated, and what is stated with them.
    outcomes : Outcomes
        What rounds came to.
    """

    initial_model: bytes
    members: int
    aides: Aides
    outcomes: Outcomes
