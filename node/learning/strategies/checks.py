"""Checks of what strategies need of a task."""

from typing import Any

import torch

from fedgrove.node.learning.tasks.task import InvalidTask


def checked_labels(targets: Any, strategy: str) -> torch.Tensor:
    """Targets that are labels (n,); InvalidTask for others."""
    if not isinstance(targets, torch.Tensor) or targets.dtype != torch.int64 or targets.dim() != 1:
        raise InvalidTask(f"{strategy} needs labels as targets, one whole number a sample: choose fedavg")
    return targets


def checked_logits(output: Any, labels: torch.Tensor, strategy: str) -> torch.Tensor:
    """An output that is a logit for each label (n, classes); InvalidTask for another."""
    fine = isinstance(output, torch.Tensor) and output.dim() == 2
    if not fine or not 0 <= int(labels.min()) <= int(labels.max()) < output.shape[1]:
        raise InvalidTask(f"{strategy} needs an output of one logit for each label: choose fedavg")
    return output
