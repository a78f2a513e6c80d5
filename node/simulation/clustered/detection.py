"""Malicious clusters in a simulation (Xu et al. 2025, algorithm 3): a watch, committees, verdicts.

After each round the models are tested on a small public set. One that fell is suspected, and its members' models are
judged by a committee of clients outside. In the first stage there is one model: when it fell, its clients' models are
averaged again in groups that do not overlap, one a cluster, and the worst groups are suspected.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from node.clustering.committee import Ballot, NoCommittee, draw_committee, suspected, tally
from node.clustering.settings import ProCflSettings
from node.clustering.similarity import Similarity
from node.clustering.training import Cluster
from node.simulation.clustered.attackers import Attackers
from node.simulation.clustered.crew import Crew
from node.simulation.clustered.methods import FEWEST, ProCfl
from node.simulation.record import Judgement, RoundResult
from node.simulation.work import Model
from node.tensors import Layout, Tensors, unflatten


@dataclass(frozen=True)
class Trained:
    """A round up to its means: who trained what, and what came out.

    Attributes
    ----------
    round : int
    groups : mapping of int to Cluster
        Who trained each model.
    start : sequence of Model
        The models that the round began with.
    means : sequence of Tensors
        The models after it.
    """

    round: int
    groups: Mapping[int, Cluster]
    start: Sequence[Model]
    means: Sequence[Tensors]


@dataclass(frozen=True)
class Finding:
    """What the watch found in a round: each model's score, who was judged, the models that go on."""

    scores: tuple[float, ...]
    judgements: tuple[Judgement, ...]
    models: tuple[Tensors, ...]


@dataclass
class Watch:
    """The watch over a run of ProCFL.

    Parameters
    ----------
    settings : ProCflSettings
    method : ProCfl
        Who is in which cluster; who is expelled leaves it.
    similarity : Similarity
        Of clients 1, 2, … in order.
    counts : int64 array of shape (clients, classes)
        Label counts. The watch takes their sums over groups that do not overlap, once: sums over clusters as they are,
        or as they become, could show single clients' counts, masks or not.
    attackers : Attackers or None
        They vote the wrong way round.
    layout : Layout
        Of a model.
    references : list of Tensors
        Each model's best so far.
    expelled : set of int
    """

    settings: ProCflSettings
    method: ProCfl
    similarity: Similarity
    counts: np.ndarray = field(repr=False)
    attackers: Attackers | None
    layout: Layout
    references: list[Tensors] = field(default_factory=list, repr=False)
    expelled: set[int] = field(default_factory=set)
    _best: list[float] = field(default_factory=list)
    _judged: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        everybody = self.counts.sum(axis=0)
        parts = self.method.parts(range(1, len(self.counts) + 1))
        self._labels = [everybody] * len(self.method.clusters)
        for cluster, part in parts.items():
            if len(part) >= FEWEST:
                self._labels[cluster] = self.counts[[client - 1 for client in part]].sum(axis=0)
        self._everybody = everybody

    def resume(self, rounds: Sequence[RoundResult]) -> None:
        """Take note of the verdicts that a checkpoint holds."""
        for result in rounds:
            self._note(result.round, result.clustering.judgements)

    def enter(self, crew: Crew, round: int, models: Sequence[Tensors]) -> None:
        """Begin a round: each model has a reference, and its score is known."""
        if not self.references:
            self.references = list(models)
        if len(self.references) != len(models):  # after the first stage its best model is everybody's reference
            self.references = self.references[:1] * len(models)
            self._best = []
        if not self._best or round == self.method.last_global + 1:
            self._best = self._scores(crew, round, self.references)

    def look(self, crew: Crew, trained: Trained) -> Finding:
        """Test a round's models, and let committees judge where one fell."""
        round = trained.round
        scores = self._scores(crew, round, trained.means)
        fallen = suspected(scores, self._best, self.settings.tolerance)
        suspects = self._suspects(crew, trained, fallen) if fallen else {}
        judgements = self._judge(crew, trained, suspects)
        self._note(round, judgements)
        reset = {self._model_of(judgement.cluster, round) for judgement in judgements if judgement.expelled}
        for number in set(range(len(scores))) - reset:
            if scores[number] >= self._best[number]:
                self.references[number], self._best[number] = trained.means[number], scores[number]
        models = [self.references[k] if k in reset else mean for k, mean in enumerate(trained.means)]
        return Finding(tuple(scores), judgements, tuple(models))

    def _suspects(self, crew: Crew, trained: Trained, fallen: Sequence[int]) -> dict[int, Cluster]:
        """Suspected clusters that were not judged of late, and who of them trained.

        In the first stage sums over the clusters as they are could show single models, so clients are added up in
        groups that do not overlap.
        """
        round = trained.round
        if round > self.method.last_global:
            groups = {number: trained.groups[number] for number in fallen if number in trained.groups}
        else:
            groups = self._worst_parts(crew, trained)
        pause = self.settings.pause
        return {k: group for k, group in groups.items() if k not in self._judged or round - self._judged[k] >= pause}

    def _worst_parts(self, crew: Crew, trained: Trained) -> dict[int, Cluster]:
        groups = self.method.parts(client for group in trained.groups.values() for client in group)
        weights = {client: Fraction(1, len(group)) for group in groups.values() for client in group}
        means = crew.train_again(trained.round, trained.start[0], groups, weights)
        models = crew.publish([*means.values(), self.references[0]])
        *found, reference = crew.watch(trained.round, dict(enumerate(models))).values()
        labels = [self._labels[number] for number in groups]
        scores = [score.accuracy_for(counts) for score, counts in zip(found, labels, strict=True)]
        best = [reference.accuracy_for(counts) for counts in labels]
        numbers = list(groups)
        return {numbers[k]: groups[numbers[k]] for k in suspected(scores, best, self.settings.tolerance)}

    def _judge(self, crew: Crew, trained: Trained, suspects: Mapping[int, Cluster]) -> tuple[Judgement, ...]:
        """What committees find; a cluster outside which nobody is left to judge it goes unjudged."""
        committees = {}
        for cluster, group in suspects.items():
            others = self.expelled.union(*(members for number, members in suspects.items() if number != cluster))
            with suppress(NoCommittee):
                committees[cluster] = self._committee(group, others)
        groups = {cluster: suspects[cluster] for cluster in committees}
        if not groups:
            return ()
        round = trained.round
        start = {cluster: trained.start[self._model_of(cluster, round)] for cluster in groups}
        vectors, _ = crew.shown(round, start, groups, self.settings.shown_noise)
        shown = dict(zip(vectors, crew.publish(unflatten(v, self.layout) for v in vectors.values()), strict=True))
        references = crew.publish(self.references)
        tasks = (
            crew.judging(
                round,
                cluster,
                judge,
                start[cluster],
                references[self._model_of(cluster, round)],
                {member: shown[member] for member in group},
                self._labels[cluster],
                self.settings.rule,
            )
            for cluster, group in groups.items()
            for judge in committees[cluster]
        )
        ballots = crew.judge(tasks)
        return tuple(
            self._verdict(round, cluster, group, committees[cluster], ballots[cluster])
            for cluster, group in groups.items()
        )

    def _committee(self, group: Cluster, barred: Collection[int]) -> Cluster:
        members, barred = [client - 1 for client in group], [client - 1 for client in barred]
        return tuple(client + 1 for client in draw_committee(self.similarity, members, self.settings.seats, barred))

    def _verdict(
        self, round: int, cluster: int, group: Cluster, committee: Cluster, ballots: Sequence[Ballot]
    ) -> Judgement:
        attackers = frozenset() if self.attackers is None else self.attackers.at(round)
        lies = tuple(member not in attackers for member in group)
        cast = [replace(ballot, against=lies) if ballot.voter in attackers else ballot for ballot in ballots]
        verdict = tally(group, committee, cast)
        return Judgement(cluster, group, committee, verdict.against, verdict.expelled)

    def _note(self, round: int, judgements: Sequence[Judgement]) -> None:
        for judgement in judgements:
            self._judged[judgement.cluster] = round
            self.expelled.update(judgement.expelled)
            self.method.expel(judgement.cluster, judgement.expelled)

    def _model_of(self, cluster: int, round: int) -> int:
        return 0 if round <= self.method.last_global else cluster

    def _scores(self, crew: Crew, round: int, models: Sequence[Tensors]) -> list[float]:
        """Accuracy of each model on the public set, weighted as the labels that it is for."""
        found = crew.watch(round, dict(enumerate(crew.publish(models))))
        labels = self._labels if round > self.method.last_global else [self._everybody]
        return [found[number].accuracy_for(labels[number]) for number in range(len(models))]
