"""Contents of a run's ledger and store, round by round, as they are on record: ``fedgrove.audit`` checks them."""

import weakref
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, path
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedgrove.api.auditing import is_endpoint, read_live
from fedgrove.api.tables import tables_of
from fedgrove.chain.network.history import LedgerHistory
from fedgrove.chain.records import Closed, Record
from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.ipfs.disk import DiskReader
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.audit.archive import no_run, opened_car
from fedgrove.node.audit.run_files import LEDGER, STORE
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.moments import state_dict_of
from fedgrove.node.learning.server_side import without_state
from fedgrove.node.methods.terms import fetch_method
from fedgrove.node.protocol.content import MAX_JSON_BYTES, Model
from fedgrove.node.protocol.method import Method
from fedgrove.node.protocol.prediction import ModelChoice
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.status.rounds import Round, RoundReader, status_of

if TYPE_CHECKING:
    from pandas import DataFrame  # optional
    from torch import Tensor  # optional


@dataclass(frozen=True)
class ModelOrigin:
    """Where a model is on record.

    Attributes
    ----------
    round : int
        The round that closed with it; 0 for the model that the first round trained from.
    status : str
        That round's, ``first`` for round 0.
    cid : str
        The model's CID, whose digest is on the ledger.
    terms_digest : str
        Digest of the terms, hexadecimal.
    ledger, chain_id : str, int
        The TrainingLedger contract's address, and its chain.
    """

    round: int
    status: str
    cid: str
    terms_digest: str
    ledger: str
    chain_id: int

    def to_metadata(self) -> dict[str, str]:
        """By name, as text."""
        return {name: str(value) for name, value in vars(self).items()}


_NO_ROUND = "the history has no round"


class History:
    """A run's rounds, records and models.

    Parameters
    ----------
    run : path, str or LedgerHistory
        A directory, as ``fedgrove demo --out`` leaves it; a CAR file of ``fedgrove audit export``; with ``ledger`` and
        ``store`` the URL of a chain's endpoint (JSON-RPC), whose records up to now are read; or a ledger's history, as
        ``fedgrove.chain.network.history.capture`` reads it.
    store : ContentReader or str, optional
        Blobs of a ledger's history; ``disk:PATH`` or the URL of a Kubo API for that of a URL. A run has its own.
    ledger : str, optional
        Address of the TrainingLedger contract, with a URL.

    Raises
    ------
    InvalidInput
        The directory holds no run.
    InvalidContent
        The CAR file is none, or is damaged.
    fedgrove.chain.network.history.BadHistory
        Its ledger is no chain of blocks with all records.
    InvalidInput, ChainError, StoreError
        As ``fedgrove.api.auditing.read_live``.
    """

    def __init__(
        self,
        run: str | PathLike[str] | LedgerHistory,
        store: ContentReader | str | None = None,
        *,
        ledger: str | None = None,
    ) -> None:
        if isinstance(run, LedgerHistory):
            if store is None or isinstance(store, str):
                raise InvalidInput("the history of a ledger has no blobs: give the store, too")
            self.ledger, self._store = run, store
        elif is_endpoint(run):
            self.ledger, self._store = read_live(str(run), ledger, store)
        elif Path(run).is_file():
            held = ExitStack()
            weakref.finalize(self, held.close)
            kept, self._store = held.enter_context(opened_car(Path(run)))
            self.ledger = LedgerHistory.load(kept)
        else:
            self.ledger, self._store = _kept(Path(run))
        self.ledger.verify()

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """All records of the contracts, in the order of the chain, each with its author."""
        return tuple(self.ledger.records())

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds, in their order.

        Raises
        ------
        StoreError, InvalidContent
            The store lacks the terms, a model's root block or the metrics of a round, or the metrics are malformed.
        """
        return RoundReader(self._store, self.ledger).read(self._sorted)

    def frame(self, table: Literal["rounds", "records", "metrics"] = "rounds") -> "DataFrame":
        """The rounds, records or metrics as a pandas frame, with the columns of ``fedgrove history export``.

        Raises
        ------
        ImportError
            pandas is not installed.
        InvalidInput
            There is no such table.
        """
        import pandas

        tables = tables_of(self.rounds, self.records)
        if table not in tables:
            raise InvalidInput(f"table must be one of {', '.join(tables)}, not {table!r}")
        found = tables[table]
        return pandas.DataFrame(found.rows, columns=list(found.columns))

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

        A running variance travels as a second moment, named ``running_second_moment``; ``state_dict`` has the variance.
        Tensors that a server's step keeps have names that begin with ``server/``; ``state_dict`` leaves it out.

        Raises
        ------
        InvalidInput
            There is no such round, or it did not close.
        StoreError, InvalidContent
            The store does not have the model.
        """
        return self._method.fetch_model(self._store, self._digest(self._closed(number)))

    def state_dict(self, number: int | None = None) -> "dict[str, Tensor]":
        """As ``model``, as torch tensors that ``load_state_dict`` of the task's module takes, with ``strict=False``.

        Tensors that stay at home, and whole numbers such as ``num_batches_tracked``, are not in it.

        Raises
        ------
        ImportError
            torch is not installed.
        InvalidInput, StoreError, InvalidContent
            As ``model``; also where rounds leave another state than tensors, as K-means does.
        """
        import torch

        return {name: torch.tensor(value) for name, value in self.state_arrays(number).items()}

    def state_arrays(self, number: int | None = None) -> Tensors:
        """As ``state_dict``, of arrays; needs no torch."""
        model = self.model(number)
        if not isinstance(model, dict):
            raise InvalidContent(
                "the rounds of this federation leave a state and no single model: read it with `model`"
            )
        return state_dict_of(without_state(model), self._method.config.strategy.name)

    def predicting(self, number: int | None = None, choice: ModelChoice = ModelChoice()) -> Tensors:  # noqa: B008
        """The tensors with which the model that round ``number`` closed with predicts (``Method.one_model``).

        Raises
        ------
        InvalidInput, StoreError, InvalidContent
            As ``model``.
        InvalidConfig
            There is no model to predict with, or the choice names none.
        """
        return self._method.one_model(self.model(number), choice)

    def terms_bytes(self, number: int | None = None) -> bytes:
        """The terms of the round whose model ``model(number)`` is, in their canonical bytes; raises as ``model``."""
        source = self._closed(number) or self._first
        return self._store.fetch(source.opened.config_digest, MAX_JSON_BYTES)

    @property
    def store(self) -> ContentReader:
        """Where the blobs are read from."""
        return self._store

    def origin(self, number: int | None = None) -> ModelOrigin:
        """Where ``model(number)`` is on record; raises as ``model``."""
        source = self._closed(number)
        cid = str(self._store.root(self._digest(source)).cid)
        closed = (0, "first") if source is None else (source.number, status_of(source))
        terms = (source or self._first).opened.config_digest.hex()
        return ModelOrigin(*closed, cid, terms, self.ledger.deployment.ledger, self.ledger.chain_id)

    def _closed(self, number: int | None) -> RoundRecords | None:
        """The round that closed with a model; None for the model that the first round trained from."""
        if not self._sorted.rounds:
            raise InvalidInput(_NO_ROUND)
        if number is None:
            return self._sorted.base
        current = self._sorted.rounds.get(number)
        if current is None or not isinstance(current.end, Closed):
            raise InvalidInput(f"round {number} did not close")
        return current

    def _digest(self, source: RoundRecords | None) -> bytes:
        return source.result.model_digest if source else self._first.opened.model_digest

    @property
    def _first(self) -> RoundRecords:
        for each in self._sorted.rounds.values():
            return each
        raise InvalidInput(_NO_ROUND)

    @cached_property
    def _sorted(self) -> Rounds:
        rounds = Rounds(self.ledger.deployment.settings.quorum)
        for record in self.records:
            rounds.add(record)
        return rounds

    @cached_property
    def _method(self) -> Method[Any, Any, Any]:
        return fetch_method(self._store, self._first.opened.config_digest)


def _kept(directory: Path) -> tuple[LedgerHistory, ContentReader]:
    """Ledger and store of a run's directory."""
    if not path.lexists(directory / LEDGER):
        raise no_run(directory)
    return LedgerHistory.load(directory / LEDGER), DiskReader(directory / STORE)
