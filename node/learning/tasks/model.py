"""A task's module as the strategies see a model: its loss, federated weights, and the outputs of its layers."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.attribution import PathGradients
from fedgrove.node.learning.draws import placed
from fedgrove.node.learning.fisher import squared_gradients_by_sample
from fedgrove.node.learning.tasks import layers
from fedgrove.node.learning.tasks.batches import batches
from fedgrove.node.learning.tasks.federated import Federated
from fedgrove.node.learning.tasks.task import InvalidTask, Task

Outputs = tuple[torch.Tensor, ...]
"""What each layer puts out before its activation: (n, units, …)."""


class TaskModel(nn.Module):
    """A task's module with its federated tensors.

    Attributes
    ----------
    task : Task
    module : Module
        The task's, of whose layers nothing is known: what they put out is seen by forward hooks.
    pure : bool
        Whether each sample goes through the layers by itself and leaves nothing in them, and neither they nor the
        task's own code draw from the global generators of torch, NumPy and ``random``.
    """

    pure: ClassVar[bool] = False

    def __init__(self, task: Task, module: nn.Module, keep: Sequence[str] = (), buffers: bool = True) -> None:
        super().__init__()
        self.task, self.module = task, module
        self._keep, self._buffers_travel = tuple(keep), buffers

    def __deepcopy__(self, memo: dict[int, Any]) -> "TaskModel":
        module = copy.deepcopy(self.module, memo)
        return type(self)(self.task, module, self._keep, self._buffers_travel)

    @property
    def federated(self) -> Federated:
        """The tensors that travel; found anew, as a buffer that goes to another device becomes another tensor."""
        return Federated(self.module, self._keep, self._buffers_travel)

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    def named_parameters(self, *_: Any, **__: Any) -> Iterator[tuple[str, nn.Parameter]]:
        """The parameters that are trained and federated, by the names under which they travel."""
        yield from self.federated.parameters.items()

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        yield from self.federated.parameters.values()

    def trained(self) -> list[nn.Parameter]:
        """All parameters that a step changes, also those that stay at home."""
        return [parameter for parameter in self.module.parameters() if parameter.requires_grad]

    def load(self, tensors: Mapping[str, np.ndarray]) -> None:
        """Set the federated tensors; InvalidContent where one is missing or has another shape."""
        self.federated.write(tensors)

    def tensors(self) -> Tensors:
        return self.federated.read()

    def weights(self) -> Tensors:
        """The parameters among the federated tensors, which strategies hold or weigh."""
        tensors = self.tensors()
        return {name: tensors[name] for name, _ in self.named_parameters()}

    def samples(self, data: Any, chosen: torch.Tensor) -> tuple[Any, Any]:
        """Inputs and targets of the samples at these indices, as one batch on the model's device."""
        inputs, targets, _ = next(batches(self.task, data, chosen, len(chosen)))
        return placed(inputs, self.device), placed(targets, self.device)

    def loss(self, output: Any, targets: Any) -> torch.Tensor:
        """The task's mean loss of a batch, a tensor without dimensions; InvalidTask where it is no one number."""
        loss = self.task.loss(output, targets)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise InvalidTask("loss(self, output, target) must return a tensor of one number: the mean over the batch")
        return loss if loss.dim() == 0 else loss.reshape(())

    def forward(self, inputs: Any) -> Any:
        """Call the module with a batch's inputs: a dictionary as keywords, a tuple or list as positional arguments."""
        if isinstance(inputs, dict):
            return self.module(**inputs)
        return self.module(*inputs) if isinstance(inputs, tuple | list) else self.module(inputs)

    def with_representation(self, inputs: Any) -> tuple[Any, torch.Tensor]:
        """The output, and the representation of each sample: what enters the last linear layer (n, units).

        Raises
        ------
        InvalidTask
            No linear layer is used, or no trained parameters lie below the last.
        """
        seen: list[torch.Tensor] = []
        linear = [layer for layer in self.module.modules() if isinstance(layer, nn.Linear)]
        hooks = [layer.register_forward_pre_hook(lambda _, given: seen.append(given[0])) for layer in linear]
        try:
            output = self(inputs)
        finally:
            for hook in hooks:
                hook.remove()
        if not seen:
            raise InvalidTask("moon contrasts what enters the last linear layer, and there is none: choose fedavg")
        if torch.is_grad_enabled() and not seen[-1].requires_grad:
            raise InvalidTask("moon needs trained parameters below the last linear layer: choose fedavg")
        return output, seen[-1].flatten(1)

    def with_companions(self, inputs: Any, companions: Any) -> tuple[Any, Outputs]:
        """The output for a batch, and what each layer puts out for other inputs.

        Those have a pass of their own, in which statistics stay as they are: together with the batch, they would change
        what normalises both.
        """
        output = self(inputs)
        with self.as_evaluated():
            return output, layers.layer_outputs(self.task, self, companions)

    def path_gradients(self, inputs: Any, labels: torch.Tensor, steps: int) -> PathGradients:
        """How each layer's output changes the confidence in the true class, see ``node.learning.attribution``."""
        with self.as_evaluated():
            return layers.path_gradients(self.task, self, inputs, labels, steps)

    def squared_gradients(self, data: Any) -> list[torch.Tensor]:
        """Means over a dataset of the squared gradients of a sample's loss, a tensor for each parameter."""
        with self.as_evaluated():
            each = (self.samples(data, torch.tensor([index])) for index in range(len(data)))
            losses = (self.task.loss(self(inputs), targets) for inputs, targets in each)
            return squared_gradients_by_sample(losses, list(self.parameters()))

    @contextmanager
    def as_evaluated(self) -> Iterator[None]:
        """Inside, dropout is off and statistics stay what they are."""
        training = self.module.training
        self.module.eval()
        try:
            yield
        finally:
            self.module.train(training)
