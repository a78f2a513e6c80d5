"""Interface of a method, the computation of a federation's rounds. The methods are in ``node.methods``."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sized
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from fedgrove.chain.crypto.keys import Keys
from fedgrove.ipfs.store import ContentReader, ContentStore
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import Layout, Tensors
from fedgrove.node.learning.scores import StatedScores
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.protocol.accounting import Accounting
from fedgrove.node.protocol.codec import Codec
from fedgrove.node.protocol.content import Metrics, ModelT, UpdateT
from fedgrove.node.protocol.journal import Journal
from fedgrove.node.protocol.local_work import LocalWork
from fedgrove.node.protocol.prediction import ModelChoice, OpenTask, Predictor
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.schedule import Schedule
from fedgrove.node.protocol.terms import FederationConfig

DataT = TypeVar("DataT", bound=Sized)
"""What members of one method compute with, and what a coordinator evaluates models on."""


@dataclass(frozen=True)
class Evaluated:
    """How a model does on test data; without samples it was not evaluated.

    Attributes
    ----------
    accuracy : float or None
        Share of right answers in [0, 1]; None where answers are not right or wrong.
    loss, samples : float, int
        Mean loss, and how many samples there are.
    only_class : int or None
        The class that the model predicts for every sample, where the samples have several; else None.
    scores : StatedScores or None
        Further figures; None where there are none.
    """

    accuracy: float | None = None
    loss: float = 0.0
    samples: int = 0
    only_class: int | None = None
    scores: StatedScores | None = None


Evaluator = Callable[[ModelT], Evaluated]

Statements = Callable[[RoundInputs[ModelT], ModelT], Mapping[str, Any] | None]
"""What a coordinator states of a round that ends with a model, with it; None where nothing is called for."""


@dataclass(frozen=True)
class Workplace(Generic[ModelT, DataT]):
    """Inputs of a client's own work.

    Attributes
    ----------
    store : ContentStore
        For models, and what other members published.
    data : DataT
        The private data: whatever the method computes with.
    journal : Journal
        Keeps results and secrets, encrypted.
    executor : Executor or None
        Where long computations run; without one they run inside ``LocalWork.result``.
    rounds : callable
        The ledger as the client sees it now.
    inputs : callable
        The public inputs of a sealed round.
    keys : Keys
        The client's own.
    weight : callable
        The client's own weight in a round (``node.protocol.weight``).
    device : str
        Where a shipped network is trained: ``cpu`` or ``cuda``.
    """

    store: ContentStore
    data: DataT
    journal: Journal
    executor: Executor | None
    rounds: Callable[[], Rounds]
    inputs: Callable[[RoundRecords], RoundInputs[ModelT]]
    keys: Keys
    weight: Callable[[RoundRecords], int]
    device: str = "cpu"


@dataclass(frozen=True)
class Aides(Generic[ModelT]):
    """A coordinator's work in addition to driving rounds.

    Attributes
    ----------
    evaluate : callable
        How well a closed model does.
    statements : callable
        What it states of a round in addition to the model.
    """

    evaluate: Evaluator[ModelT] = lambda model: Evaluated(accuracy=0.0)
    statements: Statements[ModelT] = lambda number, model: None


class Method(ABC, Generic[ModelT, UpdateT, DataT]):
    """The computation of a federation's rounds. Stateless except for the terms.

    Parameters
    ----------
    config : FederationConfig
        The terms.
    read_terms : callable
        Maps the bytes of other terms to their method; InvalidConfig if they are none. An earlier round may have been
        held under others.

    Attributes
    ----------
    codec : Codec
        How an update becomes an upload, and uploads the next model.
    accounting : Accounting
        What rounds reveal about the clients.
    schedule : Schedule
        When rounds are opened, and what goes on from them.
    """

    codec: Codec[ModelT, UpdateT]
    accounting: Accounting
    schedule: Schedule[ModelT]

    def __init__(self, config: FederationConfig, read_terms: Callable[[bytes], "Method"]) -> None:
        self.config = config
        self.read_terms = read_terms

    # --- models -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def first_model(self) -> bytes:
        """The bytes that round 1 starts from, a function of the terms.

        Raises InvalidConfig: the terms' mechanism does not suit the model.
        """

    def starting_model(self, store: ContentReader) -> bytes:
        """The bytes that round 1 starts from, also where they do not follow from the terms but are named by them.

        Raises StoreError, InvalidConfig.
        """
        return self.first_model()

    def first_from(self, tensors: Tensors) -> bytes:
        """The bytes that round 1 starts from where a task says which tensors to begin with.

        Raises InvalidConfig: the terms' mechanism does not suit them.
        """
        raise InvalidConfig("these rounds train no model, so they have no task")

    @abstractmethod
    def read_model(self, data: bytes, layout: Layout | None = None) -> ModelT:
        """The model, or state, in bytes that came from a peer; InvalidContent for anything else.

        ``layout`` is that of the federation's other models, where it is known.
        """

    @abstractmethod
    def model_bytes(self, model: ModelT) -> bytes:
        """The bytes of a model, or state, whose digest is on the ledger."""

    def model_digest(self, model: ModelT) -> bytes:
        """The digest of ``model_bytes``, as the ledger has it."""
        return cid_of(self.model_bytes(model)).digest

    @abstractmethod
    def layout_of(self, model: ModelT) -> Layout | None:
        """The tensors that all models of the federation have; None if they have none in common."""

    def fetch_model(self, store: ContentReader, digest: bytes, layout: Layout | None = None) -> ModelT:
        """Fetch and check a global model, or state; raises StoreError, InvalidContent."""
        return self.read_model(store.fetch(digest, self.config.max_blob_bytes), layout)

    def parameters_of(self, model: ModelT) -> int:
        """d, the number of parameters of a model; 0 where there is none."""
        layout = self.layout_of(model)
        return layout.length if layout is not None else 0

    # --- rounds -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def inputs(
        self,
        rounds: Rounds,
        current: RoundRecords,
        ledger: tuple[int, str],
        store: ContentReader,
        model: ModelT | None = None,
    ) -> RoundInputs[ModelT]:
        """The public inputs of a sealed round.

        Parameters
        ----------
        ledger : (int, str)
            Chain id and address.
        model : Model, optional
            The global model that the round trains from, where it is at hand.

        Raises
        ------
        StoreError, InvalidContent
            What came before the round cannot be read.
        """

    def statement_fault(self, model: ModelT, metrics: Metrics) -> str:
        """The fault of the statements about a closed round, in one clause; empty if there is none."""
        return "they state something that this round does not call for" if metrics.stated is not None else ""

    # --- members and coordinator ------------------------------------------------------------------------------------

    @abstractmethod
    def member_data(self, path: Path) -> DataT | None:
        """A member's private data out of a file; None where the terms' task reads it, in a sandbox.

        Raises
        ------
        ValueError
            The file is not what this federation's terms ask for; the message says what would be.
        """

    def test_data(self, path: Path) -> DataT | None:
        """The coordinator's test data, from a file; None, and raises, as ``member_data``."""
        raise InvalidConfig("--data is for models: leave it out, this federation has no model to evaluate")

    def weight_of(self, data: DataT) -> int | None:
        """How much a member's updates count unless it says otherwise; None where it has no say in that.

        How many samples there are, where fedgrove counts them. The code of a task has no say in what leaves a member.
        """
        return None

    @abstractmethod
    def work(self, workplace: Workplace[ModelT, DataT]) -> LocalWork[UpdateT]:
        """A client's own part of every round."""

    @abstractmethod
    def aides(self, keys: Keys | None, test: DataT | None) -> Aides[ModelT]:
        """A coordinator's work in addition to driving rounds.

        Parameters
        ----------
        keys : Keys or None
            The coordinator's; None for a stand-by, which states nothing.
        test : DataT or None
            Test data; without, nothing is evaluated.

        Raises
        ------
        InvalidConfig
            The method cannot do without the test data, or the keys are not those that the terms name.
        """

    # --- predictions ------------------------------------------------------------------------------------------------

    def one_model(self, model: ModelT, choice: ModelChoice) -> Tensors:
        """The tensors with which to predict: of the one model, or of the chosen one where rounds leave several.

        Raises InvalidConfig: there is no model to predict with, or the choice names none.
        """
        raise InvalidConfig("these rounds leave no model that predicts")

    def predictor(self, tensors: Tensors, open_task: OpenTask, form: TableFormat | None = None) -> Predictor:
        """What predicts by the tensors of ``one_model``; no torch is imported before it is asked.

        Parameters
        ----------
        open_task : callable
            Opens the process for the code of the terms' task, where there is one.
        form : TableFormat, optional
            How the sources write tables, where tables are read.
        """
        raise InvalidConfig("these rounds leave no model that predicts")

    # --- people -----------------------------------------------------------------------------------------------------

    def report(self, rounds: Rounds, store: ContentReader) -> dict[str, Any]:
        """Additional entries of ``report.json``, JSON-ready, by key."""
        return {}
