"""A client's part of a round of federated K-means: forget what is due, and say what has changed.

A request on the ledger is applied once: its points are overwritten in the client's notebook, which is in its journal
before anybody sees what follows from it, and nothing can bring them back.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from chain.records import Withdrawn
from ipfs.store import ContentStore
from node.config import FederationConfig
from node.content import fetch_model
from node.journal import Journal
from node.kmeans.client import Client as Clusterer
from node.kmeans.client import UnknownPoint
from node.kmeans.counts import BinCounts
from node.kmeans.exchange import exchange
from node.kmeans.state import State
from node.local_work import CannotTakePart
from node.rounds import RoundRecords, Rounds
from node.unlearning.notebook import Notebook, begin, read_notebook, write_notebook
from node.unlearning.request import InvalidRequest, Request, name_of
from node.uploads.clustering import requests_of


class LocalClustering:
    """Clusters a client's points, forgets what it was asked to forget, and says what has changed.

    Parameters
    ----------
    store : ContentStore
        For the state that a round starts from.
    config : FederationConfig
    points : float array of shape (n, d)
        The private data. Looked at once: from then on the journal has them, without those that were removed.
    journal : Journal
    rounds : callable
        The ledger as the client sees it now.
    """

    def __init__(
        self,
        store: ContentStore,
        config: FederationConfig,
        points: np.ndarray,
        journal: Journal,
        rounds: Callable[[], Rounds],
    ) -> None:
        self._store = store
        self._config = config
        self._given = points
        self._journal = journal
        self._rounds = rounds
        self._notebook: Notebook | None = None
        self._clusterer: Clusterer | None = None

    def samples(self, entry: RoundRecords, client: int) -> int:
        """How many points the client has in a round.

        Raises
        ------
        CannotTakePart
            None; or the ledger shows a request that this client's journal knows nothing of.
        """
        return len(self._up_to_date(entry, client))

    def result(self, entry: RoundRecords, client: int) -> BinCounts:
        """What its vector has gained and lost since the round in which it was summed last.

        Raises
        ------
        CannotTakePart
        InvalidModel
            The state that the round starts from is none.
        """
        clusterer = self._up_to_date(entry, client)
        before: State = fetch_model(self._store, entry.opened.model_digest, self._config)
        requests = requests_of(self._rounds(), before, entry.opened.opened_at)
        planned = exchange(self._config.clustering, before, {client: len(clusterer)}, requests, bytes(32))
        if client not in planned.expected:
            return BinCounts.empty(self._config.clustering.dimensions)
        summed = before.contributions[client].round if client in before.contributions else 0
        vector = self._noted(entry.number, summed, clusterer)
        if client not in planned.base.contributions:
            return vector
        if summed not in self._notebook.vectors:
            raise CannotTakePart(f"its journal has lost what it sent in round {summed}, so it cannot take it back")
        return vector - self._notebook.vectors[summed]

    def _noted(self, number: int, summed: int, clusterer: Clusterer) -> BinCounts:
        """The vector of a round, which a later round can subtract once it is in the notebook.

        Of those before, the one summed last stays, and the one before it: a dispute may make that the last again.
        """
        vectors = self._notebook.vectors
        if number not in vectors:
            earlier = [old for old in vectors if old < summed]
            kept = {old: vector for old, vector in vectors.items() if old >= summed or old == max(earlier)}
            self._save(replace(self._notebook, vectors={**kept, number: clusterer.vector()}))
        return self._notebook.vectors[number]

    def _up_to_date(self, entry: RoundRecords, client: int) -> Clusterer:
        """The clusterer, all requests applied that were on the ledger when the round was opened."""
        asked = [record for record in self._rounds().withdrawals if record.client == client]
        due = [record for record in asked if record.at.block <= entry.opened.opened_at]
        clusterer = self._open()
        for record in due:
            if record.digest.hex() not in self._notebook.applied:
                self._apply(clusterer, record)
        if not len(clusterer):
            raise CannotTakePart("it has asked the federation to forget all its points, one by one")
        return clusterer

    def _apply(self, clusterer: Clusterer, record: Withdrawn) -> None:
        """Forget what a request names, and save that; before it is saved nobody has seen anything of it."""
        data = self._journal.kept(name_of(record.digest))
        self._clusterer = None  # until it is saved, the journal is right
        try:
            rows = Request.from_bytes(data or b"").rows
            clusterer.forget(np.array(rows, np.intp))
        except (InvalidRequest, UnknownPoint) as fault:
            raise CannotTakePart(
                f"the ledger has a request of it (block {record.at.block}) to forget {record.points} points, which its "
                f"journal cannot name ({fault}): withdraw all"
            ) from None
        applied = (*self._notebook.applied, record.digest.hex())
        left = replace(self._notebook, points=clusterer.points, centroids=clusterer.seeding.centroids, applied=applied)
        self._save(left)
        self._clusterer = clusterer

    def settle(self, client: int) -> None:
        """Nothing: points stay until their client takes them back."""

    def leave(self) -> None:
        """Forget every point."""
        notebook = read_notebook(self._journal)
        if notebook is None or not np.isnan(notebook.points).all():
            shape = self._given.shape if notebook is None else notebook.points.shape
            self._clusterer = None
            self._save(Notebook(np.full(shape, np.nan), np.empty(0, np.int64)))

    def _open(self) -> Clusterer:
        if self._clusterer is not None:
            return self._clusterer
        notebook = read_notebook(self._journal)
        if notebook is None:
            notebook = begin(self._journal, self._given, self._config.clustering)
        self._notebook = notebook
        self._clusterer = notebook.clusterer(self._config.clustering)
        return self._clusterer

    def _save(self, notebook: Notebook) -> None:
        write_notebook(self._journal, notebook)
        self._notebook = notebook
