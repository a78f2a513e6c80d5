"""Contents of a finished run's ledger and store, round by round, unchecked: ``fedgrove.audit`` checks them."""

from dataclasses import dataclass
from functools import cached_property
from os import PathLike, path
from pathlib import Path
from typing import Any

from fedgrove.chain.history import LedgerHistory
from fedgrove.chain.records import Closed, Failed, Record
from fedgrove.ipfs.disk import DiskReader
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.audit.archive import NoArchive
from fedgrove.node.audit.run_files import LEDGER, STORE
from fedgrove.node.methods.terms import fetch_method
from fedgrove.node.protocol.content import MAX_JSON_BYTES, Metrics, Model
from fedgrove.node.protocol.method import Method
from fedgrove.node.protocol.rounds import RoundRecords, Rounds


@dataclass(frozen=True)
class Round:
    """One round of a run.

    Attributes
    ----------
    number : int
        From 1.
    outcome : str
        ``closed``, ``voided``, ``skipped``, ``failed: REASON``, or ``running`` where the history ends in it.
    drawn, committed : tuple of int
        Clients (indices on the ledger) that drew, and those whose uploads are listed.
    metrics : Metrics or None
        What was stated of the model that it closed with; None for a round that did not close.
    model_cid : str
        CID of that model, else of the one that it trained from.
    """

    number: int
    outcome: str
    drawn: tuple[int, ...]
    committed: tuple[int, ...]
    metrics: Metrics | None
    model_cid: str


class History:
    """A run's directory, as ``fedgrove demo --out`` leaves it: rounds, records, models.

    Parameters
    ----------
    run : path
        The directory.

    Raises
    ------
    NoArchive
        The directory holds no run.
    fedgrove.chain.history.BadHistory
        Its ledger is no chain of blocks with all records.
    """

    def __init__(self, run: str | PathLike[str]) -> None:
        self.directory = Path(run)
        if not path.lexists(self.directory / LEDGER):
            raise NoArchive(
                f"{self.directory} does not hold a run: it has no {LEDGER}; give the directory of `demo --out`"
            )
        self.ledger = LedgerHistory.load(self.directory / LEDGER)
        self.ledger.verify()
        self._store = DiskReader(self.directory / STORE)

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """All records of the contracts, in the order of the chain, each with its author."""
        return tuple(self.ledger.records())

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds, in their order."""
        return tuple(self._round(each) for each in self._sorted.rounds.values())

    @cached_property
    def terms(self) -> dict[str, Any]:
        """The terms: the tables of the federation's TOML file; empty before the first round."""
        return self._method.config.to_tables() if self._sorted.rounds else {}

    def model(self, number: int | None = None) -> Model:
        """The model that round ``number`` closed with; by default, the model in force at the end.

        Returns
        -------
        mapping of str to float32 array
            Tensors by name; with K-means or clusters the state that such a round leaves.

        Raises
        ------
        KeyError
            There is no such round, or it did not close.
        StoreError, InvalidModel
            The store does not have the model.
        """
        if not self._sorted.rounds:
            raise KeyError("the history has no round")
        if number is None:
            return self._method.fetch_model(self._store, self._sorted.model_digest)
        end = self._sorted.rounds[number].end if number in self._sorted.rounds else None
        if not isinstance(end, Closed):
            raise KeyError(f"round {number} did not close")
        return self._method.fetch_model(self._store, end.model_digest)

    @cached_property
    def _sorted(self) -> Rounds:
        rounds = Rounds()
        for record in self.records:
            rounds.add(record)
        return rounds

    @cached_property
    def _method(self) -> Method:
        first = next(iter(self._sorted.rounds.values()))
        return fetch_method(self._store, first.opened.config_digest)

    def _round(self, records: RoundRecords) -> Round:
        end = records.end
        closed = end if isinstance(end, Closed) else None
        digest = closed.model_digest if closed else records.opened.model_digest
        cid = cid_of(self._store.fetch(digest, self._method.config.max_blob_bytes))
        metrics = self._store.fetch(closed.metrics_digest, MAX_JSON_BYTES) if closed else None
        return Round(
            records.number,
            _outcome(records),
            tuple(records.draws),
            tuple(records.commits),
            Metrics.from_bytes(metrics) if metrics is not None else None,
            str(cid),
        )


def _outcome(records: RoundRecords) -> str:
    if records.voided is not None:
        return "voided"
    if isinstance(records.end, Failed):
        return f"failed: {records.end.reason.name.lower()}"
    return type(records.end).__name__.lower() if records.end is not None else "running"
