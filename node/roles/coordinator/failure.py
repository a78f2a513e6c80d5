"""Failure: a round without a result is recorded as failed, with the reason."""

import json
from collections.abc import Mapping

from fedgrove.chain.records import FailureReason
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.step import Step
from fedgrove.node.roles.context import Turn
from fedgrove.node.roles.coordinator.context import CoordinatorContext


def fail(
    context: CoordinatorContext, current: RoundRecords, reason: FailureReason, evidence: Mapping[str, object]
) -> Step:
    """Record a round as failed; the evidence is canonical JSON in the store, for people."""
    data = json.dumps({"round": current.number, **evidence}, sort_keys=True, separators=(",", ":")).encode()
    receipt = context.ledger.fail(current.number, reason, context.store.put(data).digest)
    return Step("recover", acted=f"recorded the round as failed: {reason.name.lower()}", gas=receipt.gas_used)


class Overdue:
    """Ends a round that missed a deadline."""

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context

    def act(self, turn: Turn) -> Step:
        """Skip the round where too few have drawn, or else record that it failed."""
        current, ledger = turn.current, self._context.ledger
        if current.sealed is None and len(current.draws) < self._context.view.settings.quorum:
            receipt = ledger.skip(current.number)
            return Step("seal", acted="skipped the round: too few drawn", gas=receipt.gas_used)
        receipt = ledger.fail(current.number, FailureReason.DEADLINE, bytes(32))
        return Step("overdue", acted="recorded the round as failed: deadline", gas=receipt.gas_used)
