"""The coordinator itself: which phase of a round is due."""

from typing import Protocol

from fedgrove.chain.errors import ContractRevert
from fedgrove.chain.ledger import Ledger
from fedgrove.ipfs.store import ContentStore
from fedgrove.node.base.tensors import InvalidModel, Layout, load
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.content import InvalidBlob
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.method import Aides
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.step import Step, attempt
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.roles.context import Turn
from fedgrove.node.roles.coordinator.close import Close
from fedgrove.node.roles.coordinator.context import CoordinatorContext
from fedgrove.node.roles.coordinator.failure import Overdue
from fedgrove.node.roles.coordinator.gather import Commit, Share
from fedgrove.node.roles.coordinator.open import Open
from fedgrove.node.roles.coordinator.outcomes import Outcomes
from fedgrove.node.roles.coordinator.phase import Phase, phase_of
from fedgrove.node.roles.coordinator.recover import Recover
from fedgrove.node.roles.coordinator.report import Report
from fedgrove.node.roles.coordinator.seal import Seal

NOTHING = Aides()


class PhaseUnit(Protocol):
    """What a coordinator does in one phase."""

    def act(self, turn: Turn) -> Step | Phase:
        """Do what is due: the step that came of it, or the phase that is due instead."""
        ...


class Coordinator:
    """Drives a federation's rounds.

    Parameters
    ----------
    ledger : Ledger
        Facade that sends from the coordinator's account.
    store : ContentStore
        Must hold the config and, before the first round, get the initial model.
    config : FederationConfig
        The terms of the federation.
    initial_model : bytes
        Safetensors bytes of θ₁.
    aides : Aides, optional
        How models are evaluated, and what is stated beside them. Without statements others must close the rounds that
        need one.
    confirmations : int
        Blocks that must lie on top of a record before it is acted on.
    members : int
        So many must be active before the first round is opened, at least the quorum.
    """

    def __init__(
        self,
        ledger: Ledger,
        store: ContentStore,
        config: FederationConfig,
        initial_model: bytes,
        aides: Aides = NOTHING,
        confirmations: int = 0,
        members: int = 0,
    ) -> None:
        method, view = method_of(config), LedgerView(ledger, confirmations)
        # Only spending depends on it: without a mechanism a wrong model is for others to refuse.
        parameters = Layout.of(load(initial_model)).length if config.privacy is not None else 0
        self._context = CoordinatorContext(
            ledger,
            store,
            config,
            method,
            view,
            parameters,
            initial_model=initial_model,
            members=max(members, view.settings.quorum),
            aides=aides,
            outcomes=Outcomes(method),
        )
        self._open = Open(self._context)
        self._report = Report(self._context)
        self._phases = self._units()
        self.view = view

    @property
    def account(self) -> str:
        return self._context.ledger.account

    @property
    def round(self) -> int:
        """Number of the latest round; 0 before the first."""
        return self.view.rounds.latest.number if self.view.rounds.latest else 0

    @property
    def finished(self) -> bool:
        """All rounds that the federation can hold have ended and their absences are reported."""
        return bool(self._context.over()) and not self._report.absent(self.view.rounds.last)

    def step(self) -> Step:
        """Do what is due now, at most one thing."""
        entry = self.view.refresh()
        try:
            return attempt(lambda: self._act(entry), self.view.block)
        except ContractRevert as refusal:
            # Somebody else was quicker, or a window closed while the transaction was on its way: look again.
            return Step.wait("refused", f"the chain: the ledger refused a transaction ({refusal})", self.view.block + 1)
        except (InvalidBlob, InvalidModel) as fault:
            return Step.wait("content", f"members to dispute what the round rests on: {fault}", self.view.block + 1)

    def _act(self, entry: RoundRecords | None) -> Step:
        if entry is None:
            return self._open.first()
        turn = Turn(entry, self.view.deadlines(entry), self.view.block)
        due: Step | Phase = phase_of(turn.entry, turn.deadlines, turn.block)
        while isinstance(due, Phase):
            due = self._phases[due].act(turn)
        return due

    def _units(self) -> dict[Phase, PhaseUnit]:
        return {
            Phase.REPORT: self._report,
            Phase.OPEN: self._open,
            Phase.SEAL: Seal(self._context),
            Phase.SHARE: Share(),
            Phase.COMMIT: Commit(),
            Phase.RECOVER: Recover(self._context),
            Phase.CLOSE: Close(self._context),
            Phase.OVERDUE: Overdue(self._context),
        }
