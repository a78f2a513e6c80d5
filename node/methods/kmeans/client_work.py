"""A client's part of a round of federated K-means: forget what is due, and draw a vector of what is left.

A request on the ledger is applied once: its points are overwritten in the client's notebook, which is in its journal
before anybody sees what follows from it, and nothing can bring them back. Of a vector nothing is kept: the next sum
gets another.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fedgrove.chain.records import Withdrawn
from fedgrove.common.errors import InvalidInput
from fedgrove.common.wire import Malformed
from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.notebook import Notebook, begin, read_notebook, write_notebook
from fedgrove.node.methods.kmeans.request import Request, name_of
from fedgrove.node.methods.kmeans.round_inputs import exchange_of
from fedgrove.node.methods.kmeans.state import KMeansState
from fedgrove.node.methods.kmeans.terms import terms_of
from fedgrove.node.methods.kmeans.vector import draw_vector, stated_bound
from fedgrove.node.protocol.journal import Journal
from fedgrove.node.protocol.local_work import CannotTakePart
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import FederationConfig


@dataclass(eq=False, repr=False)
class LocalClustering:
    """Forgets what a client was asked to forget, and clusters the points that are left.

    ``given``, the points as a float array (n, d), is looked at once: from then on the journal has them, without those
    that were removed.
    """

    config: FederationConfig
    given: np.ndarray
    journal: Journal
    rounds: Callable[[], Rounds]
    inputs: Callable[[RoundRecords], RoundInputs[KMeansState]]
    _notebook: Notebook | None = None
    _drawn: tuple[tuple, BinCounts] | None = None

    def samples(self, current: RoundRecords, client: int) -> int:
        """How many points the client counts at most in a round: not how many it has.

        Raises
        ------
        CannotTakePart
            None; or the ledger shows a request that this client's journal knows nothing of.
        """
        most = self.config.ledger.max_samples
        count = len(self._points(current, client))
        if count > most:
            raise CannotTakePart(f"it has {count} points, but the terms allow {most} (ledger.max_samples)")
        return min(stated_bound(count), most)

    def result(self, current: RoundRecords, client: int, last: bool = False) -> BinCounts:
        """The client's vector for a round's sum, drawn afresh; the empty one where the round sums nothing of it.

        The same for the rest of the round. After a restart it is another, and nobody has seen the first: once it
        is under masks it is in the journal (``node.roles.disclosure``).

        Raises CannotTakePart, InvalidContent.
        """
        points = self._points(current, client)
        if exchange_of(self.inputs(current)).sum_of(client) is None:
            return BinCounts.empty(terms_of(self.config).dimensions)
        drawn_for = (current.number, self._open().applied)
        if self._drawn is None or self._drawn[0] != drawn_for:
            self._drawn = drawn_for, draw_vector(points, terms_of(self.config), _fresh())
        return self._drawn[1]

    def _points(self, current: RoundRecords, client: int) -> np.ndarray:
        """Points that remain after applying all requests that were on the ledger when the round opened."""
        for record in self.rounds().withdrawals:
            due = record.client == client and record.at.block <= current.opened.opened_at
            if due and record.digest.hex() not in self._open().applied:
                self._apply(record)
        left = self._open().left
        if not len(left):
            raise CannotTakePart("it has asked the federation to forget all its points, one by one")
        return left

    def _apply(self, record: Withdrawn) -> None:
        """Forget what a request names, and save that; before it is saved nobody has seen anything of it."""
        data = self.journal.kept(name_of(record.digest))
        try:
            left = self._open().without(Request.from_bytes(data or b"").rows)
        except (Malformed, InvalidInput) as fault:
            raise CannotTakePart(
                f"the ledger has a request of it (block {record.at.block}) to forget {record.points} points, which its "
                f"journal cannot name ({fault}): withdraw all"
            ) from None
        self._save(replace(left, applied=(*left.applied, record.digest.hex())))

    def settle(self, client: int) -> None:
        """Nothing: points stay until their client takes them back."""

    def leave(self) -> None:
        """Forget every point."""
        notebook = read_notebook(self.journal)
        if notebook is None or len(notebook.left):
            shape = self.given.shape if notebook is None else notebook.points.shape
            self._drawn = None
            self._save(Notebook(np.full(shape, np.nan)))

    def _open(self) -> Notebook:
        if self._notebook is None:
            self._notebook = read_notebook(self.journal) or begin(self.journal, self.given, terms_of(self.config))
        return self._notebook

    def _save(self, notebook: Notebook) -> None:
        write_notebook(self.journal, notebook)
        self._notebook = notebook


def _fresh() -> np.random.Generator:
    """Randomness that nobody can know or repeat."""
    return np.random.default_rng(int.from_bytes(os.urandom(32)))
