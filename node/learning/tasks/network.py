"""The shipped networks as tasks: labelled images, and a model whose layers are known."""

from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, ClassVar

import torch

from fedgrove.node.learning import attribution
from fedgrove.node.learning.attribution import PathGradients
from fedgrove.node.learning.fisher import fisher_diagonal
from fedgrove.node.learning.models import Classifier, build_model, empty_model
from fedgrove.node.learning.settings import ModelSpec
from fedgrove.node.learning.tasks.federated import Federated
from fedgrove.node.learning.tasks.model import Outputs, TaskModel
from fedgrove.node.learning.tasks.task import Answers, Task


class Network(Task):
    """A shipped network. Its code is fedgrove's own and reads no file, so that it runs in any process.

    Parameters
    ----------
    spec : ModelSpec
    """

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec

    def model(self) -> Classifier:
        seed = int(torch.randint(1 << 62, ()).item())
        return build_model(self.spec.name, self.spec.input_shape, self.spec.classes, seed)

    def answers(self) -> Answers:
        """The classes; labels are their numbers."""
        return Answers(self.spec.class_names, "class")


class NetworkModel(TaskModel):
    """A shipped network as the strategies see it: companions go through its layers with the batch, in one pass."""

    pure: ClassVar[bool] = True
    module: Classifier

    @classmethod
    def empty(cls, spec: ModelSpec) -> "NetworkModel":
        return cls(Network(spec), empty_model(spec))

    @cached_property
    def federated(self) -> Federated:
        """All its tensors, which stay the same on any device: it has no buffers."""
        return Federated(self.module, self._keep, self._buffers_travel)

    def as_evaluated(self) -> AbstractContextManager[None]:
        """Nothing to do: its layers are the same in training and evaluation."""
        return nullcontext()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.module.layer_outputs(inputs)[-1]

    def with_representation(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits, and the last hidden layer's output before its activation (n, units)."""
        return self.module.with_representation(inputs)

    def with_companions(self, inputs: torch.Tensor, companions: torch.Tensor) -> tuple[torch.Tensor, Outputs]:
        outputs, rest = self.module.layer_outputs_apart(torch.cat([inputs, companions]), len(inputs))
        return outputs[-1], rest

    def path_gradients(self, inputs: torch.Tensor, labels: torch.Tensor, steps: int) -> PathGradients:
        return attribution.path_gradients(self.module, inputs, labels, steps)

    def squared_gradients(self, data: Any) -> list[torch.Tensor]:
        return fisher_diagonal(self.module, *self.samples(data, torch.arange(len(data))))
