"""What closed rounds state of the members' metrics, and whether their loss has ended the federation."""

from dataclasses import dataclass, field

from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.protocol.content import MAX_JSON_BYTES, Metrics
from fedgrove.node.protocol.members_metrics import MembersStatement
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.protocol.terms import FederationConfig


@dataclass(eq=False, repr=False)
class MetricsWatch:
    """Reads what the last round that stands says of the members' metrics, each statement once.

    Nothing is read under terms without ``[evaluation]``.
    """

    store: ContentReader
    config: FederationConfig
    _known: dict[bytes, MembersStatement | None] = field(default_factory=dict)

    def stated(self, rounds: Rounds) -> MembersStatement | None:
        """The members' metrics that the last round that stands states; None where there are none; raises StoreError."""
        base = rounds.base
        if self.config.evaluation is None or base is None:
            return None
        digest = base.result.metrics_digest
        if digest not in self._known:
            self._known = {digest: _members(self.store.fetch(digest, MAX_JSON_BYTES))}
        return self._known[digest]

    def ending(self, rounds: Rounds) -> str:
        """Why the terms' patience lets no round follow, in one clause; empty where one can. Raises as ``stated``.

        After the training has ended one round follows, in which the members evaluate the last model.
        """
        stated = self.stated(rounds) if self.config.federation.patience else None
        return stated.ending if stated is not None and stated.last else ""


def _members(data: bytes) -> MembersStatement | None:
    """The part about members; None where the metrics are none, which is for members to dispute."""
    try:
        return Metrics.from_bytes(data).members
    except InvalidContent:
        return None
