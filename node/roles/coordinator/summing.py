"""From the order to the next model: shares and commitments are waited for, the sum is recovered, the round closed."""

from collections.abc import Mapping

from fedgrove.chain.records import FailureReason, Phase
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.store import BlobError
from fedgrove.node.masking.recovery import RecoveryRecord, TooFewShares, most_record_bytes, unavailable_updates
from fedgrove.node.masking.sealing import MaskingRefused
from fedgrove.node.masking.survivors import needed_secrets
from fedgrove.node.protocol.aggregation import recovered, recovery, released_shares
from fedgrove.node.protocol.content import Metrics, unavailable
from fedgrove.node.protocol.local_work import CannotTakePart
from fedgrove.node.protocol.members_metrics import MembersStatement, described
from fedgrove.node.protocol.method import Evaluated
from fedgrove.node.protocol.policy import overspent
from fedgrove.node.protocol.round_inputs import Outcome, RoundInputs
from fedgrove.node.protocol.step import Kind, Step, missing
from fedgrove.node.roles.context import Turn
from fedgrove.node.roles.coordinator.context import CoordinatorUnit, fail


class AwaitMembers(CoordinatorUnit):
    """Waits until the list of shares, and then that of commitments, is final."""

    def act(self, turn: Turn) -> Step:
        """Wait for the clients that drew, or for those that shared."""
        current, deadlines = turn.current, turn.deadlines
        if turn.phase is Phase.SHARE:
            return Step.wait("share", missing(current.draws, current.shares, "share"), deadlines.share_end)
        return Step.wait("commit", missing(current.shares, current.commits, "commit"), deadlines.commit_end)


class RecordRecovery(CoordinatorUnit):
    """Records the recovery of a round, or why it cannot be recovered.

    A recovery is recorded only when the round's model follows from it: until then updates may still be on their way.
    """

    def act(self, turn: Turn) -> Step:
        """Recover, wait for shares, or record the failure."""
        # (1) a sum over too few, or beyond a member's budget, is not asked for: holders must refuse it
        inputs = self.context.inputs(turn.current)
        try:
            needed_secrets(inputs.graph, inputs.sharers, inputs.survivors)
        except MaskingRefused as fault:
            return self._fail(turn, FailureReason.TOO_FEW_SURVIVORS, str(fault))
        beyond = overspent(self.context.method, inputs)
        if beyond:
            return self._fail(turn, FailureReason.TOO_FEW_SURVIVORS, beyond)
        return self._recover(turn, inputs)

    def _recover(self, turn: Turn, inputs: RoundInputs) -> Step:
        # (2) without an update nobody's masks cancel, whatever is released; summed in groups, its group alone is lost
        released = released_shares(inputs)
        gone = self._gone(inputs, released)
        if gone and not inputs.graph.groups:
            return fail(self.context, turn.current, FailureReason.UPDATE_UNAVAILABLE, {"clients": gone})
        # (3) the masks' secrets, as soon as enough shares of each are released
        try:
            record = self._recovered(turn, inputs, released, gone)
        except TooFewShares as lack:
            if lack.owner_lied or self._is_last_call(turn, released):
                return self._fail(turn, FailureReason.TOO_FEW_SHARES, str(lack))
            reason = f"{missing(turn.current.draws, turn.current.releases, 'release shares')} ({lack})"
            unread = len(released) < len(turn.current.releases)
            return Step.wait("recover", reason, turn.deadlines.recover_end, Kind.FETCHES if unread else Kind.WAITS)
        # (4) recorded only when a model follows: a recovery on the ledger ends the wait for updates
        return self._unsummed(turn, inputs, record, released) or self._record(turn, record)

    def _unsummed(
        self, turn: Turn, inputs: RoundInputs, record: RecoveryRecord, released: Mapping[int, bytes]
    ) -> Step | None:
        """Wait, or record the failure, where no model follows from a recovery; None where one does."""
        try:
            self.context.outcomes.of(inputs, record)
        except InvalidContent as fault:
            return self._fail(turn, FailureReason.INVALID_UPDATE, str(fault))
        except BlobError as fault:
            if self._is_last_call(turn, released):
                return self._fail(turn, FailureReason.UPDATE_UNAVAILABLE, str(fault))
            reason = f"content of the others: {fault}"
            return Step.wait("recover", reason, turn.deadlines.recover_end, Kind.FETCHES)
        return None

    def _record(self, turn: Turn, record: RecoveryRecord) -> Step:
        digest = self.context.store.put(record.to_bytes()).digest
        receipt = self.context.ledger.recover(turn.current.number, digest)
        out = f", leaving out {len(record.left_out)} groups" if record.left_out else ""
        survivors = len(turn.current.commits)
        return Step.act("recover", f"recovered with {survivors} survivors{out}", receipt.gas_used)

    def _recovered(
        self, turn: Turn, inputs: RoundInputs, released: Mapping[int, bytes], gone: list[int]
    ) -> RecoveryRecord:
        """The recovery record. If groups are summed separately, a group that cannot be recovered is left out."""
        groups = [{inputs.graph.client(position) for position in group} for group in inputs.graph.groups]
        left_out = {number for number, group in enumerate(groups) if group.intersection(gone)}
        while True:
            try:
                return recovered(inputs, released, left_out)
            except TooFewShares as lack:
                spoilt = {number for number, group in enumerate(groups) if lack.client in group} - left_out
                final = lack.owner_lied or self._is_last_call(turn, released)
                if not (spoilt and final):
                    raise
                left_out |= spoilt

    def _gone(self, inputs: RoundInputs, released: Mapping[int, bytes]) -> list[int]:
        """Clients whose update neither its witnesses nor this node can have."""
        lost = unavailable_updates(inputs.graph, inputs.sharers, inputs.survivors, released)
        clients = [inputs.graph.client(position) for position in lost]
        sizes = {client: self.context.method.codec.expected_bytes(inputs, client) for client in clients}
        digests = {client: inputs.current.commits[client].digest for client in sizes}
        return unavailable(self.context.store, digests, sizes)

    def _is_last_call(self, turn: Turn, released: Mapping[int, bytes]) -> bool:
        """Whether waiting has ended: all releases are available, or the deadline is near.

        A round that is recorded as failed in time, and why, is followed by rounds that the same member cannot spoil.
        """
        if turn.block >= turn.deadlines.recover_end - self.context.view.settings.recover_window // 4:
            return True
        return len(released) == len(turn.current.order)

    def _fail(self, turn: Turn, reason: FailureReason, why: str) -> Step:
        return fail(self.context, turn.current, reason, {"reason": why})


class Close(CoordinatorUnit):
    """Closes a round with the model that follows from its recovery, or records why none does."""

    def act(self, turn: Turn) -> Step:
        """Close, or record the failure."""
        inputs = self.context.inputs(turn.current)
        data = self.context.store.fetch(turn.current.recovery.digest, most_record_bytes(inputs.graph))
        try:
            record = recovery(inputs, data)
        except InvalidContent as fault:
            # A member may record the recovery in the coordinator's place, and may record anything.
            return fail(self.context, turn.current, FailureReason.INVALID_RELEASE, {"reason": str(fault)})
        try:
            result = self.context.outcomes.of(inputs, record)
        except InvalidContent as fault:
            return fail(self.context, turn.current, FailureReason.INVALID_UPDATE, {"reason": str(fault)})
        return self._close(turn, result, *self._metrics(inputs, result))

    def _metrics(self, inputs: RoundInputs, result: Outcome) -> tuple[Metrics, str]:
        """Metrics to state in addition to the round's model, and why it could not be evaluated, if so.

        A task may fail on a model that a member poisoned for that, which must not keep the round from closing.
        """
        aides, current = self.context.aides, inputs.current
        stated = aides.statements(inputs, result.model)
        evaluated, fault = Evaluated(), ""
        try:
            evaluated = aides.evaluate(self.context.method.schedule.standing(result.model, stated))
        except CannotTakePart as failure:
            fault = str(failure)
        seen = current.recovery.at.block
        head = (seen, self.context.ledger.block_hash(seen).hex())
        metrics = Metrics(
            current.number,
            evaluated.loss,
            evaluated.samples,
            evaluated.accuracy,
            privacy=result.privacy,
            stated=None if stated is None else dict(stated),
            head=head,
            members=result.members,
            only_class=evaluated.only_class,
            scores=evaluated.scores,
        )
        return metrics, fault

    def _close(self, turn: Turn, result: Outcome, metrics: Metrics, unevaluated: str) -> Step:
        method, store, number = self.context.method, self.context.store, turn.current.number
        fault = method.statement_fault(result.model, metrics)
        if fault:
            reason = f"a coordinator that can make its statement: {fault}"
            return Step.wait("close", reason, turn.deadlines.close_end)
        model = store.put(method.model_bytes(result.model)).digest
        receipt = self.context.ledger.close(number, model, store.put(metrics.to_bytes()).digest)
        accuracy = "" if metrics.accuracy is None else f" at accuracy {metrics.accuracy:.3f}"
        reached = (accuracy or f" at loss {metrics.loss:.4g}") if metrics.samples else ""
        reached = f", whose model could not be evaluated ({unevaluated})" if unevaluated else reached
        acted = f"closed the round{reached}{_said_of(metrics.members)}"
        return Step.act("close", acted, receipt.gas_used, Kind.ENDED)


def _said_of(members: MembersStatement | None) -> str:
    """What the members' metrics add to what the coordinator reports of a round."""
    if members is None or not members.there:
        return f"; the members' metrics are void, as {members.void}" if members is not None and members.void else ""
    model = "the last model" if members.last else "the model before it"
    before = f"; the members found {described(members.to_figures())}, for {model}"
    return f"{before}; the training ends, as {members.ending}" if members.ending and not members.last else before
