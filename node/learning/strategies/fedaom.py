"""FedAom: Hou and Dong 2024, "Decentralized privacy-preserving optimization method for federated learning", 2.1.

Each client keeps the decision behaviour of the global model while it trains on skewed data: on samples of a small
shared set, layer outputs weighted by their attribution must stay where the global model has them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from msgspec import Meta
from torch.nn import functional

from fedgrove.node.learning.attribution import aligned_weight, attributions, behaviour
from fedgrove.node.learning.strategies.base import Batch, LocalTerm, RoundStart, Strategy, Weight
from fedgrove.node.learning.tasks.model import TaskModel

# Distances of this size are float32 rounding, as in a round's first step, and a norm's gradient there is a random unit
# vector; real distances start some hundred times larger.
ROUNDING = 1e-8


@dataclass(frozen=True)
class FedAom(Strategy):
    """FedAom's options.

    Attributes
    ----------
    beta : float
        β of eq. 11; the added loss has weight β − (e^{t/T} − 1)/(e − 1), which falls from β to β − 1. Below zero, where
        it would push behaviour away from the global model's, it is taken as zero.
    epsilon : float
        ε of eq. 6, the balance of the attribution's scale.
    q : int
        Steps of the integration path.
    shared_batch : int
        Samples drawn from the shared set at each step.
    refresh : int
        Local epochs between two attributions of the local model; 0 keeps the first one, the global model's, for the
        whole round.
    """

    beta: Weight = 1.0
    epsilon: Annotated[float, Meta(ge=1e-3, le=1e6)] = 7.0
    q: Annotated[int, Meta(ge=1, le=1000)] = 2
    shared_batch: Annotated[int, Meta(ge=1, le=65_536)] = 15
    refresh: Annotated[int, Meta(ge=0, le=1000)] = 0

    def weight(self, number: int, rounds: int) -> float:
        """Weight of the added loss in round t of T (eq. 11): 1 at t = 0, and from t = T on 0, for β = 1."""
        return max(0.0, self.beta - math.expm1(min(1.0, number / rounds)) / math.expm1(1.0))

    def prepare(self, model: TaskModel, shared: Any, *, number: int, rounds: int) -> "GlobalBehaviour | None":
        """Measure the global model's behaviour on the shared set; nothing is measured once the weight is zero."""
        if self.weight(number, rounds) == 0:
            return None
        path = model.path_gradients(*model.samples(shared, torch.arange(len(shared))), self.q)
        weights = attributions(path, self.epsilon)
        return GlobalBehaviour(weights, behaviour(path.outputs, weights))

    def begin(self, model: TaskModel, start: RoundStart) -> LocalTerm:
        return LocalTerm() if start.prepared is None else BehaviourTerm(self, model, start)


@dataclass(frozen=True)
class GlobalBehaviour:
    """The global model on the shared set's n samples, for each layer: attributions Λ̂ (n, units), and L·Λ̂."""

    attributions: tuple[torch.Tensor, ...]
    target: tuple[torch.Tensor, ...]


class BehaviourTerm(LocalTerm):
    """weight · L_IS, the input-sensitivity loss (eq. 7) on a batch of the shared set.

    L_IS is one norm over all layers of all samples of the batch. Attributions are constants in the backward pass: those
    of the global model for the whole round, those of the local model until they are refreshed. In the first epoch the
    local model starts as the global one, so their attributions are the same and computed once. They stay so by
    default: a local model whose attributions shrink makes up for it by larger outputs, and drifts further than without
    the loss.
    """

    def __init__(self, options: FedAom, model: TaskModel, start: RoundStart) -> None:
        assert isinstance(start.prepared, GlobalBehaviour)
        self._options = options
        self._model = model
        self._weight = options.weight(start.round, start.rounds)
        self._generator = start.generator
        self._shared = start.shared
        self._local = start.prepared.attributions
        self._target = start.prepared.target

    def start_epoch(self, epoch: int) -> None:
        if epoch > 0 and self._options.refresh and epoch % self._options.refresh == 0:
            every = self._model.samples(self._shared, torch.arange(len(self._shared)))
            path = self._model.path_gradients(*every, self._options.q)
            self._local = attributions(path, self._options.epsilon)

    def companions(self) -> Any:
        chosen = torch.randperm(len(self._shared), generator=self._generator)[: self._options.shared_batch]
        self._chosen = chosen.to(self._model.device)
        return self._model.samples(self._shared, chosen)[0]

    def loss(self, batch: Batch) -> torch.Tensor:
        """Distance of the local model's behaviour from the global one's on the samples drawn."""
        chosen = self._chosen
        weights, targets = ([layer[chosen] for layer in layers] for layers in (self._local, self._target))
        distance = Distance.apply(weights, targets, *batch.companions)
        return self._weight * functional.relu(distance - ROUNDING)


class Distance(torch.autograd.Function):
    """‖⊕ₗ (targetₗ − Lₗ·Λ̂ₗ)‖₂ over all samples (eq. 7), by ``Distance.apply(weights, targets, *outputs)``: a scalar.

    Its derivative with respect to Lₗ is −gapₗ·Λ̂ₗ / distance, and 0 at distance 0. Written out, it takes a third of the
    passes over the feature maps that automatic differentiation makes.
    """

    @staticmethod
    def forward(ctx: Any, weights: Sequence[torch.Tensor], targets: Sequence[torch.Tensor], *outputs: torch.Tensor):
        weights = [aligned_weight(weight, output) for weight, output in zip(weights, outputs, strict=True)]
        layers = zip(targets, outputs, weights, strict=True)
        gaps = [torch.addcmul(target, output.movedim(1, -1), weight, value=-1) for target, output, weight in layers]
        distance = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(gap) for gap in gaps]))
        ctx.save_for_backward(distance, *gaps, *weights)
        return distance

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        distance, *saved = ctx.saved_tensors
        gaps, weights = saved[: len(saved) // 2], saved[len(saved) // 2 :]
        scale = torch.where(distance > 0, -upstream / distance, 0.0)
        slopes = (gap * (weight * scale) for gap, weight in zip(gaps, weights, strict=True))
        return None, None, *(slope.movedim(-1, 1) for slope in slopes)
