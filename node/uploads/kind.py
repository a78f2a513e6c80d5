"""What every kind of upload does, and the public inputs that it does it from."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

from ipfs.store import ContentStore
from node.config import FederationConfig
from node.content import fetch_model
from node.masking.graph import MaskGraph
from node.masking.keys import RoundSecrets
from node.masking.recovery import RecoveryRecord
from node.privacy.records import PrivacyRecord
from node.rounds import RoundRecords, Rounds
from node.tensors import Layout, Tensors


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
    model : Tensors, optional
        The global model that the round trains from, where it is at hand.
    """

    rounds: Rounds
    entry: RoundRecords
    graph: MaskGraph
    config: FederationConfig
    store: ContentStore
    model: Tensors | None = None

    @cached_property
    def previous(self) -> Tensors:
        """The global model that the round trains from."""
        if self.model is not None:
            return self.model
        return fetch_model(self.store, self.entry.opened.model_digest, self.config)

    @cached_property
    def layout(self) -> Layout:
        """The model's tensors."""
        return Layout.of(self.previous)

    @property
    def sharers(self) -> tuple[int, ...]:
        """Positions of those who are to upload."""
        return self.entry.positions(self.entry.shares)

    @property
    def survivors(self) -> tuple[int, ...]:
        """Positions of those whose uploads are listed."""
        return self.entry.positions(self.entry.commits)


@dataclass(frozen=True)
class Outcome:
    """What a round came to: the next global model, and what was released about the clients (None: nothing private)."""

    model: Tensors
    privacy: PrivacyRecord | None = None


class UploadKind(ABC):
    """One mechanism. Stateless but for the terms; every method is a function of its arguments.

    Parameters
    ----------
    config : FederationConfig
        The terms.
    """

    def __init__(self, config: FederationConfig) -> None:
        self.config = config

    @abstractmethod
    def upload_bytes(self, layout: Layout) -> int:
        """Exact size of every upload for a model of this layout."""

    @abstractmethod
    def encode(self, round: UploadRound, client: int, secrets: RoundSecrets, update: Tensors) -> bytes:
        """Make a client's upload. Called once a round: what it returns is in the journal before anybody sees it.

        Parameters
        ----------
        client : int
            Index on the ledger.
        secrets : RoundSecrets
            Its secrets of the round.
        update : Tensors
            The locally trained model.

        Raises
        ------
        MaskingRefused, InvalidVector
            The client cannot take part; the message says why.
        """

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
            An upload is not what it must be; the message names the client.
        """
