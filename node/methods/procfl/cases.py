"""A suspected cluster on its way to a verdict."""

from dataclasses import dataclass

from fedgrove.common.wire import Count
from fedgrove.node.methods.procfl.training import Cluster


@dataclass(frozen=True)
class Case:
    """A cluster whose model fell, and what became of it.

    Judges and judged are drawn when all that could influence it is on the ledger: until then there are only those of
    whom some will be.

    Attributes
    ----------
    cluster : int
    suspects : Cluster
        Who trained its model, and was not judged of late.
    pool : Cluster
        Who may judge them.
    members : Cluster
        Suspects that are judged: at most half of those who trained the model.
    committee : Cluster
        Who judges.
    against : tuple of int
        Votes against each member; empty before the vote.
    """

    cluster: Count
    suspects: Cluster
    pool: Cluster
    members: Cluster = ()
    committee: Cluster = ()
    against: tuple[Count, ...] = ()

    @property
    def seated(self) -> bool:
        """Whether it is known who is judged by whom."""
        return bool(self.members and self.committee)

    @property
    def needed(self) -> int:
        """Votes that expel: a majority of all seats, of those who do not vote, too."""
        return len(self.committee) // 2 + 1

    @property
    def expelled(self) -> Cluster:
        """Members with a majority of all seats against them."""
        pairs = zip(self.members, self.against, strict=False)
        return tuple(member for member, votes in pairs if self.committee and votes >= self.needed)

    @property
    def named(self) -> Cluster:
        """Everybody in it."""
        return (*self.suspects, *self.pool)

    @property
    def holds_together(self) -> bool:
        """Whether those who are judged are suspects, who judges may, and nobody does both."""
        return (
            bool(self.suspects and self.pool)
            and not set(self.suspects) & set(self.pool)
            and set(self.members) <= set(self.suspects)
            and set(self.committee) <= set(self.pool)
            and bool(self.members) == bool(self.committee)
            and len(self.against) in (0, len(self.members))
        )
