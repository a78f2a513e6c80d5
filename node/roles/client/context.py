"""What the phases of a client share: its collaborators, its view of the ledger, and how it sends transactions."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from fedgrove.chain.crypto import vrf
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.errors import ContractRevert
from fedgrove.chain.network.access import Mined
from fedgrove.node.protocol.closing import Closings
from fedgrove.node.protocol.journal import Journal
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.local_work import LocalWork
from fedgrove.node.protocol.rounds import Member, RoundRecords
from fedgrove.node.protocol.step import Kind, Step
from fedgrove.node.roles.context import RoleContext, Turn
from fedgrove.node.roles.disclosure import Disclosure
from fedgrove.node.roles.duplicates import Duplicates


def holds_key_of(keys: Keys, member: Member) -> bool:
    """Whether a member's VRF key on the ledger is the one among these keys."""
    return vrf.coordinates(keys.vrf_public) == (member.vrf_x, member.vrf_y)


class Outbox:
    """Sends transactions, and remembers those that the ledger refused.

    Parameters
    ----------
    view : LedgerView
        Knows the latest block.
    """

    def __init__(self, view: LedgerView) -> None:
        self._view = view
        self._refused: dict[tuple[int, str, Hashable], str] = {}

    def send(
        self,
        current: RoundRecords,
        phase: str,
        acted: str,
        send: Callable[[], Mined],
        kind: Kind = Kind.ACTED,
        on: Hashable = None,
    ) -> Step:
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
        kind : Kind
            Of the step, if the transaction is confirmed.
        on : hashable
            What the ledger's answer depends on, if it may change: with another, it is sent again.
        """
        refusal = self._refused.get((current.number, phase, on))
        if refusal is None:
            try:
                return Step.act(phase, acted, send().gas_used, kind)
            except ContractRevert as revert:
                refusal = str(revert)
                self._refused = {(current.number, phase, on): refusal, **self._refused_in(current.number)}
        reason = f"this client: the ledger refused its transaction ({refusal})"
        end = self._view.deadlines(current).recover_end
        return Step.wait("sit out", reason, end if end > self._view.block else 0, Kind.SITS_OUT)

    def _refused_in(self, number: int) -> dict[tuple[int, str, Hashable], str]:
        return {key: reason for key, reason in self._refused.items() if key[0] == number}


@dataclass(frozen=True)
class ClientContext(RoleContext):
    """The collaborators of a client.

    Attributes
    ----------
    keys : Keys
        Account, VRF, mailbox and storage key.
    journal : Journal
        Keeps secrets and results of a round.
    disclosure : Disclosure
        Makes everything that leaves the client, out of the journal.
    work : LocalWork
        Computes the update.
    closings : Closings
        Recomputes closed rounds.
    duplicates : Duplicates
        Looks for another process with the same keystore.
    outbox : Outbox
        Sends transactions.
    """

    keys: Keys
    journal: Journal
    disclosure: Disclosure
    work: LocalWork
    closings: Closings
    duplicates: Duplicates
    outbox: Outbox


@dataclass(frozen=True)
class ClientTurn(Turn):
    """A client's view of the ledger when it acts.

    Attributes
    ----------
    member : Member
        The client itself, as the ledger has it.
    """

    member: Member

    @property
    def client(self) -> int:
        """The client's index."""
        return self.member.client

    def sit_out(self, reason: str) -> Step:
        """Do nothing until the round is over."""
        return Step.wait("sit out", reason, self.deadlines.recover_end, Kind.SITS_OUT)


@dataclass
class ClientUnit(ABC):
    """A client's work for one duty."""

    context: ClientContext

    @abstractmethod
    def act(self, turn: ClientTurn) -> Step | None:
        """Act; None where it is done already."""
