"""The last round that left a model, for ``fedgrove status``: its figures, and whether it was the last of all."""

from dataclasses import dataclass

from fedgrove.ipfs.store import ContentReader, StoreError
from fedgrove.node.protocol.ending import MetricsWatch
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.status.rounds import Round, RoundReader


@dataclass(frozen=True)
class LastRound:
    """Result of one look.

    Attributes
    ----------
    found : Round or None
        The last round that stands; None before the first.
    over : str
        Why the training has ended by the members' loss, in one clause; empty where it has not, or while a round runs.
    fault : str
        Why nothing can be told of it, in one sentence.
    """

    found: Round | None = None
    over: str = ""
    fault: str = ""

    def rows(self) -> list[tuple[str, str]]:
        """Name and value of what people are shown."""
        if self.fault or self.found is None:
            return [("last model", self.fault)] if self.fault else []
        figures = {"accuracy": self.found.accuracy, "loss": self.found.loss}
        known = [f"{name} {value:.4f}" for name, value in figures.items() if value is not None]
        rows = [("last model", f"of round {self.found.round}" + (f": {', '.join(known)}" if known else ""))]
        if self.found.members is None:
            return rows
        model = "the last model" if self.found.only_evaluated else "the model before the last round"
        return [*rows, ("members", f"{self.found.members_found}, for {model}")]


class LastRoundReader:
    """Looks again and again; what was read last is not read again.

    Parameters
    ----------
    terms : FederationConfig
    store : ContentReader
        Of this member.
    """

    def __init__(self, terms: FederationConfig, store: ContentReader) -> None:
        self._reader = RoundReader(store, strict=False)
        self._watch = MetricsWatch(store, terms)

    def read(self, rounds: Rounds) -> LastRound:
        """The last round that left a model."""
        base, latest = rounds.base, rounds.latest
        if base is None:
            return LastRound()
        try:
            over = self._watch.ending(rounds) if latest is not None and latest.end is not None else ""
            return LastRound(self._reader.one(rounds, base), over)
        except StoreError as fault:
            return LastRound(fault=f"unknown, because the store cannot be read: {fault}")
