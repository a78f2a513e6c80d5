"""The shipped networks, trained and evaluated in this process on labelled images.

Parameters of a round are those of ``node.learning.training``, with a ``ModelSpec`` in place of the task's model.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning import training
from fedgrove.node.learning.local_update import HeldOutSums, LocalUpdate
from fedgrove.node.learning.models import initial_tensors
from fedgrove.node.learning.reproducible import reproducible
from fedgrove.node.learning.samples import Samples, misfit
from fedgrove.node.learning.settings import (
    LOSSES,
    MAX_CONFUSED,
    RIGHT,
    ModelSpec,
    TrainingSettings,
    confusion_names,
)
from fedgrove.node.learning.strategies.base import Strategy
from fedgrove.node.learning.tasks.batches import EVALUATION_BATCH
from fedgrove.node.learning.tasks.network import NetworkModel
from fedgrove.node.learning.tasks.task import Pairs


@dataclass(frozen=True)
class Evaluation:
    """Share of right answers in [0, 1] and mean cross-entropy over ``samples`` test samples.

    ``right`` and ``per_label`` count the right answers and all samples of each label, 0 … classes − 1. ``only_class``
    is the one that is predicted for every sample, where the samples have several; else None.
    """

    accuracy: float
    loss: float
    samples: int
    right: tuple[int, ...]
    per_label: tuple[int, ...]
    only_class: int | None


def first_tensors(spec: ModelSpec, strategy: Strategy, seed: int) -> Tensors:
    """What training starts from: seeded weights, and the strategy's additional tensors."""
    weights = initial_tensors(spec.name, spec.input_shape, spec.classes, seed)
    return weights | strategy.initial_extras(weights)


def train(
    spec: ModelSpec,
    tensors: Mapping[str, np.ndarray],
    samples: Samples,
    shared: Samples | None,
    strategy: Strategy,
    settings: TrainingSettings,
    *,
    number: int,
    rounds: int,
    held_out: Samples | None = None,
    device: str = "cpu",
    **position: Any,
) -> LocalUpdate:
    """Train the global model on one client's samples, after an evaluation on those that are ``held_out``.

    Raises
    ------
    InvalidInput
        Samples or shared set do not fit the model.
    """
    measured = None if held_out is None else held_out_sums(spec, tensors, held_out, device)
    own, common = _pairs(spec, samples), _shared_pairs(spec, shared, strategy)
    where = {"number": number, "rounds": rounds, "device": device, **position}
    with _idle_model(spec) as model:
        update = training.train(model, own, tensors, strategy, settings, common, **where)
    return update if measured is None else replace(update, measured=measured)


def prepare(
    spec: ModelSpec,
    tensors: Mapping[str, np.ndarray],
    shared: Samples | None,
    strategy: Strategy,
    *,
    number: int,
    rounds: int,
    device: str = "cpu",
) -> object:
    """Do the strategy's work that is the same for all clients of a round."""
    common = _shared_pairs(spec, shared, strategy)
    with _idle_model(spec) as model:
        return training.prepare(model, tensors, common, strategy, number=number, rounds=rounds, device=device)


def held_out_sums(
    spec: ModelSpec, tensors: Mapping[str, np.ndarray], held_out: Samples, device: str = "cpu"
) -> HeldOutSums:
    """What a member measures on the samples that it holds out: right answers, losses, the confusion matrix."""
    counted = confusion_names(spec.classes) if spec.classes <= MAX_CONFUSED else ()
    sums = dict.fromkeys((RIGHT, *LOSSES, *counted), 0.0)
    if len(held_out):  # a member with few samples has none
        data = _pairs(spec, held_out)
        with _idle_model(spec) as model:
            sums |= training.evaluate(model, data, tensors, device, squares=True).totals
    return HeldOutSums(len(held_out), sums)


def evaluate(spec: ModelSpec, tensors: Mapping[str, np.ndarray], samples: Samples, device: str = "cpu") -> Evaluation:
    """Test a global model on held-out samples."""
    right = torch.zeros(spec.classes, dtype=torch.int64)

    def count(logits: torch.Tensor, labels: torch.Tensor) -> None:
        right.add_(labels[logits.argmax(1) == labels].cpu().bincount(minlength=spec.classes))

    data = _pairs(spec, samples)
    with _idle_model(spec) as model:
        sums = training.evaluate(model, data, tensors, device, observer=count)
    return Evaluation(
        accuracy=int(right.sum()) / len(samples),
        loss=sums.totals["loss"] / len(samples),
        samples=len(samples),
        right=tuple(right.tolist()),
        per_label=tuple(np.bincount(samples.y, minlength=spec.classes).tolist()),
        only_class=sums.only_class,
    )


def probabilities(spec: ModelSpec, tensors: Mapping[str, np.ndarray], images: np.ndarray) -> np.ndarray:
    """What a model gives each class, of images (n, channels, height, width): float64 array (n, classes)."""
    found = []
    with reproducible(), _idle_model(spec) as model, torch.inference_mode():
        model.load(tensors)
        for start in range(0, len(images), EVALUATION_BATCH):
            batch = torch.from_numpy(np.array(images[start : start + EVALUATION_BATCH]))
            found.append(model(batch).double().softmax(1).numpy())
    return np.concatenate(found)


_idle = threading.local()


@contextmanager
def _idle_model(spec: ModelSpec) -> Iterator[NetworkModel]:
    """A model of this kind; each thread keeps its last one, as building takes longer than a small round."""
    kept: dict[ModelSpec, NetworkModel] = vars(_idle).setdefault("model", {})
    model = kept.pop(spec, None) or NetworkModel.empty(spec)
    try:
        yield model
    finally:
        kept.clear()
        kept[spec] = model


def _shared_pairs(spec: ModelSpec, shared: Samples | None, strategy: Strategy) -> Pairs | None:
    if not strategy.needs_shared:
        return None
    if shared is None:
        raise InvalidInput(f"{strategy.name} needs a shared set: give the federation one, or choose fedavg")
    return _pairs(spec, shared)


def _pairs(spec: ModelSpec, samples: Samples) -> Pairs:
    """Samples as a dataset of the task; InvalidInput where they do not fit the model."""
    if len(samples) == 0:
        raise InvalidInput("there are no samples: a client needs at least one")
    if fault := misfit(samples, spec):
        raise InvalidInput(fault)
    return Pairs(samples.x, samples.y)
