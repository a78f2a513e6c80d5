"""Outcome of a round: the recovery checks with it that the round can close, and the closing states it."""

from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.protocol.aggregation import outcome
from fedgrove.node.protocol.method import Method
from fedgrove.node.protocol.round_inputs import Outcome, RoundInputs


class Outcomes:
    """Computes what a round came to, and keeps it from recovery to closing.

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
