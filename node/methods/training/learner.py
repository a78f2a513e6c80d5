"""What a model is trained with on a member's data: a shipped network in this process, a task's code in the sandbox.

Nothing else of the methods that train has to know which of the two it is.
"""

from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

import numpy as np

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


def trainer_of(config: FederationConfig, workplace: Workplace[Any, LearnedData]) -> Trainer:
    """Trains on the member's data; some of them are held out where the terms ask for an evaluation."""
    hold_out, data = hold_out_of(config, workplace), workplace.data
    if isinstance(data, TaskData):
        return data if hold_out is None else data.evaluating(hold_out)
    from fedgrove.node.methods.training.network_trainer import NetworkTrainer

    return NetworkTrainer(workplace.store, config, data, workplace.executor, workplace.device, hold_out)


def evaluator_of(config: FederationConfig, test: LearnedData) -> Evaluator[Tensors]:
    """Maps a model to how it does on a coordinator's test data."""
    if isinstance(test, TaskData):
        return test.evaluate
    from fedgrove.node.methods.training.network_trainer import evaluator

    return evaluator(config, test)


class ModelMethod(Method[ModelT, UpdateT, LearnedData]):
    """Members train on samples, or on what their task makes of their data."""

    def first_model(self) -> bytes:
        """A function of the terms: seeded weights, and the strategy's additional tensors."""
        if self.config.task is not None:
            raise InvalidConfig("start.model is missing: the first model of a task does not follow from the terms")
        from fedgrove.node.learning.models import initial_tensors
        from fedgrove.node.learning.strategies import make_strategy

        spec, strategy = self.config.trained, self.config.strategy
        weights = initial_tensors(spec.name, spec.input_shape, spec.classes, self.config.federation.seed)
        return self.first_from(weights | make_strategy(strategy.name, strategy.options).initial_extras(weights))

    def member_data(self, path: Path) -> Samples:
        from fedgrove.node.learning.reproducible import keep_freed_memory

        samples = self._samples(path, "train")
        keep_freed_memory()
        return samples

    def test_data(self, path: Path) -> Samples:
        return self._samples(path, "test")

    def predictor(self, tensors: Tensors, open_task: OpenTask, form: TableFormat | None = None) -> Predictor:
        from fedgrove.node.methods.training.prediction import NetworkPredictor, TaskPredictor

        if self.config.task is not None:
            return TaskPredictor(self.config, tensors, open_task, form)
        return NetworkPredictor(self.config, tensors)

    def _samples(self, path: Path, part: Part) -> Samples:
        """Labelled samples of a file of arrays; DatasetError if the model cannot take them."""
        if self.config.task is not None:
            raise InvalidConfig("the data of a task are read by its own code: open them with TaskData")
        return part_from_file(path, part, self.config.trained)
