"""How an update becomes what a client uploads, and how uploads become the next model."""

from abc import ABC, abstractmethod
from typing import Generic

from fedgrove.node.masking.graph import Group
from fedgrove.node.masking.keys import RoundSecrets
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.protocol.cells import Cells
from fedgrove.node.protocol.content import ModelT, UpdateT
from fedgrove.node.protocol.round_inputs import Outcome, RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.terms import FederationConfig


class Codec(ABC, Generic[ModelT, UpdateT]):
    """One mechanism's uploads. Stateless except for the terms; every method is a function of its arguments.

    Whatever is computed from uploads is computed from public records alone, so that the coordinator, every client and
    the auditor get the same bytes.

    Attributes
    ----------
    weighs_samples : bool
        Updates are weighted by the clients' sample counts; else a client need not state its own.
    """

    weighs_samples: bool = True

    def __init__(self, config: FederationConfig) -> None:
        self.config = config

    @abstractmethod
    def check_model(self, model: ModelT, number: int) -> None:
        """Raise InvalidContent, with the reason, if round ``number`` cannot start from this model under these terms."""

    @abstractmethod
    def expected_bytes(self, inputs: RoundInputs[ModelT], client: int) -> int:
        """Exact size of a client's upload in a round, whose list of shares is final."""

    @abstractmethod
    def encode(self, inputs: RoundInputs[ModelT], client: int, secrets: RoundSecrets, update: UpdateT) -> bytes:
        """Make a client's upload. Called once a round: what it returns is in the journal before anybody sees it.

        Parameters
        ----------
        client : int
            Index on the ledger.
        secrets : RoundSecrets
            Its secrets of the round.
        update : UpdateT
            The locally trained model, or what else a client computed.

        Raises
        ------
        MaskingRefused, InvalidContent
            The client cannot take part; the message says why.
        """

    def groups(self, cells: Cells, current: RoundRecords) -> tuple[Group, ...]:
        """Who is summed apart in a sealed round after one that was spoilt; empty: all are summed in one."""
        return ()

    def metric_limits(self) -> tuple[int, ...]:
        """The largest value of each word behind a model's, where terms with bounds let members prove that."""
        return ()

    def remark(self, inputs: RoundInputs[ModelT], update: UpdateT) -> str:
        """Remark for people on the upload made of ``update``, in one clause; empty if there is none."""
        return ""

    def caution(self, inputs: RoundInputs[ModelT], update: UpdateT) -> str:
        """What people must look at in the upload made of ``update``, in one clause; empty if there is nothing."""
        return ""

    def detail(self, update: UpdateT) -> str:
        """What the caution leaves out, as it may quote the data: for the member's own terminal; empty for nothing."""
        return ""

    @abstractmethod
    def outcome(self, inputs: RoundInputs[ModelT], record: RecoveryRecord) -> Outcome[ModelT]:
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
            An upload is not what it must be (the message names the client), or no honest uploads give this sum.
        """
