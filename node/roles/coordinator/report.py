"""Report: clients that drew and did not commit are reported absent after the round closed."""

from fedgrove.chain.errors import ContractRevert
from fedgrove.chain.ledger import MAX_REPORT
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.step import Step, name_clients
from fedgrove.node.roles.context import Turn
from fedgrove.node.roles.coordinator.context import CoordinatorContext
from fedgrove.node.roles.coordinator.phase import CoordinatorPhase


class ReportAbsences:
    """Reports absences of a closed round."""

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context
        self._unreported = 0

    def act(self, turn: Turn) -> Step | CoordinatorPhase:
        """Report; ``OPEN`` is next when there is nothing to report."""
        absent = self.absent(turn.current)
        if not absent:
            return CoordinatorPhase.OPEN
        accounts = [self._context.view.rounds.members[client].account for client in absent]
        try:
            receipt = self._context.ledger.report_absences(turn.current.number, accounts)
        except ContractRevert as refusal:
            # Training does not wait for a report: another member may have been quicker.
            self._unreported = turn.current.number
            return Step.wait("open", f"nobody: the absences were not reported ({refusal})", turn.block + 1)
        return Step("open", acted=f"reported absent: {name_clients(absent)}", gas=receipt.gas_used)

    def absent(self, current: RoundRecords) -> list[int]:
        """Clients to report of a closed round: all of its order without a commitment, unless they were reported."""
        if current.number == self._unreported or not current.stands or current.absences:
            return []
        absent = [client for client in current.order if client not in current.commits]
        return absent if len(absent) <= MAX_REPORT else []
