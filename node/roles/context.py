"""Context that the phases of a round share, in every role."""

from dataclasses import dataclass
from functools import cached_property

from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.records import Phase
from fedgrove.chain.records.phases import Deadlines
from fedgrove.ipfs.store import ContentStore, StoreError
from fedgrove.node.protocol.clock import phase_of
from fedgrove.node.protocol.ending import MetricsWatch
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.members_metrics import MembersStatement
from fedgrove.node.protocol.method import Method
from fedgrove.node.protocol.policy import no_round_follows
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.spending import Spending
from fedgrove.node.protocol.terms import FederationConfig


@dataclass(frozen=True)
class Turn:
    """A role's view of the ledger when it acts.

    Attributes
    ----------
    current : RoundRecords
        The latest round.
    deadlines : Deadlines
        Its windows.
    block : int
        The last confirmed block.
    """

    current: RoundRecords
    deadlines: Deadlines
    block: int

    @property
    def phase(self) -> Phase:
        """The phase in which the next block finds the round."""
        return phase_of(self.current, self.deadlines, self.block + 1)


@dataclass(frozen=True)
class RoleContext:
    """The collaborators of a role.

    Attributes
    ----------
    ledger : Ledger
        Sends from the role's account.
    store : ContentStore
        Where blobs are put and fetched.
    config : FederationConfig
        The terms.
    method : Method
        That of the terms.
    view : LedgerView
        The ledger as the role sees it now.
    parameters : int
        Of the model; what was spent depends on it.
    """

    ledger: Ledger
    store: ContentStore
    config: FederationConfig
    method: Method
    view: LedgerView
    parameters: int

    def rounds(self) -> Rounds:
        """The ledger as the role sees it now."""
        return self.view.rounds

    def inputs(self, current: RoundRecords) -> RoundInputs:
        """The public inputs of a sealed round."""
        ledger = (self.ledger.chain_id, self.ledger.address)
        return self.method.inputs(self.view.rounds, current, ledger, self.store)

    def spending(self) -> Spending:
        """The spent part of the privacy budget."""
        return Spending(self.method, self.store, self.view.rounds, self.parameters)

    def ending(self) -> str:
        """Why the terms' patience lets no round follow the last one that stands, in one clause; empty when it does."""
        return self._watch.ending(self.view.rounds)

    @cached_property
    def _watch(self) -> MetricsWatch:
        return MetricsWatch(self.store, self.config)

    def members_metrics(self) -> MembersStatement | None:
        """What the last round that stands states of the members' metrics; None where it cannot be read now."""
        try:
            return self._watch.stated(self.view.rounds)
        except StoreError:
            return None  # for people's eyes only: what a role needs of the store, its next step waits for

    def over(self) -> str:
        """Why no round follows the latest one, in one clause; empty when one can, or while a round runs."""
        return no_round_follows(self.view.rounds, self.config, self.ending, self.spending)

    def may_skip(self, current: RoundRecords) -> bool:
        """Whether a round that drew too few can be skipped with effect: other members may draw in the next one."""
        changed = self.view.law.members_changed_since(current.opened.opened_at)
        return not current.draws_all or changed or self.opener not in ("", current.opened.at.author)

    @property
    def opener(self) -> str:
        """The account in whose rounds alone members take part; empty: in everybody's."""
        return self.ledger.deployment.coordinator if self.method.schedule.needs_coordinator else ""
