"""Close: the next model and its metrics end a recovered round."""

from fedgrove.chain.records import FailureReason
from fedgrove.node.base.tensors import InvalidModel
from fedgrove.node.masking.aggregate import InvalidUpdate
from fedgrove.node.masking.recovery import InvalidRecovery, most_record_bytes
from fedgrove.node.protocol.aggregation import recovery
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.local_work import CannotTakePart
from fedgrove.node.protocol.members_metrics import MembersStatement, told_of
from fedgrove.node.protocol.method import Evaluated
from fedgrove.node.protocol.round_inputs import Outcome, RoundInputs
from fedgrove.node.protocol.step import Step
from fedgrove.node.roles.context import Turn
from fedgrove.node.roles.coordinator.context import CoordinatorContext
from fedgrove.node.roles.coordinator.failure import fail


class Close:
    """Closes a round with the model that follows from its recovery, or records why none does."""

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context

    def act(self, turn: Turn) -> Step:
        """Close, or record the failure."""
        inputs = self._context.inputs(turn.current)
        data = self._context.store.fetch(turn.current.recovery.digest, most_record_bytes(inputs.graph))
        try:
            result = self._context.outcomes.of(inputs, recovery(inputs, data))
        except InvalidRecovery as fault:
            # A member may record the recovery in the coordinator's place, and may record anything.
            return fail(self._context, turn.current, FailureReason.INVALID_RELEASE, {"reason": str(fault)})
        except (InvalidUpdate, InvalidModel) as fault:
            return fail(self._context, turn.current, FailureReason.INVALID_UPDATE, {"reason": str(fault)})
        return self._close(turn, result, *self._metrics(inputs, result))

    def _metrics(self, inputs: RoundInputs, result: Outcome) -> tuple[Metrics, str]:
        """Metrics to state in addition to the round's model, and why it could not be evaluated, if so.

        A task may fail on a model that a member poisoned for that, which must not keep the round from closing.
        """
        aides, current = self._context.aides, inputs.current
        stated = aides.statements(inputs, result.model)
        evaluated, fault = Evaluated(), ""
        try:
            evaluated = aides.evaluate(self._context.method.schedule.standing(result.model, stated))
        except CannotTakePart as failure:
            fault = str(failure)
        seen = current.recovery.at.block
        head = (seen, self._context.ledger.block_hash(seen))
        metrics = Metrics(
            current.number,
            evaluated.accuracy,
            evaluated.loss,
            evaluated.samples,
            privacy=result.privacy,
            stated=stated,
            head=head,
            members=result.members,
            only_class=evaluated.only_class,
            scores=evaluated.scores,
        )
        return metrics, fault

    def _close(self, turn: Turn, result: Outcome, metrics: Metrics, unevaluated: str) -> Step:
        method, store, number = self._context.method, self._context.store, turn.current.number
        fault = method.statement_fault(result.model, metrics)
        if fault:
            reason = f"a coordinator that can make its statement: {fault}"
            return Step.wait("close", reason, turn.deadlines.close_end)
        model = store.put(method.model_bytes(result.model)).digest
        receipt = self._context.ledger.close(number, model, store.put(metrics.to_bytes()).digest)
        told = "" if metrics.accuracy is None else f" at accuracy {metrics.accuracy:.3f}"
        reached = (told or f" at loss {metrics.loss:.4g}") if metrics.samples else ""
        reached = f", whose model could not be evaluated ({unevaluated})" if unevaluated else reached
        told = f"closed the round{reached}{_said_of(metrics.members)}"
        return Step("close", acted=told, gas=receipt.gas_used)


def _said_of(members: MembersStatement | None) -> str:
    """What the members' metrics add to what the coordinator reports of a round."""
    if members is None or not members.there:
        return f"; the members' metrics are void, as {members.void}" if members is not None and members.void else ""
    model = "the last model" if members.last else "the model before it"
    before = f"; the members found {told_of(members.to_figures())}, for {model}"
    return f"{before}; the training ends, as {members.ending}" if members.ending and not members.last else before
