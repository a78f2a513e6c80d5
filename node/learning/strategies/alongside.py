"""Tensors of the weights' shapes that go alongside a model, one for each of its weights: sent with it, or kept at home.

What is sent is averaged like the weights. So a strategy whose server keeps a mean h of something that each of the N
members has, h_i, and learns only the changes of the members that take part,

    h ← h + (|S|/N) · mean over S of (h_i⁺ − h_i),

has each of them send h + r · (h_i⁺ − h_i), with r the share of the members that a round draws: the mean of that is the
new h. Means are weighted by sample counts here, so h is the weighted mean of the h_i.

r is what the terms say, |S|/N on average. Where members are drawn one by one, |S| varies, and some drop out: then what
they learnt is never added to h, or with another weight, and h is no longer the mean of the h_i. A client whose state is
lost starts again from h_i = 0, and a client may lie. The formula never forgets that; with ``forget`` of φ, clients send

    h + r · (h_i⁺ − h_i + φ · (h_i − h)),

which is the same on average while h is the mean of the h_i, and forgets a fraction r · φ of any error in each round.
With φ = 1 it is a moving average, in which those who are drawn count for all: noisier where few are. For twenty
parabolas as clients, a fifth of them drawn in a round, SCAFFOLD's error after 150 rounds with φ = 0, 0.1 and 1 was
0.06, 0.12 and 0.23 with a fixed number drawn, and 0.23, 0.08 and 0.23 with each drawn by itself, as on the ledger.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.tasks.model import TaskModel


def zeros_for(weights: Tensors, kind: str) -> Tensors:
    """Zeros of each weight's shape, by its name behind ``kind``."""
    return {kind + name: np.zeros(value.shape, np.float32) for name, value in weights.items()}


def of_parameters(model: TaskModel, tensors: Mapping[str, np.ndarray], kind: str) -> list[torch.Tensor]:
    """The tensors that go with the model's parameters, in their order and where they are.

    Raises
    ------
    InvalidContent
        One is missing or has another shape than its parameter.
    """
    found = []
    for name, parameter in model.named_parameters():
        value = tensors.get(kind + name)
        if value is None or value.shape != tuple(parameter.shape):
            raise InvalidContent(f"tensor {kind + name!r} is missing, or does not have the shape of {name!r}")
        found.append(torch.empty_like(parameter, requires_grad=False).copy_(torch.tensor(value)))
    return found


def by_name(model: TaskModel, values: Sequence[torch.Tensor], kind: str = "") -> Tensors:
    """Tensors of the parameters' order as float32 arrays, by the parameters' names behind ``kind``."""
    names = (name for name, _ in model.named_parameters())
    return {kind + name: value.cpu().numpy().copy() for name, value in zip(names, values, strict=True)}


def carried_on(
    mean: Sequence[torch.Tensor],
    own: Sequence[torch.Tensor],
    new: Sequence[torch.Tensor],
    rate: float,
    forget: float,
) -> list[torch.Tensor]:
    """What a client sends of h: h + r · (h_i⁺ − h_i + φ · (h_i − h))."""
    parts = zip(mean, own, new, strict=True)
    return [h + rate * ((after - before) + forget * (before - h)) for h, before, after in parts]
