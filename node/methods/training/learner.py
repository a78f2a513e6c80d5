"""What a model is trained with on a member's data: a shipped network in this process, a task's code in the sandbox.

Nothing else of the methods that train has to know which of the two it is.
"""

from concurrent.futures import Future
from typing import Any, Protocol

import numpy as np

from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.local_update import HeldOutSums, LocalUpdate, RoundPosition
from fedgrove.node.learning.samples import Samples
from fedgrove.node.methods.training.hold_out import hold_out_of
from fedgrove.node.methods.training.task_data import TaskData
from fedgrove.node.protocol.method import Evaluator, Workplace
from fedgrove.node.protocol.terms import FederationConfig

LearnedData = Samples | TaskData
"""A member's data: labelled images for a shipped network, or what a task's code reads in the sandbox."""


class Trainer(Protocol):
    """Trains a model on a member's private data."""

    def __len__(self) -> int:
        """How many samples there are."""
        ...

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
    from fedgrove.node.methods.training.evaluation import evaluator

    return evaluator(config, test)
