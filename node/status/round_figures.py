"""Figures of rounds that have ended, from ledger and store, for logs that draw curves."""

from collections.abc import Iterator

from fedgrove.ipfs.store import ContentReader
from fedgrove.node.protocol.content import InvalidBlob, fetch_metrics
from fedgrove.node.protocol.rounds import RoundRecords, Rounds


class RoundFigures:
    """Tells each round once.

    Parameters
    ----------
    store : ContentReader
        Where closed rounds' metrics are.
    """

    def __init__(self, store: ContentReader) -> None:
        self._store = store
        self._told: set[int] = set()

    def new(self, rounds: Rounds) -> Iterator[tuple[int, dict[str, float]]]:
        """Number and figures of each round that has ended since the last call.

        Raises
        ------
        StoreError
            A round's metrics cannot be read; a later call begins with this round.
        """
        for current in rounds.ended():
            if current.number not in self._told:
                figures = _counts(current) | (self._stated(current) if current.stands else {})
                self._told.add(current.number)
                yield current.number, figures

    def _stated(self, current: RoundRecords) -> dict[str, float]:
        """What the closing says of the model; nothing where that is not readable, which is for members to dispute."""
        try:
            metrics = fetch_metrics(self._store, current.closing.metrics_digest)
        except InvalidBlob:
            return {}
        found = {"loss": metrics.loss, "samples": metrics.samples} if metrics.samples else {}
        found |= {"accuracy": metrics.accuracy} if metrics.samples and metrics.accuracy is not None else {}
        parts = {"members": metrics.members.to_figures() if metrics.members else {}}
        parts["privacy"] = metrics.privacy.to_table() if metrics.privacy else {}
        return found | {f"{part}_{name}": value for part, named in parts.items() for name, value in numbers(named)}


def numbers(named: dict) -> Iterator[tuple[str, float]]:
    """The entries whose values are numbers."""
    for name, value in named.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield name, value


def _counts(current: RoundRecords) -> dict[str, float]:
    ended = current.ending.at.block - current.opened.opened_at
    return {"drawn": len(current.draws), "committed": len(current.commits), "blocks": ended}
