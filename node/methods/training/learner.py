"""How a model is trained on a member's data: fedgrove's own code in this process, or a task's code in the sandbox.

Nothing else of the methods that train has to know which of the two it is.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from fedgrove.ipfs.store import ContentReader, NotFound
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.local_update import HeldOutSums, LocalUpdate, RoundPosition
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.learning.userdata import Part, part_from_file
from fedgrove.node.methods.training.hold_out import hold_out_of
from fedgrove.node.methods.training.task_data import TaskData
from fedgrove.node.protocol.content import ModelT, UpdateT
from fedgrove.node.protocol.method import Evaluator, Method, Workplace
from fedgrove.node.protocol.prediction import OpenTask, Predictor
from fedgrove.node.protocol.terms import FederationConfig

LearnedData = Samples | TaskData
"""A member's data: labelled images for a shipped network, or what a task's code reads in the sandbox."""


class Trainer(Protocol):
    """Trains a model on a member's private data."""

    def __len__(self) -> int: ...

    def start(self, model: Tensors, position: RoundPosition, client: int, state: Tensors) -> Future[LocalUpdate]:
        """Begin to train."""
        ...

    def measure(self, model: Tensors, state: Tensors) -> Future[HeldOutSums]:
        """Begin to evaluate a model on what is held out, without any training."""
        ...

    def label_counts(self, labels: int) -> np.ndarray:
        """Samples of each label, int64 array of shape (labels,)."""
        ...

    def training_loss(self, model: Tensors) -> float:
        """Mean loss of a model on the samples that it is trained on."""
        ...


class Learning(ABC):
    """How the terms' model is trained: one kind for each way in which code and data meet.

    Attributes
    ----------
    first_follows : bool
        The first model follows from the terms; else they name one that is in the store.
    """

    first_follows: ClassVar[bool]

    def __init__(self, config: FederationConfig) -> None:
        self.config = config

    @abstractmethod
    def first_tensors(self) -> Tensors:
        """What training starts from; InvalidConfig where it does not follow from the terms."""

    @abstractmethod
    def samples(self, path: Path, part: Part) -> Samples | None:
        """Labelled samples of a file of arrays, DatasetError if the model cannot take them; None as ``member_data``."""

    def weight_of(self, data: LearnedData) -> int:
        """How many samples there are, where fedgrove's own code counts them; else 1."""
        return 1 if self.config.learned.bundle else len(data)

    @abstractmethod
    def trainer(self, workplace: Workplace[Any, Any]) -> Trainer:
        """Trains on the member's data; some of them are held out where the terms ask for an evaluation."""

    @abstractmethod
    def evaluator(self, test: Any) -> Evaluator[Tensors]:
        """Maps a model to how it does on a coordinator's test data."""

    @abstractmethod
    def predictor(self, tensors: Tensors, open_task: OpenTask, form: TableFormat | None) -> Predictor:
        """Predicts by the tensors of a model."""


class InlineLearning(Learning):
    """A shipped network on labelled images, in this process. Torch is imported where it is needed, and not before."""

    first_follows: ClassVar[bool] = True

    def first_tensors(self) -> Tensors:
        from fedgrove.node.learning.networks import first_tensors
        from fedgrove.node.learning.strategies import make_strategy

        strategy = make_strategy(self.config.strategy.name, self.config.strategy.options)
        return first_tensors(self.config.network, strategy, self.config.federation.seed)

    def samples(self, path: Path, part: Part) -> Samples:
        from fedgrove.node.learning.reproducible import keep_freed_memory

        samples = part_from_file(path, part, self.config.network)
        keep_freed_memory()
        return samples

    def trainer(self, workplace: Workplace[Any, Samples]) -> Trainer:
        from fedgrove.node.methods.training.network_trainer import NetworkTrainer

        hold_out, where = hold_out_of(self.config, workplace), (workplace.executor, workplace.device)
        return NetworkTrainer(workplace.store, self.config, workplace.data, *where, hold_out)

    def evaluator(self, test: Samples) -> Evaluator[Tensors]:
        from fedgrove.node.methods.training.network_trainer import evaluator

        return evaluator(self.config, test)

    def predictor(self, tensors: Tensors, open_task: OpenTask, form: TableFormat | None) -> Predictor:
        from fedgrove.node.methods.training.prediction import NetworkPredictor

        return NetworkPredictor(self.config, tensors)


class ContainedLearning(Learning):
    """A task whose code reads the data and trains on them, in the sandbox."""

    first_follows: ClassVar[bool] = False

    def first_tensors(self) -> Tensors:
        raise InvalidConfig("start.model is missing: the first model of a task does not follow from the terms")

    def samples(self, path: Path, part: Part) -> None:
        return None

    def trainer(self, workplace: Workplace[Any, TaskData]) -> Trainer:
        hold_out = hold_out_of(self.config, workplace)
        return workplace.data if hold_out is None else workplace.data.evaluating(hold_out)

    def evaluator(self, test: TaskData) -> Evaluator[Tensors]:
        return test.evaluate

    def predictor(self, tensors: Tensors, open_task: OpenTask, form: TableFormat | None) -> Predictor:
        from fedgrove.node.methods.training.prediction import TaskPredictor

        return TaskPredictor(self.config, tensors, open_task, form)


def learning_of(config: FederationConfig) -> Learning:
    """How these terms' model is trained."""
    return InlineLearning(config) if config.contained is None else ContainedLearning(config)


class ModelMethod(Method[ModelT, UpdateT, LearnedData]):
    """Members train a model, or several, as their ``learning`` says."""

    def __init__(self, config: FederationConfig, read_terms: Callable[[bytes], Method]) -> None:
        super().__init__(config, read_terms)
        self.learning = learning_of(config)

    def first_model(self) -> bytes:
        return self.first_from(self.learning.first_tensors())

    def starting_model(self, store: ContentReader) -> bytes:
        digest = self.config.first_digest
        continues = self.config.start.continues
        if digest is None or (self.learning.first_follows and continues is None):
            return self.first_model()
        try:
            return store.fetch(digest, self.config.max_blob_bytes)
        except NotFound as lack:
            if continues is None:
                raise
            where = f"it is the model of {continues}: ask the founder, or who keeps that federation's store, for it"
            raise NotFound(lack.cid, f"the store has no content of this name; {where}") from None

    def weight_of(self, data: LearnedData) -> int | None:
        return self.learning.weight_of(data) if self.codec.weighs_samples else None

    def member_data(self, path: Path) -> Samples | None:
        return self.learning.samples(path, "train")

    def test_data(self, path: Path) -> Samples | None:
        return self.learning.samples(path, "test")

    def predictor(self, tensors: Tensors, open_task: OpenTask, form: TableFormat | None = None) -> Predictor:
        return self.learning.predictor(tensors, open_task, form)
