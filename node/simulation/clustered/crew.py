"""Asks workers for a clustered round's work, and puts together what they give."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import chain, islice
from pathlib import Path

import numpy as np

from fedgrove.node.base.tensors import Layout, Tensors, unflatten
from fedgrove.node.learning.local_update import HeldOutSums
from fedgrove.node.learning.samples import Samples
from fedgrove.node.masking.ring import WORD
from fedgrove.node.methods.procfl.committee import Ballot
from fedgrove.node.methods.procfl.evidence import Rule
from fedgrove.node.methods.procfl.training import Cluster, choose_cluster
from fedgrove.node.privacy.mechanism import Weight
from fedgrove.node.privacy.weighted import WeightedMean
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.checkpoint import RunDirectory
from fedgrove.node.simulation.clustered.attackers import Attackers, Showing, Weighing
from fedgrove.node.simulation.clustered.work import Chooser, JudgingTask, LossTask
from fedgrove.node.simulation.data import Dealt, PlacedData
from fedgrove.node.simulation.network_work import NetworkTerms
from fedgrove.node.simulation.tasks import TASK_BYTES, TaskMaker
from fedgrove.node.simulation.uploads import Encoder
from fedgrove.node.simulation.work import (
    ClientResult,
    EvaluationTask,
    MembersEvaluation,
    ModelReference,
    SliceScore,
    TrainingTask,
)
from fedgrove.node.simulation.workers import Workforce

# Clients that a task finds losses for.
CHOOSERS = 8


@dataclass(frozen=True)
class LabelScores:
    """How a model did on test samples: right answers and samples of each label, mean cross-entropy (nats)."""

    right: np.ndarray
    tested: np.ndarray
    loss: float

    @property
    def accuracy(self) -> float:
        """Share of right answers."""
        return int(self.right.sum()) / int(self.tested.sum())

    def accuracy_for(self, counts: np.ndarray) -> float:
        """Expected accuracy on data with these label counts, int64 (classes,), of the labels that were tested.

        0 where none of them was.
        """
        known = self.tested > 0
        weights = np.where(known, counts, 0)
        share = np.divide(self.right, self.tested, out=np.zeros(len(counts)), where=known)
        return float(weights @ share / weights.sum()) if weights.any() else 0.0


class Crew:
    """Workers, and what they need for one simulation.

    Parameters
    ----------
    scenario, terms, data, layout
        What is simulated; ``data.test`` are the samples for evaluation.
    scratch : Path
        An empty directory.
    """

    def __init__(
        self,
        scenario: Scenario,
        terms: NetworkTerms,
        data: Dealt,
        layout: Layout,
        public: Samples | None,
        attackers: Attackers | None,
        workforce: Workforce,
        files: RunDirectory,
        scratch: Path,
    ) -> None:
        self._scenario, self._terms, self._data, self._layout = scenario, terms, data, layout
        self._attackers, self._files, self._scratch = attackers, files, scratch
        self._workforce = workforce
        self.tasks = self._maker("honest", data)
        # Training data are not needed where models are watched: something small takes their place.
        watched = None if public is None else Dealt(data.spec, public, (), public, None)
        self._watch = None if watched is None else self._maker("public", watched)
        self._poisoned: TaskMaker | None = None
        aim = None if attackers is None else attackers.settings.attack.aim(data.test)
        self._aim = None if aim is None else self._maker("aim", Dealt(data.spec, aim, (), aim, None))

    def publish(self, models: Iterable[Tensors]) -> list[ModelReference]:
        """Bring models to the workers."""
        return self.tasks.publish(models)

    def train(
        self,
        number: int,
        models: Mapping[int, ModelReference],
        groups: Mapping[int, Cluster],
        weights: Mapping[int, Fraction],
    ) -> tuple[dict[int, Tensors], list[ClientResult]]:
        """Train each group's model; as ``sums``, with the means behind them."""
        sums, results = self.sums(number, models, groups, weights)
        mean, whole = WeightedMean(self._layout, self._scenario.masking.bound), Weight(1, 1)
        vectors = {k: mean.mean(total, models[k].tensors, whole) for k, total in sums.items()}
        return {k: unflatten(vector, self._layout) for k, vector in vectors.items()}, results

    def sums(
        self,
        number: int,
        models: Mapping[int, ModelReference],
        groups: Mapping[int, Cluster],
        weights: Mapping[int, Fraction],
    ) -> tuple[dict[int, np.ndarray], list[ClientResult]]:
        """Train each group's model, and sum what its clients upload.

        Parameters
        ----------
        groups : mapping
            Who trains each model, by its number; groups do not overlap.
        weights : mapping
            How much a client counts in its model's mean.

        Returns
        -------
        dict of int to uint32 array, list of ClientResult
            The sums, and what is told of the clients, ascending.
        """
        encoder = Weighing(self._scenario.masking.bound, self._attackers, weights=weights)
        tasks = self._training(number, models, groups, encoder, WORD.itemsize * self._layout.length)
        return self._workforce.train(tasks, groups, self._layout.length, self._keeper(number, keep=True))

    def shown(
        self,
        number: int,
        models: Mapping[int, ModelReference],
        groups: Mapping[int, Cluster],
        noise: float = 0.0,
        keep: bool = False,
    ) -> tuple[dict[int, np.ndarray], list[ClientResult]]:
        """Each client's model of a round, float32 (parameters,), and what is told of the clients, ascending."""
        encoder = Showing(self._scenario.masking.bound, self._attackers, noise, self._scenario.seed)
        # As if a model were as large as a task may be: then it has one client, whose sum is its own.
        tasks = self._training(number, models, groups, encoder, TASK_BYTES)
        alone = {client: (client,) for group in groups.values() for client in group}
        sums, results = self._workforce.train(tasks, alone, self._layout.length, self._keeper(number, keep))
        return {client: words.view("<f4") for client, words in sums.items()}, results

    def measured(
        self, number: int, models: Mapping[int, ModelReference], groups: Mapping[int, Cluster]
    ) -> dict[int, HeldOutSums]:
        """Each client's evaluation of its group's model, by client; nobody trains."""
        tasks = self._training(
            number, models, groups, Showing(self._scenario.masking.bound), WORD.itemsize * self._layout.length
        )
        return dict(chain.from_iterable(self._workforce.run(map(MembersEvaluation, tasks))))

    def tests(self, number: int, models: Mapping[int, ModelReference]) -> Iterator[EvaluationTask]:
        """Tests of models on the samples for evaluation, and, as models −1, −2, …, on what the attack hides in."""
        yield from _tests(self.tasks, number, models)
        if self._aim is not None:
            yield from _tests(self._aim, number, {-1 - k: model for k, model in models.items()})

    def watch(self, number: int, models: Mapping[int, ModelReference]) -> dict[int, LabelScores]:
        """Test models on the public samples."""
        if self._watch is None:
            raise ValueError("nobody watches: the crew was given no public samples")
        return together(self._workforce.run(_tests(self._watch, number, models)))

    def choose(
        self, round_number: int, models: Sequence[ModelReference], options: Mapping[int, tuple[int, ...]]
    ) -> dict[int, int]:
        """Which of its options suits each client's own samples best; the first of equals, as they are given.

        ``round_number`` is the one for which clients choose.
        """
        several = {client: own for client, own in options.items() if len({models[n].digest for n in own}) > 1}
        chosen = {client: own[0] for client, own in options.items() if own}
        for losses in self._workforce.run(self._choosing(round_number, models, several)):
            for client, found in losses.items():
                # Numbered by preference, so that it decides between equals.
                by_rank = {rank: found[number] for rank, number in enumerate(several[client])}
                chosen[client] = several[client][choose_cluster(by_rank)]
        return chosen

    def judge(self, tasks: Iterable[JudgingTask]) -> dict[int, list[Ballot]]:
        """The ballots on each suspected cluster, ascending in the voter."""
        ballots: dict[int, list[Ballot]] = {}
        for cluster, ballot in self._workforce.run(tasks):
            ballots.setdefault(cluster, []).append(ballot)
        return {cluster: sorted(found, key=lambda ballot: ballot.voter) for cluster, found in sorted(ballots.items())}

    def judging(
        self,
        number: int,
        cluster: int,
        judge: int,
        model: ModelReference,
        reference: ModelReference,
        shown: Mapping[int, ModelReference],
        labels: np.ndarray,
        rule: Rule,
    ) -> JudgingTask:
        """What a judge does about the models, by member, that a cluster shows; ``model`` is what they began with.

        ``labels`` counts the samples of each label that the members have together, int64 (classes,).
        """
        encoder = Showing(self._scenario.masking.bound)
        (own,) = self._training(number, {cluster: model}, {cluster: (judge,)}, encoder, TASK_BYTES)
        size = {client: len(self._data.parts[client - 1]) for client in (judge, *shown)}
        steps = tuple(size[member] / size[judge] for member in shown)
        return JudgingTask(cluster, own, reference, tuple(shown.values()), steps, tuple(labels.tolist()), rule)

    def _keeper(self, number: int, keep: bool) -> Callable[[int, Tensors], None]:
        return partial(self._files.keep_state, number) if keep else lambda client, state: None

    def _training(
        self,
        round_number: int,
        models: Mapping[int, ModelReference],
        groups: Mapping[int, Cluster],
        encoder: Encoder,
        size: int,
    ) -> Iterator[TrainingTask]:
        tasks, state = self._tasks(round_number), partial(self._files.state, before=round_number)
        for number, group in groups.items():
            yield from tasks.training(round_number, models[number], group, encoder, self._workforce.count, size, state)

    def _choosing(
        self, round_number: int, models: Sequence[ModelReference], options: Mapping[int, tuple[int, ...]]
    ) -> Iterator[LossTask]:
        tasks = self._tasks(round_number)
        training = tasks.data.common(probes=False)["training"]
        clients = iter(sorted(options))
        while group := tuple(islice(clients, CHOOSERS)):
            choosers = tuple(Chooser(client, tasks.data.samples(client), options[client]) for client in group)
            numbers = sorted({number for chooser in choosers for number in chooser.options})
            offered = {number: models[number] for number in numbers}
            yield LossTask(self._terms, offered, round_number, choosers, training)

    def _tasks(self, number: int) -> TaskMaker:
        """The maker of tasks on the data as clients have them in a round."""
        attackers = self._attackers
        if attackers is None or not attackers.poison_samples or not attackers.at(number):
            return self.tasks
        if self._poisoned is None:
            data = self._data
            training = attackers.poisoned(data.training, data.parts, data.spec.classes)
            self._poisoned = self._maker("poisoned", replace(data, training=training))
        return self._poisoned

    def _maker(self, name: str, data: Dealt) -> TaskMaker:
        scratch = self._scratch / name
        scratch.mkdir()
        terms = replace(self._terms, data=f"{self._terms.data} {name}")
        reach = self._workforce.reach
        return TaskMaker(self._scenario, terms, PlacedData(data, terms.data, reach, scratch), reach, scratch)


def together(slices: Iterable[SliceScore]) -> dict[int, LabelScores]:
    """How each model did, by its number, on all its slices."""
    found: dict[int, list[SliceScore]] = {}
    for counts in slices:
        found.setdefault(counts.number, []).append(counts)
    return {number: _score(own) for number, own in sorted(found.items())}


def _score(slices: Sequence[SliceScore]) -> LabelScores:
    right = np.sum([part.right or () for part in slices], axis=0)
    tested = np.sum([part.tested for part in slices], axis=0)
    return LabelScores(right, tested, math.fsum(part.loss for part in slices) / int(tested.sum()))


def _tests(maker: TaskMaker, number: int, models: Mapping[int, ModelReference]) -> Iterator[EvaluationTask]:
    return chain.from_iterable(maker.evaluation(number, model, k) for k, model in models.items())
