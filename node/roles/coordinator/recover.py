"""Recover: what masks the sum of the survivors' updates is put together from released shares, and recorded."""

from collections.abc import Mapping

from fedgrove.chain.records import FailureReason
from fedgrove.ipfs.store import BlobError
from fedgrove.node.base.tensors import InvalidModel
from fedgrove.node.masking.aggregate import InvalidUpdate
from fedgrove.node.masking.recovery import RecoveryRecord, TooFewShares, unavailable_updates
from fedgrove.node.masking.survivors import UnsafeSurvivors, needed_secrets
from fedgrove.node.protocol.aggregation import recovered, released_shares
from fedgrove.node.protocol.content import unavailable
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.step import Step, missing
from fedgrove.node.roles.context import Turn
from fedgrove.node.roles.coordinator.context import CoordinatorContext
from fedgrove.node.roles.coordinator.failure import fail


class RecordRecovery:
    """Records the recovery of a round, or why it cannot be recovered.

    A recovery is recorded only when the round's model follows from it: until then updates may still be on their way.
    """

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context

    def act(self, turn: Turn) -> Step:
        """Recover, wait for shares, or record the failure."""
        inputs = self._context.inputs(turn.current)
        try:
            needed_secrets(inputs.graph, inputs.sharers, inputs.survivors)
        except UnsafeSurvivors as fault:
            return self._fail(turn, FailureReason.TOO_FEW_SURVIVORS, str(fault))
        beyond = self._overspent(turn.current)
        if beyond:
            return self._fail(turn, FailureReason.TOO_FEW_SURVIVORS, beyond)
        return self._recover(turn, inputs)

    def _recover(self, turn: Turn, inputs: RoundInputs) -> Step:
        released = released_shares(inputs)
        gone = self._gone(inputs, released)
        if gone and not inputs.graph.groups:
            return fail(self._context, turn.current, FailureReason.UPDATE_UNAVAILABLE, {"clients": gone})
        try:
            record = self._recovered(turn, inputs, released, gone)
        except TooFewShares as lack:
            if lack.owner_lied or self._is_last_call(turn, released):
                return self._fail(turn, FailureReason.TOO_FEW_SHARES, str(lack))
            reason = f"{missing(turn.current.draws, turn.current.releases, 'release shares')} ({lack})"
            unread = len(released) < len(turn.current.releases)
            return Step.wait("recover", reason, turn.deadlines.recover_end, content=unread)
        return self._unsummed(turn, inputs, record, released) or self._record(turn, record)

    def _unsummed(
        self, turn: Turn, inputs: RoundInputs, record: RecoveryRecord, released: Mapping[int, bytes]
    ) -> Step | None:
        """Wait, or record the failure, where no model follows from a recovery; None where one does."""
        try:
            self._context.outcomes.of(inputs, record)
        except (InvalidUpdate, InvalidModel) as fault:
            return self._fail(turn, FailureReason.INVALID_UPDATE, str(fault))
        except BlobError as fault:
            if self._is_last_call(turn, released):
                return self._fail(turn, FailureReason.UPDATE_UNAVAILABLE, str(fault))
            reason = f"content of the others: {fault}"
            return Step.wait("recover", reason, turn.deadlines.recover_end, content=True)
        return None

    def _record(self, turn: Turn, record: RecoveryRecord) -> Step:
        digest = self._context.store.put(record.to_bytes()).digest
        receipt = self._context.ledger.recover(turn.current.number, digest)
        out = f", leaving out {len(record.left_out)} groups" if record.left_out else ""
        survivors = len(turn.current.commits)
        return Step("recover", acted=f"recovered with {survivors} survivors{out}", gas=receipt.gas_used)

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
        sizes = {client: self._context.method.codec.expected_bytes(inputs, client) for client in clients}
        digests = {client: inputs.current.commits[client].digest for client in sizes}
        return unavailable(self._context.store, digests, sizes)

    def _overspent(self, current: RoundRecords) -> str:
        """Clause on a client whose privacy budget the round's sum would exceed; empty if there is none."""
        return self._context.spending().overspent(current)

    def _is_last_call(self, turn: Turn, released: Mapping[int, bytes]) -> bool:
        """Whether waiting has ended: all releases are available, or the deadline is near.

        A round that is recorded as failed in time, and why, is followed by rounds that the same member cannot spoil.
        """
        if turn.block >= turn.deadlines.recover_end - self._context.view.settings.recover_window // 4:
            return True
        return len(released) == len(turn.current.order)

    def _fail(self, turn: Turn, reason: FailureReason, why: str) -> Step:
        return fail(self._context, turn.current, reason, {"reason": why})
