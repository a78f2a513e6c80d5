"""The members' metrics in ``fedgrove status``: read from the ledger, and the last round's statement from the store."""

from dataclasses import dataclass
from typing import Any

from fedgrove.ipfs.store import ContentReader, StoreError
from fedgrove.node.protocol.ending import MetricsWatch
from fedgrove.node.protocol.members_metrics import MembersStatement, told_of
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.protocol.terms import FederationConfig


@dataclass(frozen=True)
class MembersSight:
    """Result of one look.

    Attributes
    ----------
    stated : MembersMetrics, MembersRates or None
        Of the last round that stands, for the model that it began with; None where there is nothing.
    over : str
        Why the training has ended by them, in one clause; empty where it has not, or while a round runs.
    fault : str
        Why nothing of this can be told, in one sentence.
    """

    stated: MembersStatement | None = None
    over: str = ""
    fault: str = ""

    def to_dict(self) -> dict[str, Any] | None:
        """A JSON-ready form."""
        return self.stated.to_report() if self.stated is not None else None

    def rows(self) -> list[tuple[str, str]]:
        """Name and value of what people are shown."""
        if self.fault or self.stated is None:
            return [("members", self.fault)] if self.fault else []
        if not self.stated.there:
            return [
                ("members", f"void, as {self.stated.void}" if self.stated.void else "no member evaluated the model")
            ]
        model = "the last model" if self.stated.last else "the model before the last round"
        return [("members", f"{told_of(self.stated.to_figures())}, for {model}")]


class MembersLook:
    """Looks again and again; what was read last is not read again.

    Parameters
    ----------
    terms : FederationConfig
        With an evaluation.
    store : ContentReader
        Of this member.
    """

    def __init__(self, terms: FederationConfig, store: ContentReader) -> None:
        self._watch = MetricsWatch(store, terms)

    def look(self, rounds: Rounds) -> MembersSight:
        """What the last round states of the members' metrics."""
        latest = rounds.latest
        try:
            stated, ended = self._watch.stated(rounds), latest is not None and latest.end is not None
            return MembersSight(stated, self._watch.ending(rounds) if ended else "")
        except StoreError as fault:
            return MembersSight(fault=f"unknown, because the metrics cannot be read: {fault}")
