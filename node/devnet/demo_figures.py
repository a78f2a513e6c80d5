"""Figures of a demonstration's rounds while it runs."""

from collections.abc import Callable, Mapping

from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.network.access import Network
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.devnet.demo import Demo
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.status.figure_targets import EndedRounds, logged_figures

WriteFigures = Callable[[str, int, Mapping[str, float]], None]
"""Takes the name of a run, which is its ledger's address, the number of a round and its figures."""


class DemoFigures:
    """Looks for rounds that have ended; those of a demonstration also have seconds."""

    def __init__(self, network: Network, store: ContentReader, write: WriteFigures) -> None:
        self._network, self._write = network, write
        self._figures = EndedRounds(store)
        self._view: LedgerView | None = None

    def look(self, run: Demo) -> None:
        """Pass on what is new."""
        if self._view is None:
            self._view = LedgerView(Ledger(self._network, run.founded))
        self._view.refresh()
        for each in self._figures.new(self._view.rounds):
            figures = {**logged_figures(each), "seconds": run.seconds.get(each.round, 0.0)}
            self._write(run.founded.ledger, each.round, figures)
