"""The last sum that a client released shares for, where updates have bounds, and whether it may do so for another.

A second sum of the same model in which some member is missing shows that member's update. So there is one for the same
members only, or for fewer where those that are missing are named as liars: members send the same update each time. A
few further ones are allowed in a federation's life (``masking.partitions``), since a member may have gone for good.
"""

from fedgrove.common.wire import Count, Digest, Table
from fedgrove.node.protocol.round_inputs import RoundInputs

OPENED = "opened"
"""Its name in the journal."""
_CLIENTS_PER_FURTHER = 8


class Opened(Table, frozen=True):
    """A sum that shares were released for.

    Attributes
    ----------
    model : str
        Digest of the model that the round trained from, hexadecimal.
    round : int
    clients, named : tuple of int
        Whose updates are summed, and who was named as a liar, ascending.
    further : int
        How often a sum was opened that leaves out somebody who was not named.
    """

    model: Digest
    round: Count
    clients: tuple[int, ...]
    named: tuple[int, ...] = ()
    further: Count = 0

    @classmethod
    def of(cls, inputs: RoundInputs) -> "Opened":
        """That of a round; raises StoreError."""
        graph, bounded = inputs.graph, inputs.bounded
        clients, named = (
            tuple(sorted(map(graph.client, positions))) for positions in (inputs.survivors, bounded.named)
        )
        return cls(inputs.current.opened.model_digest.hex(), inputs.current.number, clients, named)

    def fault(self, before: "Opened", most: int) -> str:
        """Why no shares are released for this sum after another one, in one clause; empty where they may."""
        if not self._differs(before) or before.further < most:
            return ""
        others = sorted({*self.clients} ^ {*before.clients})
        return f"round {before.round} may have opened a sum of this model that differs in clients {others}"

    def after(self, before: "Opened | None") -> "Opened":
        """The same, with what was counted before."""
        if before is None or before.round == self.round:
            return self.replace(further=before.further if before is not None else 0)
        named = (*before.named, *self.named) if before.model == self.model else self.named
        return self.replace(named=tuple(sorted({*named})), further=before.further + self._differs(before))

    def _differs(self, before: "Opened") -> bool:
        """Whether both together say something of members that were not named."""
        if before.model != self.model or before.round == self.round:
            return False
        added, missing = {*self.clients} - {*before.clients}, {*before.clients} - {*self.clients}
        return bool(added or missing - {*before.named})


def most_further(inputs: RoundInputs) -> int:
    """How many further sums may be opened in a federation's life."""
    return inputs.config.masking.partitions or max(1, len(inputs.current.known) // _CLIENTS_PER_FURTHER)
