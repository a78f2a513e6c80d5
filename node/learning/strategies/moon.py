"""MOON: Li, He and Song 2021, "Model-Contrastive Federated Learning", section 3.

The local model's representation of a sample is drawn towards the global model's, and away from that of the client's
previous local model.
"""

import copy
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from msgspec import Meta
from torch.nn import functional

from fedgrove.node.learning.models import load_tensors, to_tensors
from fedgrove.node.learning.strategies.base import Batch, LocalTerm, RoundEnd, RoundStart, Strategy, Weight
from fedgrove.node.learning.tasks.model import TaskModel


@dataclass(frozen=True)
class Moon(Strategy):
    """MOON's options.

    All methods train the same model here, as in the paper of FedAom, so there is no projection head: the representation
    of a shipped network is the output of its last hidden layer, before its activation; of another task's model, what
    enters the last linear layer.

    Attributes
    ----------
    mu : float
        μ, the weight of the contrastive loss; the paper tries 0.1, 1, 5 and 10. With 0 it is FedAvg.
    temperature : float
        τ of the contrastive loss.
    """

    mu: Weight = 1.0
    temperature: Annotated[float, Meta(ge=1e-3, le=1000)] = 0.5

    remembers: ClassVar[bool] = True

    def begin(self, model: TaskModel, start: RoundStart) -> LocalTerm:
        """Contrast with the global model and with the one that this client's last round left.

        In a client's first round there is no such model, and the loss is the cross-entropy alone. Taking the global
        model for it would train the same: both similarities then are equal, and so are their gradients.
        """
        if not self.mu or not start.state:
            return PreviousModel(model)
        previous = copy.deepcopy(model)
        load_tensors(previous, start.state)
        return ContrastiveTerm(self, model, previous.requires_grad_(False))


class PreviousModel(LocalTerm):
    """Adds nothing to the loss, and keeps the trained model for the client's next round."""

    def __init__(self, model: TaskModel) -> None:
        self._model = model

    def finish(self) -> RoundEnd:
        return RoundEnd(state=to_tensors(self._model))


class ContrastiveTerm(PreviousModel):
    """μ · ℓ_con on each training batch; the global and the previous model do not change."""

    contrasts = True

    def __init__(self, options: Moon, model: TaskModel, previous: TaskModel) -> None:
        super().__init__(model)
        self._options = options
        self._global = copy.deepcopy(model).requires_grad_(False)
        self._previous = previous

    def loss(self, batch: Batch) -> torch.Tensor:
        """The contrastive loss; the local model's representation is that of the step's own forward pass."""
        with torch.no_grad():
            wanted = self._global.with_representation(batch.x)[1]
            unwanted = self._previous.with_representation(batch.x)[1]
        local = batch.representation
        assert local is not None  # as this term contrasts it
        return self._options.mu * contrastive_loss(local, wanted, unwanted, self._options.temperature)


def contrastive_loss(
    local: torch.Tensor, wanted: torch.Tensor, unwanted: torch.Tensor, temperature: float
) -> torch.Tensor:
    """ℓ_con (eq. 3), the mean over the samples of −log(e^{g/τ} / (e^{g/τ} + e^{p/τ})).

    g and p are the cosine similarities of z with z_glob and with z_prev, each of shape (n, units). The logarithm is
    taken as a softplus of (p − g)/τ, so that nothing overflows.
    """
    excess = functional.cosine_similarity(local, unwanted) - functional.cosine_similarity(local, wanted)
    return functional.softplus(excess / temperature).mean()
