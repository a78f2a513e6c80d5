"""A member's private data where there are clusters: trained on, counted by label, and what a model loses on them."""

from typing import Protocol

import numpy as np
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.networks import evaluate
from fedgrove.node.methods.procfl.sets import label_counts
from fedgrove.node.methods.training.local_training import Trainer
from fedgrove.node.methods.training.network_trainer import NetworkTrainer


class MemberData(Trainer, Protocol):
    """Private data that are compared by their labels and trained on; ``TaskData`` is one."""

    def label_counts(self, labels: int) -> np.ndarray:
        """Samples of each label, int64 array of shape (labels,)."""
        ...

    def training_loss(self, model: Tensors) -> float:
        """Mean loss of a model on the samples that it is trained on."""
        ...


class NetworkMember(NetworkTrainer):
    """Samples for a shipped network."""

    def label_counts(self, labels: int) -> np.ndarray:
        """As ``MemberData`` says."""
        return label_counts(self._samples.y, labels)

    def training_loss(self, model: Tensors) -> float:
        """As ``MemberData`` says."""
        return evaluate(self._config.trained, model, self.training_samples).loss
