"""What a worker does in addition to training and tests: compare clients, find losses, judge."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from fedgrove.node.base.tensors import flatten
from fedgrove.node.learning.networks import evaluate
from fedgrove.node.learning.samples import Samples
from fedgrove.node.methods.procfl.committee import Ballot
from fedgrove.node.methods.procfl.evidence import Evidence, Finding, Rule, direction, even_score, resampled
from fedgrove.node.methods.procfl.similarity import Intersection
from fedgrove.node.simulation.clustered.all_pairs import AllPairs, Psi
from fedgrove.node.simulation.data import OnDisk
from fedgrove.node.simulation.network_work import NetworkTerms, own_samples, terms_of
from fedgrove.node.simulation.work import ModelReference, TrainingTask

RSA_BITS = 2048


@dataclass(frozen=True)
class Sets:
    """All clients' label counts, and how their sets are compared."""

    session: bytes
    counts: tuple[tuple[int, ...], ...] = field(repr=False)
    psi: Psi


@dataclass(frozen=True)
class ComparisonTask:
    """Some pairs of clients, from 0, by the messages of a private comparison."""

    doing: ClassVar[str] = "comparing clients"

    sets: Sets = field(repr=False)
    pairs: tuple[tuple[int, int], ...]
    round: int = 0

    def perform(self) -> tuple[Intersection, ...]:
        """All comparisons. Overlaps do not depend on the secrets, which are drawn anew in each process."""
        clients = _clients(self.sets)
        return tuple(clients.compare(left, right) for left, right in self.pairs)


@lru_cache(maxsize=1)
def _clients(sets: Sets) -> AllPairs:
    return AllPairs(sets.session, np.array(sets.counts, np.int64), os.urandom, sets.psi, RSA_BITS)


@dataclass(frozen=True)
class Chooser:
    """A client that may choose between models: its samples, or their indices into the training samples."""

    client: int
    samples: Any = field(repr=False)
    options: tuple[int, ...]


@dataclass(frozen=True)
class LossTask:
    """Losses of models on clients' own samples, without those that they hold out."""

    doing: ClassVar[str] = "choosing clusters"

    terms: NetworkTerms
    models: Mapping[int, ModelReference]
    round: int
    clients: tuple[Chooser, ...]
    training: Samples | OnDisk | None = field(repr=False)

    def perform(self) -> dict[int, dict[int, float]]:
        """Mean cross-entropy (nats) by client and model."""
        losses: dict[int, dict[int, float]] = {chooser.client: {} for chooser in self.clients}
        known = {chooser.client: self._trained_on(chooser) for chooser in self.clients}
        for number, model in self.models.items():
            tensors = model.tensors()
            for chooser in self.clients:
                if number in chooser.options:
                    score = evaluate(self.terms.spec, tensors, known[chooser.client], self.terms.device)
                    losses[chooser.client][number] = score.loss
        return losses

    def _trained_on(self, chooser: Chooser) -> Samples:
        return self.terms.split(chooser.client, own_samples(chooser.samples, self.training))[0]


@dataclass(frozen=True)
class JudgingTask:
    """A judge tests the models that a suspected cluster's members show.

    Attributes
    ----------
    cluster : int
        Number of the cluster's model.
    own : TrainingTask
        The judge's own training, from the model that the members began with.
    reference : Model
        From before the drop.
    shown : tuple of ModelReference
        In the order of the members.
    steps : tuple of float
        A member's samples for each of the judge's.
    labels : tuple of int
        Samples of each label that the members have together.
    """

    doing: ClassVar[str] = "judging models"

    cluster: int
    own: TrainingTask
    reference: ModelReference
    shown: tuple[ModelReference, ...]
    steps: tuple[float, ...]
    labels: tuple[int, ...]
    rule: Rule

    @property
    def round(self) -> int:
        return self.own.round

    def perform(self) -> tuple[int, Ballot]:
        """The cluster, and the judge's votes on its members."""
        (judge,) = self.own.clients
        terms = terms_of(self.own)
        spec, device = terms.spec, terms.device
        samples, _ = terms.split(judge.client, own_samples(judge.samples, self.own.training))
        tensors = self.own.model.tensors()
        start = flatten(tensors)
        rng = np.random.default_rng([terms.seed, self.round, judge.client, self.cluster])
        alike = replace(judge, samples=resampled(samples, np.array(self.labels), rng))
        # It trains on all of these.
        trained, _ = replace(terms, evaluation=None).train(self.own, alike, tensors, start)

        def scored(model: ModelReference) -> int:
            if self.rule.test == "direction":
                return 0
            result = evaluate(spec, model.tensors(), samples, device)
            return even_score(result.per_label, result.right)

        findings = []
        for model, steps in zip(self.shown, self.steps, strict=True):
            way = direction(flatten(model.tensors()) - start, trained - start, steps)
            findings.append(Finding(bytes.fromhex(model.digest), *way, scored(model)))
        evidence = Evidence(tuple(findings), scored(self.reference))
        return self.cluster, Ballot(judge.client, evidence.votes(self.rule), evidence.digest())
