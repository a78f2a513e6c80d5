"""The coordinator itself: which phase of a round is due."""

from fedgrove.chain.errors import ContractRevert
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.records import Phase
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.store import ContentStore, StoreError
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.members_metrics import MembersStatement
from fedgrove.node.protocol.method import Aides
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.step import Step, attempt
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.roles.context import Turn
from fedgrove.node.roles.coordinator.context import CoordinatorContext, CoordinatorUnit, Outcomes, Overdue
from fedgrove.node.roles.coordinator.opening import Open, SealOrder
from fedgrove.node.roles.coordinator.summing import AwaitMembers, Close

NOTHING = Aides()
_UNITS: dict[Phase, type[CoordinatorUnit]] = {
    **dict.fromkeys((Phase.SEEDING, Phase.DRAW, Phase.SEAL), SealOrder),
    **dict.fromkeys((Phase.SHARE, Phase.COMMIT, Phase.VOUCH, Phase.AFFIRM), AwaitMembers),
    Phase.RECOVER: Close,
    Phase.OVERDUE: Overdue,
}


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
        How models are evaluated, and what is stated with them. Without statements others must close the rounds that
        need one.
    confirmations : int
        Blocks that must lie on top of a record before it is acted on.
    members : int
        This many must be active before the first round is opened, at least the quorum.
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
        parameters = method.parameters_of(method.read_model(initial_model)) if config.privacy is not None else 0
        self.context = CoordinatorContext(
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
        self._open = Open(self.context)
        self.units: dict[Phase, CoordinatorUnit] = {phase: unit(self.context) for phase, unit in _UNITS.items()}
        self.view = view

    @property
    def account(self) -> str:
        return self.context.ledger.account

    @property
    def members_metrics(self) -> MembersStatement | None:
        """What the last round states of the members' own metrics; None where there are none."""
        return self.context.members_metrics()

    @property
    def round(self) -> int:
        """Number of the latest round; 0 before the first."""
        return self.view.rounds.latest.number if self.view.rounds.latest else 0

    @property
    def finished(self) -> bool:
        """All rounds that the federation can hold have ended."""
        try:
            return bool(self.context.over())
        except StoreError:
            return False  # what ends it cannot be read now; the next step says so

    def step(self) -> Step:
        """Do what is due now, at most one thing."""
        current = self.view.refresh()
        try:
            return attempt(lambda: self._act(current), self.view.block)
        except ContractRevert as refusal:
            # Somebody else was quicker, or a window closed while the transaction was on its way: look again.
            return Step.wait("refused", f"the chain: the ledger refused a transaction ({refusal})", self.view.block + 1)
        except InvalidContent as fault:
            return Step.wait(
                "content", f"members to judge the model that the round trains from: {fault}", self.view.block + 1
            )

    def _act(self, current: RoundRecords | None) -> Step:
        if current is None:
            return self._open.first()
        if self.view.law.is_struck(self.account):
            return Step.wait("struck", "members to stand by: a closing of this account was replaced or voided")
        turn = Turn(current, self.view.deadlines(current), self.view.block)
        return self.units[turn.phase].act(turn) if current.end is None else self._open.act(turn)
