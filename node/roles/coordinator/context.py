"""What the phases of a coordinator share, and how a round is recorded as failed."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.protocol.aggregation import outcome
from fedgrove.node.protocol.method import Aides, Method
from fedgrove.node.protocol.round_inputs import Outcome, RoundInputs
from fedgrove.node.protocol.step import Kind, Step
from fedgrove.node.roles.context import RoleContext, Turn


class Outcomes:
    """Computes what a round came to, and keeps it until the round is closed.

    Parameters
    ----------
    method : Method
        That of the terms.
    """

    def __init__(self, method: Method) -> None:
        self._method = method
        self._kept: tuple[tuple[bytes, ...], Outcome] | None = None

    def of(self, round_inputs: RoundInputs, record: RecoveryRecord) -> Outcome:
        """Outcome of the round; recomputed if the chain replaced blocks with its inputs."""
        commits = (commit.digest for commit in round_inputs.current.commits.values())
        inputs = (round_inputs.current.opened.model_digest, record.to_bytes(), *commits)
        if self._kept is None or self._kept[0] != inputs:
            self._kept = (inputs, outcome(self._method, round_inputs, record))
        return self._kept[1]


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


@dataclass
class CoordinatorUnit(ABC):
    """A coordinator's work in one phase."""

    context: CoordinatorContext

    @abstractmethod
    def act(self, turn: Turn) -> Step:
        """Act, or say what is waited for."""


class Overdue(CoordinatorUnit):
    """Ends a round that missed a deadline."""

    def act(self, turn: Turn) -> Step:
        """Skip the round where too few have drawn, or else record that it failed."""
        current, ledger = turn.current, self.context.ledger
        if current.sealed is None and len(current.draws) < self.context.view.settings.quorum:
            return skipped("too few drawn", ledger.skip(current.number).gas_used)
        return failed("overdue", "it is overdue", ledger.fail(current.number).gas_used)


def skipped(why: str, gas: int) -> Step:
    """The step in which a round was skipped."""
    return Step.act("seal", f"skipped the round: {why}", gas, Kind.ENDED)


def failed(phase: str, why: str, gas: int) -> Step:
    """The step in which a round was recorded as failed."""
    return Step.act(phase, f"recorded the round as failed: {why}", gas, Kind.ENDED)
