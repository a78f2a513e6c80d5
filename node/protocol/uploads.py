"""What every kind of upload does, and the public inputs that it does it from."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from fedgrove.ipfs.store import ContentStore
from fedgrove.node.base.tensors import InvalidModel, Layout, Tensors, flatten
from fedgrove.node.masking.graph import MIN_CLIENTS, Adjacency, MaskGraph
from fedgrove.node.masking.keys import RoundSecrets
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.methods.procfl.stated import Stated
from fedgrove.node.privacy.accountant import Release
from fedgrove.node.privacy.records import PrivacyRecord
from fedgrove.node.protocol.content import MAX_JSON_BYTES, Metrics, Model, Update, fetch_model
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import FederationConfig


@dataclass(frozen=True)
class UploadRound:
    """All that uploads and their sum depend on beside the updates; everybody has it.

    Attributes
    ----------
    rounds : Rounds
        The ledger, at least up to this round.
    entry : RoundRecords
        The round, with its order sealed.
    graph : MaskGraph
        Who masks with whom in it.
    config : FederationConfig
        The terms.
    store : ContentStore
        Where models, metrics and uploads are.
    model : Model, optional
        The global model that the round trains from, where it is at hand; where there are clusters always, and with it
        what follows from that which was stated of the round before.
    """

    rounds: Rounds
    entry: RoundRecords
    graph: MaskGraph
    config: FederationConfig
    store: ContentStore
    model: Model | None = None

    @cached_property
    def previous(self) -> Model:
        """The global model that the round trains from."""
        if self.model is not None:
            return self.model
        return fetch_model(self.store, self.entry.opened.model_digest, self.config)

    @cached_property
    def layout(self) -> Layout:
        """The model's tensors."""
        return Layout.of(self.previous)

    def change(self, update: Tensors) -> np.ndarray:
        """Δ, the trained tensors less the global model's: float32 (d,), not finite where they are too large.

        Raises
        ------
        InvalidModel
            Other tensors than the model's.
        """
        if Layout.of(update) != self.layout:
            raise InvalidModel("the trained model has other tensors than the round's global model")
        with np.errstate(over="ignore", invalid="ignore"):
            return flatten(update) - flatten(self.previous)

    @cached_property
    def base(self) -> PrivacyRecord | None:
        """What the round recorded that left the model; None for the first model.

        Raises
        ------
        InvalidBlob
            Its metrics are none.
        """
        entry = self.rounds.base_of(self.entry.number)
        if entry is None:
            return None
        return Metrics.from_bytes(self.store.fetch(entry.end.metrics_digest, MAX_JSON_BYTES)).privacy

    @property
    def sharers(self) -> tuple[int, ...]:
        """Positions of those who are to upload."""
        return self.entry.positions(self.entry.shares)

    def sums(self, client: int) -> bool:
        """Whether a client's upload is to be part of a sum: where groups are summed apart, it may be in none."""
        position = self.entry.order.index(client)
        return not self.graph.groups or any(position in group for group in self.graph.groups)

    @property
    def survivors(self) -> tuple[int, ...]:
        """Positions of those whose uploads are listed."""
        return self.entry.positions(self.entry.commits)


@dataclass(frozen=True)
class Outcome:
    """What a round came to: the next global model, and what was released about the clients (None: no mechanism).

    A kind leaves ``privacy.epsilon`` open; it depends on all rounds, not on this one (``node.protocol.aggregation``).
    """

    model: Model
    privacy: PrivacyRecord | None = None


class UploadKind(ABC):
    """One mechanism. Stateless but for the terms; every method is a function of its arguments.

    Parameters
    ----------
    config : FederationConfig
        The terms.

    Attributes
    ----------
    weighs_samples : bool
        Updates are weighted by the clients' sample counts; else a client need not tell its own.
    has_leaders : bool
        Some clients repeat the sum of a closed round in any case.
    everybody_spends : bool
        A round costs all clients the same, whoever took part.
    tells_when_opened : bool
        An upload tells nothing before holders release shares that take its masks off; else it tells when it is there.
    budget : float or None
        ε that no client may exceed; None sets no limit.
    delta : float
        δ at which every ε is stated.
    """

    weighs_samples: ClassVar[bool] = True
    has_leaders: ClassVar[bool] = False
    everybody_spends: bool = False
    tells_when_opened: ClassVar[bool] = False
    budget: float | None = None
    delta: float = 0.0

    def __init__(self, config: FederationConfig) -> None:
        self.config = config

    @abstractmethod
    def upload_bytes(self, layout: Layout) -> int:
        """Exact size of every upload for a model of this layout.

        Raises
        ------
        ValueError
            The terms' mechanism does not suit such a model; the message says why.
        """

    def check_model(self, model: Model, number: int) -> None:
        """Raise ValueError if round ``number`` cannot start from such a model under these terms; it says why."""
        try:
            self.upload_bytes(Layout.of(model))
        except ValueError as fault:
            raise ValueError(f"privacy: {fault}") from None

    def expected_bytes(self, round: UploadRound, client: int) -> int:
        """Exact size of a client's upload in a round, whose list of shares is final."""
        return self.upload_bytes(round.layout)

    def parts(self, n: int) -> Adjacency:
        """Leaf positions of n clients that are summed apart after a spoilt round; empty: all together, as always."""
        return ()

    def least(self, n: int) -> int:
        """How many of such a part must survive for it to be summed."""
        return MIN_CLIENTS

    def is_summed(self, entry: RoundRecords, client: int) -> bool:
        """Whether a client's upload in a sealed round is to be part of a sum, or may be of one."""
        return True

    def fault_of(self, model: Model, metrics: Metrics) -> str:
        """What is wrong with a closed round's metrics beside privacy, in one clause; empty if nothing."""
        return "they state something of clusters" if metrics.clusters is not None else ""

    @abstractmethod
    def encode(self, round: UploadRound, client: int, secrets: RoundSecrets, update: Update) -> bytes:
        """Make a client's upload. Called once a round: what it returns is in the journal before anybody sees it.

        Parameters
        ----------
        client : int
            Index on the ledger.
        secrets : RoundSecrets
            Its secrets of the round.
        update : Update
            The locally trained model, or what else a client computed.

        Raises
        ------
        MaskingRefused, InvalidVector
            The client cannot take part; the message says why.
        """

    def remark(self, round: UploadRound, update: Update) -> str:
        """What people should know of an upload that was made of ``update``, in a clause; empty when nothing."""
        return ""

    def in_place_of_diverged(self, round: UploadRound) -> Tensors | None:
        """The update of a client whose training diverged; None: it sits out, and others learn of it."""
        return None

    @abstractmethod
    def outcome(self, round: UploadRound, record: RecoveryRecord) -> Outcome:
        """Sum the uploads that the ledger lists and return the next model; the same bytes for everybody.

        Parameters
        ----------
        record : RecoveryRecord
            The round's recovery, checked.

        Raises
        ------
        StoreError
            An upload cannot be fetched.
        InvalidUpdate
            An upload is not what it must be (the message names the client), or no honest uploads give such a sum.
        """

    def standing(self, model: Model, stated: Stated | None) -> Model:
        """What goes on from a round that closes with a model, and with what is stated of it."""
        return model

    def leaders(self, round: UploadRound) -> tuple[int, ...]:
        """Who repeats the sum of a closed round, whatever else it looks at."""
        return ()

    def repeats(self, round: UploadRound, client: int) -> bool:
        """Whether a client repeats the sum of a closed round, whatever else it looks at.

        Raises
        ------
        StoreError
        """
        return client in self.leaders(round)

    def due(self, rounds: Rounds, model: Callable[[], Model], block: int) -> int | None:
        """From which block on the next round is to be opened, past or to come; None: nobody needs one.

        Parameters
        ----------
        rounds : Rounds
            The ledger; its latest round has ended.
        model : callable
            Fetches the model that stands.
        block : int
            The latest.
        """
        return 0

    # --- accounting -------------------------------------------------------------------------------------------------

    @abstractmethod
    def planned_release(self, number: int, parameters: int) -> Release:
        """What a round will tell of a client that takes part, if nothing unforeseen happens; d ``parameters``."""

    @abstractmethod
    def release(self, entry: RoundRecords, parameters: int) -> Release:
        """What a round tells of a client whose upload is listed.

        Parameters
        ----------
        entry : RoundRecords
            The round; its lists of shares and commitments are final.
        parameters : int
            d, of the model.
        """

    def release_to_readers(self, entry: RoundRecords, parameters: int) -> Release:
        """What a round tells of a client whose upload is listed, towards those who can read the ledger."""
        return self.release(entry, parameters)

    def unfit(self, number: int, members: int) -> str:
        """Why a round with so many members is not what the accounting counts on, in one clause; empty when it is."""
        return ""

    def later_phases(self, number: int) -> tuple[int, ...]:
        """Rounds after ``number`` from which on ``planned_release`` is another."""
        return ()
