"""A task's module as the strategies see a model: federated weights, and the outputs of its layers by forward hooks."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.tasks.federated import Federated
from fedgrove.node.learning.tasks.task import InvalidTask
from torch import nn


class TaskModel(nn.Module):
    """A task's module with its federated tensors.

    Strategies that hold weights back see ``parameters``, those that contrast representations ``representation``.
    """

    def __init__(self, module: nn.Module, keep: Sequence[str] = (), buffers: bool = True) -> None:
        super().__init__()
        self.module = module
        self._keep, self._buffers_travel = tuple(keep), buffers

    @property
    def federated(self) -> Federated:
        """The tensors that travel; found anew, as a copy of the model has tensors of its own."""
        return Federated(self.module, self._keep, self._buffers_travel)

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    def named_parameters(self, *_: Any, **__: Any) -> Iterator[tuple[str, nn.Parameter]]:
        """The parameters that are trained and federated, by the names under which they travel."""
        yield from self.federated.parameters.items()

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """As ``named_parameters``, without names."""
        yield from self.federated.parameters.values()

    def trained(self) -> list[nn.Parameter]:
        """All parameters that a step changes, also those that stay at home."""
        return [parameter for parameter in self.module.parameters() if parameter.requires_grad]

    def load(self, tensors: Mapping[str, np.ndarray]) -> None:
        """Set the federated tensors; InvalidModel where one is missing or has another shape."""
        self.federated.write(tensors)

    def tensors(self) -> Tensors:
        """The federated tensors as float32 arrays."""
        return self.federated.read()

    def forward(self, inputs: Any) -> Any:
        """Call the module with a batch's inputs: a dictionary as keywords, a tuple or list as positional arguments."""
        return self.module(**inputs) if isinstance(inputs, dict) else self._called(inputs)

    def _called(self, inputs: Any) -> Any:
        return self.module(*inputs) if isinstance(inputs, tuple | list) else self.module(inputs)

    def with_representation(self, inputs: Any) -> tuple[Any, torch.Tensor]:
        """The output, and the representation of each sample: what enters the last linear layer (n, units).

        Raises
        ------
        InvalidTask
            No linear layer is used, or no trained parameters lie below the last.
        """
        seen: list[torch.Tensor] = []
        with self._watched(seen):
            output = self(inputs)
        if not seen:
            raise InvalidTask("moon contrasts what enters the last linear layer, and there is none: choose fedavg")
        if torch.is_grad_enabled() and not seen[-1].requires_grad:
            raise InvalidTask("moon needs trained parameters below the last linear layer: choose fedavg")
        return output, seen[-1].flatten(1)

    @contextmanager
    def _watched(self, seen: list[torch.Tensor]) -> Iterator[None]:
        """Inside, ``seen`` gets what enters each linear layer, in the order of use."""
        layers = [layer for layer in self.module.modules() if isinstance(layer, nn.Linear)]
        hooks = [layer.register_forward_pre_hook(lambda _, given: seen.append(given[0])) for layer in layers]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
