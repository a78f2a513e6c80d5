"""Training of the shipped networks, and how well they do on a coordinator's test data."""

import math
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import cached_property, partial
from typing import TypeVar

import numpy as np

from fedgrove.common.errors import Refused
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.held_out import marks_of, split
from fedgrove.node.learning.local_update import HeldOutSums, LocalUpdate, RoundPosition
from fedgrove.node.learning.networks import evaluate, held_out_sums, probabilities, train
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.scores import StatedScores, class_scores
from fedgrove.node.learning.settings import MAX_CONFUSED
from fedgrove.node.learning.shared import shared_from_bytes
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.methods.training.hold_out import HoldOut
from fedgrove.node.protocol.local_work import CannotTakePart
from fedgrove.node.protocol.method import Evaluated, Evaluator
from fedgrove.node.protocol.terms import FederationConfig

_Found = TypeVar("_Found")


class NetworkTrainer:
    """Trains a shipped network on a member's samples, in an executor, or at once without one.

    Parameters
    ----------
    hold_out : HoldOut, optional
        Which of the samples are not trained on: the global model is evaluated on them first.
    """

    def __init__(
        self,
        store: ContentReader,
        config: FederationConfig,
        samples: Samples,
        executor: Executor | None,
        device: str = "cpu",
        hold_out: HoldOut | None = None,
    ) -> None:
        self._store, self._config, self._samples, self._executor = store, config, samples, executor
        self._device, self._hold_out = device, hold_out

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def training_samples(self) -> Samples:
        """The samples that are not held out; raises CannotTakePart where there are none."""
        return self._parts[0]

    def start(self, model: Tensors, position: RoundPosition, client: int, state: Tensors) -> Future[LocalUpdate]:
        """As ``Trainer`` says; StoreError or DatasetError where the shared set cannot be had."""
        config, (own, held_out) = self._config, self._parts
        strategy = make_strategy(config.strategy.name, config.strategy.options)
        work = (config.network, model, own, fetch_shared(self._store, config), strategy, config.training)
        more = {"client": client, "state": state, "held_out": held_out, "device": self._device}
        return self._begun(partial(train, *work, **position, **more))

    def measure(self, model: Tensors, state: Tensors) -> Future[HeldOutSums]:
        _, held_out = self._parts
        assert held_out is not None
        return self._begun(partial(held_out_sums, self._config.network, model, held_out, self._device))

    def label_counts(self, labels: int) -> np.ndarray:
        counts = np.bincount(self._samples.y, minlength=labels)
        if len(counts) != labels:
            raise CannotTakePart(f"there is a label {len(counts) - 1}, but labels range from 0 to {labels - 1}")
        return counts

    def training_loss(self, model: Tensors) -> float:
        return evaluate(self._config.network, model, self.training_samples, self._device).loss

    def _begun(self, job: Callable[[], _Found]) -> Future[_Found]:
        if self._executor is not None:
            return self._executor.submit(job)
        done: Future[_Found] = Future()
        try:
            done.set_result(job())
        except Exception as fault:
            done.set_exception(fault)
        return done

    @cached_property
    def _parts(self) -> tuple[Samples, Samples | None]:
        """The samples to train on, and those to evaluate on; all, and None, where the terms ask for no evaluation."""
        if self._hold_out is None:
            return self._samples, None
        rule = self._hold_out.rule
        try:
            found = split(marks_of(self._samples, rule), rule)
        except Refused as fault:
            raise CannotTakePart(str(fault)) from None
        self._hold_out.remember(found.boundary)
        return self._samples.take(found.train), self._samples.take(found.held_out)


def fetch_shared(store: ContentReader, config: FederationConfig) -> Samples | None:
    """The shared set of the terms; None where they have none. Raises StoreError, DatasetError."""
    if not config.shared.digest:
        return None
    blob = store.fetch(bytes.fromhex(config.shared.digest), config.max_blob_bytes)
    return shared_from_bytes(blob, config.network)


def evaluator(config: FederationConfig, test: Samples) -> Evaluator[Tensors]:
    """Maps a model to how it does on ``test``; its loss is in nats."""

    def score(model: Tensors) -> Evaluated:
        result = evaluate(config.network, model, test)
        found = (result.accuracy, finite(result.loss), result.samples, result.only_class)
        return Evaluated(*found, _scores(config, model, test))

    return score


def _scores(config: FederationConfig, model: Tensors, test: Samples) -> StatedScores | None:
    """AUC and the like; None where there are many classes, or the model overflows."""
    if len(config.classes) > MAX_CONFUSED:
        return None
    values = probabilities(config.network, model, test.x)
    return class_scores(values, test.y, config.classes).statement() if np.isfinite(values).all() else None


def finite(loss: float) -> float:
    """The loss of a model, a very large one if it overflows: a poisoned model would else give metrics that are none."""
    return loss if math.isfinite(loss) else 1e300
