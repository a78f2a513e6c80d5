"""Context that the phases of a client share."""

from dataclasses import dataclass

from fedgrove.chain import vrf
from fedgrove.chain.keys import Keys
from fedgrove.node.protocol.closing import Closings
from fedgrove.node.protocol.journal import Journal
from fedgrove.node.protocol.local_work import LocalWork
from fedgrove.node.protocol.rounds import Member
from fedgrove.node.protocol.step import Step
from fedgrove.node.roles.client.outbox import Outbox
from fedgrove.node.roles.context import RoleContext, Turn
from fedgrove.node.roles.disclosure import Disclosure
from fedgrove.node.roles.twins import Twins


def holds_key_of(keys: Keys, member: Member) -> bool:
    """Whether a member's VRF key on the ledger is the one among these keys."""
    return vrf.coordinates(keys.vrf_public) == (member.vrf_x, member.vrf_y)


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
    twins : Twins
        Looks for another process with the same keystore.
    outbox : Outbox
        Sends transactions.
    """

    keys: Keys
    journal: Journal
    disclosure: Disclosure
    work: LocalWork
    closings: Closings
    twins: Twins
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
        return Step.wait("sit out", reason, self.deadlines.close_end)
