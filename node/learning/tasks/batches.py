"""Batches of a task's samples."""

from collections.abc import Iterator
from typing import Any

import torch

from fedgrove.node.learning.tasks.task import InvalidTask, Pairs, Task

EVALUATION_BATCH = 250
# Bytes of inputs that are put in order at once: an epoch of most clients, and a bound for the large ones.
GATHERED_BYTES = 1 << 24


def batches(task: Task, data: Any, order: torch.Tensor, size: int) -> Iterator[tuple[Any, Any, int]]:
    """(inputs, targets, number of samples) of each batch."""
    if isinstance(data, Pairs) and type(task).batch is Task.batch:
        yield from _gathered(data, order, size)
        return
    for chosen in order.split(size):
        batch = task.batch([data[index] for index in chosen.tolist()])
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise InvalidTask("items of a dataset, and batches, must be pairs (inputs, targets)")
        yield *batch, len(chosen)


def _gathered(data: Pairs, order: torch.Tensor, size: int) -> Iterator[tuple[Any, Any, int]]:
    one = data.inputs.element_size() * data.inputs[:1].numel()
    for chosen in order.split(size * max(1, GATHERED_BYTES // max(1, size * one))):
        inputs, targets = (each.index_select(0, chosen) for each in (data.inputs, data.targets))
        for batch in zip(inputs.split(size), targets.split(size), strict=True):
            yield *batch, len(batch[1])


def targets_of(task: Task, data: Any) -> torch.Tensor:
    """The targets of all samples of a dataset."""
    found = batches(task, data, torch.arange(len(data)), EVALUATION_BATCH)
    return torch.cat([torch.as_tensor(targets) for _, targets, _ in found])
