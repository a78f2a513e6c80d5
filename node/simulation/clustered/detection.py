"""Malicious clusters in a simulation (Xu et al. 2025, algorithm 3): a watch, committees, verdicts.

After each round the models are tested on a small public set. One that fell does not go on, and half of its members may
have to show theirs to a committee of clients outside, by the rules of a federation (``node.methods.procfl.suspicion``).
In the first stage there is one model: when it fell, its clients' models are averaged again in groups that do not
overlap, one a cluster, and the worst groups are suspected.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from fedgrove.node.base.tensors import Layout, Tensors, unflatten
from fedgrove.node.methods.procfl.cases import Case
from fedgrove.node.methods.procfl.committee import Ballot, by_lot, drawn_members, pool_of, tally
from fedgrove.node.methods.procfl.labels import label_shares
from fedgrove.node.methods.procfl.settings import ProCflSettings
from fedgrove.node.methods.procfl.similarity import Similarity
from fedgrove.node.methods.procfl.suspicion import is_fair
from fedgrove.node.methods.procfl.training import Cluster
from fedgrove.node.methods.procfl.watching import Score, fallen, score
from fedgrove.node.simulation.clustered.attackers import Attackers
from fedgrove.node.simulation.clustered.crew import Crew, LabelScores
from fedgrove.node.simulation.clustered.methods import FEWEST, ProCflScheme
from fedgrove.node.simulation.record import CommitteeVerdict, RoundResult
from fedgrove.node.simulation.work import ModelReference


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
    start: Sequence[ModelReference]
    means: Sequence[Tensors]


@dataclass(frozen=True)
class WatchFinding:
    """What the watch found in a round: each model's score, who was judged, the models that go on."""

    scores: tuple[float, ...]
    judgements: tuple[CommitteeVerdict, ...]
    models: tuple[Tensors, ...]


@dataclass
class ClusterWatch:
    """The watch over a run of ProCFL.

    Parameters
    ----------
    settings : ProCflSettings
    method : ProCfl
        Who is in which cluster; who is expelled leaves it.
    similarity : Similarity
        Of clients 1, 2, … in order.
    counts : int64 array of shape (clients, classes)
        Label counts. The watch takes sums of their shares over groups that do not overlap, once: sums over clusters as
        they are, or as they become, could show single clients' shares, masks or not.
    attackers : Attackers or None
        They vote the wrong way round.
    layout : Layout
        Of a model.
    seed : int
        Of the lots by which members and judges are drawn.
    references : list of Tensors
        Each model's best so far.
    expelled : set of int
    """

    settings: ProCflSettings
    method: ProCflScheme
    similarity: Similarity
    counts: np.ndarray = field(repr=False)
    attackers: Attackers | None
    layout: Layout
    seed: int = 0
    references: list[Tensors] = field(default_factory=list, repr=False)
    expelled: set[int] = field(default_factory=set)
    _best: list[Score] = field(default_factory=list)
    _judged: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shares = np.array([label_shares(counts) for counts in self.counts])
        everybody = shares.sum(axis=0)
        parts = self.method.parts(range(1, len(self.counts) + 1))
        self._labels = [everybody] * len(self.method.clusters)
        for cluster, part in parts.items():
            if len(part) >= FEWEST:
                self._labels[cluster] = shares[[client - 1 for client in part]].sum(axis=0)
        self._everybody = everybody

    def resume(self, rounds: Sequence[RoundResult]) -> None:
        """Take note of the verdicts that a checkpoint holds."""
        for result in rounds:
            self._note(result.round, result.clusters.judgements)

    def enter(self, crew: Crew, number: int, models: Sequence[Tensors]) -> None:
        """Begin a round: each model has a reference, and its score is known."""
        if not self.references:
            self.references = list(models)
        if len(self.references) != len(models):  # after the first stage its best model is everybody's reference
            self.references = self.references[:1] * len(models)
            self._best = []
        if not self._best or number == self.method.last_global + 1:
            self._best = self._scores(crew, number, self.references)

    def look(self, crew: Crew, trained: Trained) -> WatchFinding:
        """Test a round's models, and let committees judge where one fell."""
        round_number = trained.round
        scores = self._scores(crew, round_number, trained.means)
        down = fallen(scores, self._best, self.settings.tolerance)
        suspects = self._suspects(crew, trained, down) if down else {}
        judgements = self._judge(crew, trained, self._cases(trained, suspects))
        self._note(round_number, judgements)
        for number in set(range(len(scores))).difference(down):
            if scores[number].reaches(self._best[number]):
                self.references[number], self._best[number] = trained.means[number], scores[number]
        models = [self.references[k] if k in down else mean for k, mean in enumerate(trained.means)]
        return WatchFinding(tuple(float(each.expected) for each in scores), judgements, tuple(models))

    def _suspects(self, crew: Crew, trained: Trained, down: Sequence[int]) -> dict[int, Cluster]:
        """Suspected clusters, and who of them trained.

        In the first stage sums over the clusters as they are could show single models, so clients are added up in
        groups that do not overlap.
        """
        if trained.round > self.method.last_global:
            return {number: trained.groups[number] for number in down if number in trained.groups}
        return self._worst_parts(crew, trained)

    def _cases(self, trained: Trained, suspects: Mapping[int, Cluster]) -> list[Case]:
        """Who is judged by whom, where a fair committee can be drawn."""
        everybody = {client for group in trained.groups.values() for client in group}
        free = everybody.difference(self.expelled, *suspects.values())
        found = []
        for cluster, group in suspects.items():
            members = tuple(client for client in group if not self._paused(client, trained.round))
            rows = pool_of(self.similarity, _rows(group), _rows(free), self.settings.least_overlap)
            if not members or not is_fair(self.settings, len(rows), len(everybody)):
                continue
            pool = tuple(row + 1 for row in rows)
            lots = hashlib.sha256(f"fedgrove lots {self.seed} {trained.round} {cluster}".encode()).digest()
            judged = drawn_members(members, len(group) // 2, lots, self._judged)
            committee = sorted(by_lot(pool, lots, "judge")[: self.settings.seats])
            found.append(Case(cluster, members, pool, tuple(judged), tuple(committee)))
        return [case for case in found if case.seated]

    def _paused(self, client: int, number: int) -> bool:
        return client in self._judged and number - self._judged[client] < self.settings.pause

    def _worst_parts(self, crew: Crew, trained: Trained) -> dict[int, Cluster]:
        groups = self.method.parts(client for group in trained.groups.values() for client in group)
        weights = {client: Fraction(1, len(group)) for group in groups.values() for client in group}
        start = dict.fromkeys(groups, trained.start[0])
        means, _ = crew.train(trained.round, start, groups, weights, keep=False)
        models = crew.publish([*means.values(), self.references[0]])
        *found, reference = crew.watch(trained.round, dict(enumerate(models))).values()
        labels = [self._labels[number] for number in groups]
        scores = [_score(each, counts) for each, counts in zip(found, labels, strict=True)]
        best = [_score(reference, counts) for counts in labels]
        numbers = list(groups)
        return {numbers[k]: groups[numbers[k]] for k in fallen(scores, best, self.settings.tolerance)}

    def _judge(self, crew: Crew, trained: Trained, cases: Sequence[Case]) -> tuple[CommitteeVerdict, ...]:
        """What committees find."""
        groups = {case.cluster: case.members for case in cases}
        if not groups:
            return ()
        number = trained.round
        start = {cluster: trained.start[self._model_of(cluster, number)] for cluster in groups}
        vectors, _ = crew.shown(number, start, groups, self.settings.shown_noise)
        shown = dict(zip(vectors, crew.publish(unflatten(v, self.layout) for v in vectors.values()), strict=True))
        references = crew.publish(self.references)
        tasks = (
            crew.judging(
                number,
                cluster,
                judge,
                start[cluster],
                references[self._model_of(cluster, number)],
                {member: shown[member] for member in case.members},
                self._labels[cluster],
                self.settings.rule,
            )
            for case in cases
            for cluster, judge in ((case.cluster, judge) for judge in case.committee)
        )
        ballots = crew.judge(tasks)
        return tuple(self._verdict(number, case, ballots[case.cluster]) for case in cases)

    def _verdict(self, number: int, case: Case, ballots: Sequence[Ballot]) -> CommitteeVerdict:
        attackers = frozenset() if self.attackers is None else self.attackers.at(number)
        lies = tuple(member not in attackers for member in case.members)
        cast = [replace(ballot, against=lies) if ballot.voter in attackers else ballot for ballot in ballots]
        found = replace(case, against=tally(case.members, case.committee, cast))
        return CommitteeVerdict(case.cluster, case.members, case.committee, found.against, found.expelled)

    def _note(self, number: int, judgements: Sequence[CommitteeVerdict]) -> None:
        for judgement in judgements:
            self._judged.update(dict.fromkeys(judgement.members, number))
            self.expelled.update(judgement.expelled)
            self.method.expel(judgement.cluster, judgement.expelled)

    def _model_of(self, cluster: int, number: int) -> int:
        return 0 if number <= self.method.last_global else cluster

    def _scores(self, crew: Crew, round_number: int, models: Sequence[Tensors]) -> list[Score]:
        """How each model does on the public set, on the labels that it is for."""
        found = crew.watch(round_number, dict(enumerate(crew.publish(models))))
        labels = self._labels if round_number > self.method.last_global else [self._everybody]
        return [_score(found[number], labels[number]) for number in range(len(models))]


def _score(found: LabelScores, labels: np.ndarray) -> Score:
    return score(tuple(map(int, found.right)), tuple(map(int, found.tested)), tuple(map(int, labels)))


def _rows(clients: Collection[int]) -> list[int]:
    """Their rows in the similarity of clients 1, 2, …"""
    return [client - 1 for client in clients]
