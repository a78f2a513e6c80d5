"""Sends a client's transactions; what the ledger refused once is not tried again in that round."""

from collections.abc import Callable

from fedgrove.chain.errors import ContractRevert
from fedgrove.chain.transactions import Receipt
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.step import Step


class Outbox:
    """Sends transactions, and remembers those that the ledger refused.

    Parameters
    ----------
    view : LedgerView
        Knows the latest block.
    """

    def __init__(self, view: LedgerView) -> None:
        self._view = view
        self._refused: dict[tuple[int, str], str] = {}

    def send(self, current: RoundRecords, phase: str, acted: str, send: Callable[[], Receipt]) -> Step:
        """Send a transaction of a phase; one that the ledger refused before (too late, say) is not paid for again.

        Parameters
        ----------
        current : RoundRecords
            The round that it belongs to.
        phase : str
            Of the step; one transaction a phase.
        acted : str
            What the client has done once it is confirmed.
        send : callable
            Sends it and waits for its receipt.
        """
        refusal = self._refused.get((current.number, phase))
        if refusal is None:
            try:
                return Step(phase, acted=acted, gas=send().gas_used)
            except ContractRevert as revert:
                refusal = str(revert)
                self._refused = {(current.number, phase): refusal, **self._refused_in(current.number)}
        reason = f"this client: the ledger refused its transaction ({refusal})"
        end = self._view.deadlines(current).close_end
        return Step.wait("sit out", reason, end if end > self._view.block else 0)

    def _refused_in(self, number: int) -> dict[tuple[int, str], str]:
        return {key: reason for key, reason in self._refused.items() if key[0] == number}
