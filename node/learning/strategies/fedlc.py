"""FedLC: Zhang et al. 2022, "Federated Learning with Label Distribution Skew via Logits Calibration", section 4.

A client that has few samples of a label, or none, unlearns it: each step lowers its logit. So margins by the client's
own counts n_c are taken off the logits f before the cross-entropy,

    ℓ = −log( e^{f_y − τ·n_y^(−1/4)} / Σ_c e^{f_c − τ·n_c^(−1/4)} ),

which leaves rare labels out of what is pushed down.
"""

from dataclasses import dataclass
from typing import Any

import torch

from fedgrove.node.learning.strategies.base import LocalTerm, RoundStart, Strategy, Weight
from fedgrove.node.learning.strategies.checks import checked_labels, checked_logits
from fedgrove.node.learning.tasks.batches import targets_of
from fedgrove.node.learning.tasks.model import TaskModel

NO_SAMPLES = 1e-12


@dataclass(frozen=True)
class FedLc(Strategy):
    """FedLC's option.

    A label that the client has no samples of counts as 10⁻¹² samples: its margin is 1000 τ, which takes it out of the
    sum. A task needs labels as targets, and one logit for each. The training loss that is reported is the calibrated
    one.

    Attributes
    ----------
    tau : float
        τ, the size of the margins; public implementations use 1. With 0 it is FedAvg.
    """

    tau: Weight = 1.0

    def begin(self, model: TaskModel, start: RoundStart) -> LocalTerm:
        if not self.tau:
            return LocalTerm()
        return CalibratedTerm(self.tau, checked_labels(targets_of(model.task, start.samples), self.name))


class CalibratedTerm(LocalTerm):
    """Takes the margins off the logits.

    Parameters
    ----------
    labels : int64 tensor (n,)
        Those of the client's samples.
    """

    def __init__(self, tau: float, labels: torch.Tensor) -> None:
        self._tau, self._labels = tau, labels
        self._margins: torch.Tensor | None = None

    def calibrated(self, output: Any) -> torch.Tensor:
        """f_c − τ · n_c^(−1/4); InvalidTask where there is not one logit for each label."""
        if self._margins is None:
            logits = checked_logits(output, self._labels, "fedlc")
            self._margins = margins(self._labels, logits.shape[1], self._tau).to(logits.device)
        return output - self._margins


def margins(labels: torch.Tensor, classes: int, tau: float) -> torch.Tensor:
    """τ · n_c^(−1/4), float32 (classes,), for the labels 0 … classes − 1 of a client's samples (n,)."""
    counts = torch.bincount(labels, minlength=classes).double()
    return (tau * counts.clamp(min=NO_SAMPLES) ** -0.25).float()
