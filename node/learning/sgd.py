"""``torch.optim.SGD(fused=True)`` without its class, which imports torch's compiler: a second of every process."""

from collections.abc import Sequence

import torch
from torch.optim.sgd import sgd


class Sgd:
    """SGD with momentum and weight decay; a weight that the loss does not depend on has a gradient of zero."""

    def __init__(self, weights: Sequence[torch.Tensor], rate: float, momentum: float, weight_decay: float) -> None:
        self._weights = list(weights)
        self._buffers: list[torch.Tensor | None] = [None] * len(self._weights) if momentum else []
        self._options = {"lr": rate, "momentum": momentum, "weight_decay": weight_decay}

    @torch.no_grad()
    def step(self) -> None:
        gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in self._weights]
        plain = {"dampening": 0.0, "nesterov": False, "maximize": False, "fused": True}
        sgd(self._weights, gradients, self._buffers, **self._options, **plain)
