"""FedNTD: Lee et al. 2022, "Preservation of the Global Knowledge by Not-True Distillation", section 4.

A client forgets what it has no samples of. The global model's knowledge of that is in its prediction over the labels
that are not a sample's own. Over these alone, the local model's prediction is drawn towards the global model's,

    L = L_CE + β · KL(q̃_g ‖ q̃_l),   q̃(c) = e^{z_c/τ} / Σ_{c' ≠ y} e^{z_c'/τ}   for c ≠ y.
"""

import copy
from dataclasses import dataclass
from typing import Annotated

import torch
from msgspec import Meta
from torch.nn import functional

from fedgrove.node.learning.strategies.base import Batch, LocalTerm, RoundStart, Strategy, Weight
from fedgrove.node.learning.strategies.checks import checked_labels, checked_logits
from fedgrove.node.learning.tasks.model import TaskModel


@dataclass(frozen=True)
class FedNtd(Strategy):
    """FedNTD's options; both defaults are the authors'.

    A task needs labels as targets, and one logit for each. With two labels there is only one that is not true, and the
    method is FedAvg.

    Attributes
    ----------
    beta : float
        β, the weight of the distillation. With 0 it is FedAvg.
    tau : float
        τ, the temperature of both predictions.
    """

    beta: Weight = 1.0
    tau: Annotated[float, Meta(ge=1e-3, le=1000)] = 1.0

    def begin(self, model: TaskModel, start: RoundStart) -> LocalTerm:
        return NotTrueTerm(self, model) if self.beta else LocalTerm()


class NotTrueTerm(LocalTerm):
    """β · L_NTD on each training batch; the global model does not change."""

    def __init__(self, options: FedNtd, model: TaskModel) -> None:
        self._options = options
        self._global = copy.deepcopy(model).requires_grad_(False).eval()

    def loss(self, batch: Batch) -> torch.Tensor:
        """The distillation's loss; InvalidTask where there is not one logit for each label."""
        labels = checked_labels(batch.y, "fedntd")
        logits = checked_logits(batch.output, labels, "fedntd")
        with torch.no_grad():
            wanted = self._global(batch.x)
        return self._options.beta * not_true_loss(logits, wanted, labels, self._options.tau)


def not_true_loss(local: torch.Tensor, wanted: torch.Tensor, labels: torch.Tensor, tau: float) -> torch.Tensor:
    """KL(q̃_g ‖ q̃_l), the mean over the samples, of logits (n, classes) and true labels (n,)."""
    others = torch.arange(local.shape[1] - 1, device=local.device)
    chosen = others + (others >= labels[:, None])
    ours, theirs = ((each.gather(1, chosen) / tau).log_softmax(1) for each in (local, wanted))
    return functional.kl_div(ours, theirs, reduction="batchmean", log_target=True)
