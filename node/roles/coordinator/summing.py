"""From the order to the next model: shares and commitments are waited for, the sum is unmasked, the round closed."""

from collections.abc import Mapping
from functools import partial

from fedgrove.chain.records import Phase
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.store import BlobError
from fedgrove.node.masking.recovery import RecoveryRecord, TooFewShares
from fedgrove.node.protocol.aggregation import recovered_without_spoilt, released_shares, unavailable_commits
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.expelling import recovered_in_stages
from fedgrove.node.protocol.local_work import CannotTakePart
from fedgrove.node.protocol.members_metrics import MembersStatement, described, unable
from fedgrove.node.protocol.method import Evaluated
from fedgrove.node.protocol.policy import nothing_to_sum
from fedgrove.node.protocol.round_inputs import Outcome, RoundInputs
from fedgrove.node.protocol.step import Kind, Step, missing, name_clients
from fedgrove.node.roles.context import Turn
from fedgrove.node.roles.coordinator.context import CoordinatorUnit, failed


class AwaitMembers(CoordinatorUnit):
    """Waits until the list of shares, and then that of commitments, is final."""

    def act(self, turn: Turn) -> Step:
        """Wait for the clients that drew, or for those that shared."""
        current, deadlines = turn.current, turn.deadlines
        if turn.phase is Phase.SHARE:
            return Step.wait("share", missing(current.draws, current.shares, "share"), deadlines.share_end)
        if turn.phase is Phase.COMMIT:
            return Step.wait("commit", missing(current.shares, current.commits, "commit"), deadlines.commit_end)
        if turn.phase is Phase.VOUCH:
            return Step.wait("vouch", missing(current.commits, current.vouches, "vouch"), deadlines.vouch_end)
        return Step.wait("affirm", missing(current.commits, current.affirmations, "affirm"), deadlines.affirm_end)


class Close(CoordinatorUnit):
    """Closes a round with the model that follows from the released shares.

    Where none follows, the round ends by its members' judgement or by the clock.
    """

    def act(self, turn: Turn) -> Step:
        """Close, wait for shares, or record the failure."""
        current, deadlines = turn.current, turn.deadlines
        # (1) what no closing can follow fails at once, by anybody
        if self.context.view.law.is_hopeless(current, turn.block + 1):
            receipt = self.context.ledger.fail(current.number)
            return failed("recover", f"{len(current.commits)} of {len(current.order)} committed", receipt.gas_used)
        # (2) a sum over too few, or beyond a member's budget, is not asked for: holders must refuse it
        inputs = self.context.inputs(current)
        refused = nothing_to_sum(self.context.method, inputs)
        if refused:
            return Step.wait(
                "recover", f"members to judge that nothing may be summed: {refused}", deadlines.recover_end
            )
        # (3) the masks' secrets, as soon as enough shares of each are released
        released = released_shares(inputs)
        unread = len(released) < len(current.releases)
        try:
            record = self._recovered(turn, inputs, released)
            result = self.context.outcomes.of(inputs, record)
        except (TooFewShares, BlobError) as lack:
            reason = f"{missing(current.draws, current.releases, 'release shares')} ({lack})"
            fetches = unread or isinstance(lack, BlobError)
            return Step.wait("recover", reason, deadlines.recover_end, Kind.FETCHES if fetches else Kind.WAITS)
        except InvalidContent as fault:
            return Step.wait("recover", f"nobody: an update cannot be summed, {fault}", deadlines.recover_end)
        if len(current.releases) < self.context.view.settings.releases:
            awaited = missing(current.draws, current.releases, "release shares")
            return Step.wait("recover", awaited, deadlines.recover_end)
        return self._close(turn, inputs, record, result)

    def _recovered(self, turn: Turn, inputs: RoundInputs, released: Mapping[int, bytes]) -> RecoveryRecord:
        """The recovery record. If groups are summed separately, a group that cannot be recovered is left out.

        Where updates have bounds, it is that of the stage in which nobody who is summed has lied.
        """
        if inputs.bounds is not None:
            return recovered_in_stages(inputs, partial(self.context.outcomes.of, inputs))
        gone = unavailable_commits(self.context.method, inputs, released)
        if gone and inputs.graph.is_whole:
            raise TooFewShares(f"the update of {name_clients(gone)} is not available")
        return recovered_without_spoilt(inputs, released, gone, self._is_last_call(turn, released))

    def _is_last_call(self, turn: Turn, released: Mapping[int, bytes]) -> bool:
        """Whether waiting has ended: all releases are available, or the deadline is near."""
        if turn.block >= turn.deadlines.recover_end - self.context.view.settings.recover_window // 4:
            return True
        return len(released) == len(turn.current.order)

    def _metrics(self, turn: Turn, inputs: RoundInputs, record: bytes, result: Outcome) -> tuple[Metrics, str]:
        """Metrics to state in addition to the round's model, and why it could not be evaluated, if so.

        A task may fail on a model that a member poisoned for that, which must not keep the round from closing.
        """
        aides, current = self.context.aides, inputs.current
        stated = aides.statements(inputs, result.model)
        evaluated, fault = Evaluated(), ""
        try:
            evaluated = aides.evaluate(self.context.method.schedule.standing(result.model, stated))
        except CannotTakePart as failure:
            fault = failure.brief
        metrics = Metrics(
            current.number,
            record.hex(),
            (turn.block, self.context.ledger.block_hash(turn.block).hex()),
            evaluated.loss,
            evaluated.samples,
            evaluated.accuracy,
            privacy=result.privacy,
            stated=None if stated is None else dict(stated),
            members=result.members,
            raised=result.raised,
            only_class=evaluated.only_class,
            scores=evaluated.scores,
        )
        return metrics, fault

    def _close(self, turn: Turn, inputs: RoundInputs, record: RecoveryRecord, result: Outcome) -> Step:
        method, store, number = self.context.method, self.context.store, turn.current.number
        metrics, unevaluated = self._metrics(turn, inputs, store.put(record.to_bytes()).digest, result)
        fault = method.statement_fault(result.model, metrics)
        if fault:
            reason = f"a coordinator that can make its statement: {fault}"
            return Step.wait("recover", reason, turn.deadlines.recover_end)
        model = store.put(method.model_bytes(result.model)).digest
        receipt = self.context.ledger.close(number, model, store.put(metrics.to_bytes()).digest)
        accuracy = "" if metrics.accuracy is None else f" at accuracy {metrics.accuracy:.3f}"
        reached = (accuracy or f" at loss {metrics.loss:.4g}") if metrics.samples else ""
        reached = f", whose model could not be evaluated ({unevaluated})" if unevaluated else reached
        out = f", leaving out {len(record.left_out)} groups" if record.left_out else ""
        said = _said_of(metrics.members) + (f"; {unable(metrics.raised)}" if metrics.raised else "")
        acted = f"closed the round of {len(turn.current.commits)}{out}{reached}{said}"
        return Step.act("close", acted, receipt.gas_used, Kind.ENDED)


def _said_of(members: MembersStatement | None) -> str:
    """What the members' metrics add to what the coordinator reports of a round."""
    if members is None or not members.there:
        return f"; the members' metrics are void, as {members.void}" if members is not None and members.void else ""
    model = "the last model" if members.last else "the model before it"
    before = f"; the members found {described(members.to_figures())}, for {model}"
    return f"{before}; the training ends, as {members.ending}" if members.ending and not members.last else before
