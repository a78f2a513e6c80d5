"""One client's round of local training, and evaluation; the same bytes whenever and wherever it runs.

All randomness of a client's round comes from generators seeded by SHA-256 over (purpose, seed, client, round), and the
work runs on one thread with deterministic kernels, so neither the order of clients nor the number of workers matters.
"""

import ctypes
import hashlib
import math
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
import torch
from fedgrove.node.learning import devices, plain_descent
from fedgrove.node.learning.augment import augment
from fedgrove.node.learning.local_update import DivergedTraining, HeldOutSums, LocalUpdate, RoundPosition
from fedgrove.node.learning.models import Classifier, channels_last, empty_model, load_tensors, split_extras, to_tensors
from fedgrove.node.learning.predicted_classes import PredictedClasses
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.settings import LOSSES, MAX_CONFUSED, RIGHT, ModelSpec, TrainingSettings, confusion_names
from fedgrove.node.learning.sgd import Sgd
from fedgrove.node.learning.strategies.base import Batch, LocalTerm, RoundStart, Strategy
from torch.nn import functional

__all__ = [
    "DivergedTraining",
    "Evaluation",
    "LocalUpdate",
    "ModelSpec",
    "RoundPosition",
    "TrainingSettings",
    "diverged",
    "evaluate",
    "keep_freed_memory",
    "measure",
    "measured",
    "prepare",
    "reproducible",
    "train",
]

Forward = Callable[[Classifier, torch.Tensor, torch.Tensor, LocalTerm], Batch]
"""Sends a batch's images and labels through a model, with what the term sends along."""

EVALUATION_BATCH = 250
# Bytes of images that are put in order at once: an epoch of most clients, and a bound for the large ones.
GATHERED_BYTES = 1 << 24
# mallopt(3): a process keeps this many freed bytes, and takes blocks of up to as many from them.
M_TRIM_THRESHOLD, KEPT_BYTES = -1, 1 << 28
M_MMAP_THRESHOLD, LARGEST_KEPT_BYTES = -3, 1 << 25


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
    client: int,
    seed: int,
    state: Mapping[str, np.ndarray] | None = None,
    prepared: object = None,
    device: str = "cpu",
    sampling_rate: float = 1.0,
) -> LocalUpdate:
    """Train the global model on one client's samples.

    Parameters
    ----------
    tensors : mapping of str to ndarray
        The global model: weights, and the averaged extras of the strategy if it has any.
    round, rounds : int
        t, from 1, and T. Rounds after T train as round T does where a strategy's schedule is over.
    client, seed : int
        With ``number`` they seed all randomness.
    state : mapping, optional
        ``LocalUpdate.state`` of this client's last round.
    prepared : object, optional
        What ``prepare`` gave for this round's model, shared set and strategy; found here when absent. The bytes are the
        same either way.
    device : str
        Where torch computes, see ``node.learning.devices``. All draws are made on the processor, so they are the same
        everywhere; sums are not, to the last bit.
    sampling_rate : float
        Share of the members that a round draws.

    Raises
    ------
    DivergedTraining
        The loss or a weight is not finite.
    UnsuitedProcessor
        The settings cannot be had in this process.
    ValueError
        Samples that do not fit the model, or no shared set where the strategy needs one.
    """
    _check_round(spec, shared, strategy, number, rounds)
    _check_fits(spec, samples)
    devices.check(settings, device)
    with reproducible(), _model_with(spec, tensors, device) as model:
        if prepared is None:
            prepared = strategy.prepare(model, shared, number=number, rounds=rounds)
        start = RoundStart(
            number,
            rounds,
            strategy.local_data(samples, shared),
            shared,
            split_extras(model, tensors),
            dict(state or {}),
            generator_of("strategy", seed, client, number),
            prepared,
            sampling_rate,
        )
        term = strategy.begin(model, start)
        generator = generator_of("training", seed, client, number)
        if plain_descent.suits(model, start.samples, term, settings):
            loss = plain_descent.descend(model, start.samples, settings, settings.rate_of(number), generator)
        else:
            loss = _descend(model, start, term, settings, generator)
        trained = to_tensors(model)
        end = term.finish()
    upload = {**trained, **end.extras}
    if not (math.isfinite(loss) and all(np.isfinite(value).all() for value in upload.values())):
        raise DivergedTraining(diverged(client, number, settings))
    return LocalUpdate(upload, len(samples), loss, end.state)


def diverged(client: int, number: int, settings: TrainingSettings) -> str:
    """What to say of a training that left the finite numbers."""
    return (
        f"client {client} diverged in round {number}: lower learning_rate (now {settings.learning_rate:g}), "
        f"momentum (now {settings.momentum:g}) or the strategy's weight"
    )


def measured(
    spec: ModelSpec,
    tensors: Mapping[str, np.ndarray],
    held_out: Samples,
    training: Callable[[], LocalUpdate],
    device: str,
) -> LocalUpdate:
    """What ``training`` returns, after an evaluation of the global model on the samples that the member holds out."""
    found = held_out_sums(spec, tensors, held_out, device)
    return replace(training(), measured=found)


def held_out_sums(
    spec: ModelSpec, tensors: Mapping[str, np.ndarray], held_out: Samples, device: str = "cpu"
) -> HeldOutSums:
    """An evaluation of the global model on the samples that the member holds out."""
    return HeldOutSums(len(held_out), measure(spec, tensors, held_out, device))


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
    """Do the strategy's work that is the same for all clients of a round, for a process that trains several.

    Parameters are those of ``train``; the value is its ``prepared``. None where a strategy has no such work.
    """
    _check_round(spec, shared, strategy, number, rounds)
    with reproducible(), _model_with(spec, tensors, device) as model:
        return strategy.prepare(model, shared, number=number, rounds=rounds)


def keep_freed_memory() -> None:
    """Let a process that will train keep the memory that it frees, by glibc's mallopt(3).

    Without it the buffers that a step frees go back to the system and come again, a page fault for each 4 KiB.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        libc.mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT_BYTES)


def evaluate(spec: ModelSpec, tensors: Mapping[str, np.ndarray], samples: Samples, device: str = "cpu") -> Evaluation:
    """Test a global model on held-out samples."""
    _check_fits(spec, samples)
    right, loss = np.zeros(spec.classes, dtype=np.int64), 0.0
    predicted = PredictedClasses()
    with reproducible(), _model_with(spec, tensors, device) as model, torch.inference_mode():
        for start in range(0, len(samples), EVALUATION_BATCH):
            x = torch.from_numpy(np.array(samples.x[start : start + EVALUATION_BATCH])).to(device)
            y = torch.from_numpy(np.array(samples.y[start : start + EVALUATION_BATCH])).to(device)
            logits = model(x)
            predicted.add(logits.argmax(1), y)
            right += y[logits.argmax(1) == y].cpu().bincount(minlength=spec.classes).numpy()
            loss += float(functional.cross_entropy(logits, y, reduction="sum"))
    per_label = np.bincount(samples.y, minlength=spec.classes)
    count = len(samples)
    return Evaluation(
        accuracy=int(right.sum()) / count,
        loss=loss / count,
        samples=count,
        right=tuple(right.tolist()),
        per_label=tuple(per_label.tolist()),
        only_class=predicted.only,
    )


def probabilities(spec: ModelSpec, tensors: Mapping[str, np.ndarray], images: np.ndarray) -> np.ndarray:
    """What a model gives each class, of images (n, channels, height, width): float64 array (n, classes)."""
    found = []
    with reproducible(), _model_with(spec, tensors, "cpu") as model, torch.inference_mode():
        for start in range(0, len(images), EVALUATION_BATCH):
            batch = torch.from_numpy(np.array(images[start : start + EVALUATION_BATCH]))
            found.append(model(batch).double().softmax(1).numpy())
    return np.concatenate(found)


def measure(
    spec: ModelSpec, tensors: Mapping[str, np.ndarray], samples: Samples, device: str = "cpu"
) -> dict[str, float]:
    """Sum what a member measures on the samples that it holds out: right answers, losses, the confusion matrix."""
    counted = confusion_names(spec.classes) if spec.classes <= MAX_CONFUSED else ()
    sums: dict[str, float] = dict.fromkeys((RIGHT, *LOSSES, *counted), 0.0)
    if not len(samples):
        return sums  # of a member with few samples
    confusion = torch.zeros(len(counted), dtype=torch.int64)
    _check_fits(spec, samples)
    with reproducible(), _model_with(spec, tensors, device) as model, torch.inference_mode():
        for start in range(0, len(samples), EVALUATION_BATCH):
            batch = slice(start, start + EVALUATION_BATCH)
            x, y = (torch.from_numpy(each[batch].copy()).to(device) for each in (samples.x, samples.y))
            logits = model(x)
            losses = functional.cross_entropy(logits, y, reduction="none").double()
            predicted = logits.argmax(1)
            found = ((predicted == y).sum(), losses.sum(), losses.square().sum())
            for name, value in zip((RIGHT, *LOSSES), found, strict=True):
                sums[name] += float(value)
            if counted:
                confusion += (y * spec.classes + predicted).bincount(minlength=len(counted)).cpu()
    return sums | dict(zip(counted, map(float, confusion.tolist()), strict=True))


def _descend(
    model: Classifier, start: RoundStart, term: LocalTerm, settings: TrainingSettings, generator: torch.Generator
) -> float:
    """Run the local epochs; return the mean cross-entropy of the last, not finite as soon as one epoch's is not."""
    rate = settings.rate_of(start.round)
    optimizer = Sgd(list(model.parameters()), rate, settings.momentum, settings.weight_decay)
    forward = _forward_bf16 if settings.precision == "bf16" else _forward
    loss = math.nan
    for epoch in range(settings.epochs):
        term.start_epoch(epoch)
        total = 0.0
        for images, labels in _batches(start.samples, settings.batch_size, generator):
            images = augment(images, settings, generator).to(model.device)
            backward = partial(_backward, forward, model, images, labels.to(model.device), term)
            cross_entropy = backward()
            term.before_step(backward)
            optimizer.step()
            total += cross_entropy.item() * len(labels)
        loss = total / len(start.samples)
        if not math.isfinite(loss):
            break
    return loss


def _backward(
    forward: Forward, model: Classifier, images: torch.Tensor, labels: torch.Tensor, term: LocalTerm
) -> torch.Tensor:
    """Leave a batch's gradients at the parameters; return its cross-entropy, without what the term adds."""
    batch = forward(model, images, labels, term)
    cross_entropy = functional.cross_entropy(term.calibrated(batch.logits), batch.y)
    added = term.loss(batch)
    model.zero_grad()
    (cross_entropy if added is None else cross_entropy + added).backward()
    return cross_entropy


def _batches(samples: Samples, size: int, generator: torch.Generator) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Images and labels of an epoch's batches, in random order; gathered many batches at a time."""
    order = torch.randperm(len(samples), generator=generator).numpy()
    together = size * max(1, GATHERED_BYTES // (size * samples.x[0].nbytes))
    for first in range(0, len(order), together):
        chosen = order[first : first + together]
        x, y = torch.from_numpy(samples.x[chosen]), torch.from_numpy(samples.y[chosen])
        yield from zip(channels_last(x).split(size), y.split(size), strict=True)


def _forward(model: Classifier, images: torch.Tensor, labels: torch.Tensor, term: LocalTerm) -> Batch:
    """Send a batch through the model, and what the term sends along in the same pass."""
    companions = term.companions()
    if companions is None:
        return Batch(images, labels, model.layer_outputs(images))
    return Batch(images, labels, *model.layer_outputs_apart(torch.cat([images, companions]), len(labels)))


def _forward_bf16(model: Classifier, images: torch.Tensor, labels: torch.Tensor, term: LocalTerm) -> Batch:
    """As ``_forward``, its layers in bfloat16; logits and representation come out in float32."""
    with torch.autocast("cpu", torch.bfloat16):
        batch = _forward(model, images, labels, term)
    *maps, representation, logits = batch.outputs
    return replace(batch, outputs=(*maps, representation.float(), logits.float()))


_idle = threading.local()


@contextmanager
def _model_with(spec: ModelSpec, tensors: Mapping[str, np.ndarray], device: str) -> Iterator[Classifier]:
    """A model that holds these weights; each thread keeps its last one, as building takes longer than a small round."""
    kept: dict[tuple[ModelSpec, str], Classifier] = vars(_idle).setdefault("model", {})
    model = kept.pop((spec, device), None)
    if model is None:
        devices.set_up(device)
        model = empty_model(spec, device)
    load_tensors(model, tensors)
    try:
        yield model
    finally:
        model.zero_grad()
        kept.clear()
        kept[spec, device] = model


def _check_round(spec: ModelSpec, shared: Samples | None, strategy: Strategy, number: int, rounds: int) -> None:
    if number < 1 or rounds < 1:
        raise ValueError(f"rounds count from 1, not round {number} of {rounds}")
    if strategy.needs_shared:
        if shared is None:
            raise ValueError(f"{strategy.name} needs a shared set: give the federation one, or choose fedavg")
        _check_fits(spec, shared)


def _check_fits(spec: ModelSpec, samples: Samples) -> None:
    if len(samples) == 0:
        raise ValueError("there are no samples: a client needs at least one")
    if samples.x.shape[1:] != spec.input_shape:
        raise ValueError(
            f"images have shape {samples.x.shape[1:]}, but the federation's model takes {spec.input_shape}"
        )
    if int(samples.y.min()) < 0 or int(samples.y.max()) >= spec.classes:
        raise ValueError(f"labels must be 0 … {spec.classes - 1} in this federation, found {int(samples.y.max())}")


def generator_of(purpose: str, seed: int, client: int, number: int) -> torch.Generator:
    digest = hashlib.sha256(f"fedgrove {purpose} {seed} {client} {number}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big", signed=True))


class _Memory(Protocol):
    fill_uninitialized_memory: bool


# The module has this as a property, by a class that it gives itself.
_memory: _Memory = torch.utils.deterministic  # pyright: ignore[reportAssignmentType]
_running = 0
_lock = threading.Lock()
_outside = (1, True)


@contextmanager
def reproducible() -> Iterator[None]:
    """One thread and deterministic kernels inside; the caller's settings again when the last one leaves."""
    global _running, _outside
    with _lock:
        if _running == 0:
            _outside = torch.get_num_threads(), _memory.fill_uninitialized_memory
            # As torch.use_deterministic_algorithms, which would import torch's compiler (see ``sgd``).
            torch.set_deterministic_debug_mode("error")
            # A fill of every new buffer finds code that reads before it writes; no kernel here does.
            _memory.fill_uninitialized_memory = False
        _running += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if _running == 0:
                threads, fill = _outside
                torch.set_num_threads(threads)
                torch.set_deterministic_debug_mode("default")
                _memory.fill_uninitialized_memory = fill
