"""How often the cell of each member was summed: among members whose cells never are, people look for who spoils."""

from typing import Any

from fedgrove.ipfs.store import ContentStore
from fedgrove.node.methods.terms import method_of
from fedgrove.node.methods.training.masked import MaskedUploads
from fedgrove.node.protocol.aggregation import named_recovery
from fedgrove.node.protocol.cells import Cells
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.openings import Openings
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import FederationConfig


class CellReader:
    """Reads what became of cells in the rounds that were summed in them; a round that was read is not read again.

    Parameters
    ----------
    place : (int, str)
        Chain id, and the ledger's address.
    """

    def __init__(self, terms: FederationConfig, store: ContentStore, place: tuple[int, str]) -> None:
        self._terms, self._store, self._place = terms, store, place
        self._known: dict[tuple[object, ...], dict[int, bool]] = {}

    def read(self, view: LedgerView) -> dict[str, Any]:
        """``clean``: by client, how often its cell was summed, and of how many rounds that somebody may have read.

        Raises StoreError, InvalidContent: a closing's recovery record, or an update, cannot be read.
        """
        rounds = view.rounds
        counts: dict[int, tuple[int, int]] = {}
        openings = Openings(rounds, self._terms)
        for each in rounds.ended():
            if each.apart and openings.was_opened(each):
                for client, clean in self._cells_of(rounds, each).items():
                    times, of = counts.get(client, (0, 0))
                    counts[client] = (times + clean, of + 1)
        return {"clean": dict(sorted(counts.items()))}

    def _cells_of(self, rounds: Rounds, current: RoundRecords) -> dict[int, bool]:
        """Of each client whose cell was to be summed in a round, whether it was."""
        key = (current.number, current.result.metrics_digest if current.stands else b"")
        if key not in self._known:
            book = Cells(rounds, self._terms)
            cells = book.clients(current.number)
            waiting = book.waiting(current) if cells else ()
            summed = self._summed(rounds, current) if current.stands and cells else len(cells) * [False]
            self._known[key] = {
                client: clean
                for number, (clients, clean) in enumerate(zip(cells, summed, strict=True))
                for client in clients
                if number not in waiting
            }
        return self._known[key]

    def _summed(self, rounds: Rounds, current: RoundRecords) -> list[bool]:
        """Whether each cell of a round that stands is in the sum."""
        inputs = method_of(self._terms).inputs(rounds, current, self._place, self._store)
        return MaskedUploads(self._terms).clean_groups(inputs, named_recovery(inputs))
