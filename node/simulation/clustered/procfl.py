"""ProCFL in a simulation: the course of a federation (``node.methods.procfl.course``) with workers for members.

What a federation does in rounds of their own, its comparisons, label counts, what is shown and votes, is done here in
the round that calls for it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from fedgrove.node.base.tensors import Tensors, unflatten
from fedgrove.node.methods.procfl import suspicion
from fedgrove.node.methods.procfl.cases import Case
from fedgrove.node.methods.procfl.committee import Ballot
from fedgrove.node.methods.procfl.course import Course
from fedgrove.node.methods.procfl.labels import label_shares
from fedgrove.node.methods.procfl.settings import ProCflSettings
from fedgrove.node.methods.procfl.similarity import Similarity
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.stated import Counts, Stated
from fedgrove.node.methods.procfl.sums import GroupSum, checked
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.methods.procfl.training import Cluster
from fedgrove.node.simulation.clustered.attackers import Attackers
from fedgrove.node.simulation.clustered.crew import Crew
from fedgrove.node.simulation.record import CommitteeVerdict, RoundResult
from fedgrove.node.simulation.work import ClientResult

# Nobody states anything here, so nobody's key matters.
_NOBODY: dict[str, Any] = {"counter": "00" * 32, "signer": "0x" + "00" * 20}


@dataclass(frozen=True)
class TrainedRound:
    """What a round of ProCFL gave: who trained each model, the clients, models' scores where they are watched."""

    groups: Mapping[int, Cluster]
    results: Sequence[ClientResult]
    scores: tuple[float, ...] = ()
    judgements: tuple[CommitteeVerdict, ...] = ()


class SimulatedProCflCourse:
    """A run of ProCFL, round by round.

    Parameters
    ----------
    similarity : Similarity
        Of clients 1, 2, … in order.
    counts : int64 array of shape (clients, classes)
        Label counts.
    model : Tensors
        The first.
    rounds : int
        T.
    bound : float
        On the models' values.
    attackers : Attackers or None
        They vote the wrong way round.
    seed : int
        Of the lots by which members and judges are drawn.

    Attributes
    ----------
    state : ClusterState
        After the last round.
    """

    def __init__(
        self,
        settings: ProCflSettings,
        similarity: Similarity,
        counts: np.ndarray,
        model: Tensors,
        rounds: int,
        bound: float,
        attackers: Attackers | None = None,
        seed: int = 0,
    ) -> None:
        given: dict[str, Any] = {item.name: getattr(settings, item.name) for item in fields(ProCflSettings)}
        terms = ProCflTerms(**given, **_NOBODY)
        self._course = Course(terms, rounds + terms.first_rounds, counts.shape[1])
        self._bound, self._attackers, self._seed = bound, attackers, seed
        clients = tuple(range(1, len(counts) + 1))
        sets = {client: ("", int(size)) for client, size in zip(clients, similarity.sizes, strict=True)}
        compared = ClusterState("count", (model,), sets=sets, clients=clients)
        self.state = self._course.clustered(compared, tuple(map(tuple, similarity.overlaps.tolist())))
        if self.state.stage == "labels":
            self.state = self._course.labelled(self.state, self._counted(counts))

    def _counted(self, counts: np.ndarray) -> list[tuple[Cluster, Counts]]:
        """The label shares of each part, summed once: sums over clusters could show single clients' shares."""
        shares = np.array([label_shares(each) for each in counts])
        groups = self._course.groups(self.state, dict.fromkeys(self.state.clients, 1))
        rows = [[client - 1 for client in group] for group in groups]
        sums = [tuple(shares[own].sum(axis=0).tolist()) if own else () for own in rows]
        return list(zip(groups, sums, strict=True))

    # --- who trains what, as ``SharingScheme`` has it ---------------------------------------------------------------

    def models(self, number: int) -> int:
        return 1 if number <= self._course.last_global else len(self.state.clusters)

    def options(self, client: int, number: int) -> tuple[int, ...]:
        """As ``SharingScheme``; who was expelled keeps the use of its cluster's model."""
        if number <= self._course.last_global:
            return (0,)
        if client in self.state.expelled:
            return (self.state.expelled[client],)
        return self._course.options(self.state, client)

    def groups(self, choices: Mapping[int, int]) -> dict[int, Cluster]:
        """As ``SharingScheme``; of one model perhaps in parts, which are summed apart."""
        found = self._course.groups(self.state, self._stated(choices))
        return {number: group for number, group in enumerate(found) if group}

    def fresh(self, groups: Mapping[int, Cluster]) -> dict[int, Cluster]:
        """Those of the groups whose model was not measured before: members' metrics of a model are summed once."""
        return {number: group for number, group in groups.items() if not self.state.is_measured(number)}

    def _stated(self, choices: Mapping[int, int]) -> dict[int, int]:
        """What each client states when it draws: the model of its choice, from 1."""
        return {client: 1 + choice for client, choice in choices.items() if client not in self.state.expelled}

    # --- rounds -----------------------------------------------------------------------------------------------------

    def resume(self, models: Sequence[Tensors], references: Sequence[Tensors], rounds: Sequence[RoundResult]) -> None:
        """Go on from a checkpoint: its models, and the verdicts of its rounds."""
        state = replace(self.state, models=tuple(models), references=tuple(references), trained=len(rounds))
        for result in rounds:
            for each in result.clusters.judgements:
                state = replace(state, judged={**state.judged, **dict.fromkeys(each.members, result.round)})
                state = suspicion.without(state, dict.fromkeys(each.expelled, each.cluster))
        self.state = state

    def round(self, crew: Crew, number: int, choices: Mapping[int, int]) -> TrainedRound:
        """Train, watch, and judge where a model fell; ``choices`` has each drawn client's model."""
        course, before = self._course, self.state
        stated = self._stated(choices)
        groups = course.groups(before, stated)
        filled = {k: group for k, group in enumerate(groups) if group}
        weights = course.weights(before, groups)
        start = dict(zip(filled, crew.publish(before.model_of(k) for k in filled), strict=True))
        sums, trained = crew.sums(number, start, filled, weights)
        fresh = {client for group in self.fresh(filled).values() for client in group}
        results = [each if each.client in fresh else replace(each, measured=None) for each in trained]
        found = [GroupSum(group, sums[k]) if group else GroupSum(()) for k, group in enumerate(groups)]
        self.state = course.trained(before, checked(found, weights, self._bound), weights, self._bound, stated, "")
        one = course.is_global(before)
        shown = {0: tuple(sorted(client for group in groups for client in group))} if one and filled else filled
        if self.state.stage == "train":
            return TrainedRound(shown, results)
        scores = self._watch(crew, number)
        return TrainedRound(shown, results, scores, self._judge(crew, number, before))

    def _watch(self, crew: Crew, number: int) -> tuple[float, ...]:
        """Test the round's models on the public set; how they did on the labels that they are for."""
        state = self.state
        if len(state.right) != len(state.references):  # it goes on from a checkpoint
            right, tested = _tested(crew, number, state.references)
            state = replace(state, right=right, tested=tested)
        right, tested = _tested(crew, number, (*state.models, *state.trials))
        several = len(state.models)
        labels = [state.labels_of(k) if several > 1 else state.all_labels for k in range(several)]
        scores = suspicion.scores(right[:several], tested, labels)
        self.state = self._course.after_statement(state, Stated(right=right, tested=tested))
        return tuple(float(each.expected) for each in scores)

    def _judge(self, crew: Crew, number: int, before: ClusterState) -> tuple[CommitteeVerdict, ...]:
        """What committees find where a model fell; ``before`` is the state that the round began with."""
        if self.state.stage != "show":
            return ()
        lots = hashlib.sha256(f"fedgrove lots {self._seed} {number}".encode()).digest()
        state = self.state = suspicion.shown(suspicion.seated(self._course.terms, self.state, lots))
        if not state.cases:
            return ()
        groups = {case.cluster: case.members for case in state.cases}
        start = dict(zip(groups, crew.publish(before.model_of(cluster) for cluster in groups), strict=True))
        best = dict(zip(groups, crew.publish(state.reference_of(cluster) for cluster in groups), strict=True))
        vectors, _ = crew.shown(number, start, groups, self._course.terms.shown_noise)
        models = crew.publish(unflatten(vector, state.layout) for vector in vectors.values())
        shown = dict(zip(vectors, models, strict=True))
        ballots = crew.judge(
            crew.judging(
                number,
                case.cluster,
                judge,
                start[case.cluster],
                best[case.cluster],
                {member: shown[member] for member in case.members},
                np.array(state.labels_of(case.cluster)),
                self._course.terms.rule,
            )
            for case in state.cases
            for judge in case.committee
        )
        cast = {case.cluster: self._cast(number, case, ballots[case.cluster]) for case in state.cases}
        self.state = suspicion.voted(state, cast)
        return tuple(
            CommitteeVerdict(case.cluster, case.members, case.committee, case.against, case.expelled)
            for case in self.state.cases
        )

    def _cast(self, number: int, case: Case, ballots: Sequence[Ballot]) -> list[Ballot]:
        attackers = frozenset() if self._attackers is None else self._attackers.at(number)
        lies = tuple(member not in attackers for member in case.members)
        return [replace(ballot, against=lies) if ballot.voter in attackers else ballot for ballot in ballots]


def _tested(crew: Crew, number: int, models: Sequence[Tensors]) -> tuple[tuple[Counts, ...], Counts]:
    """What models get right of the public samples of each label, and how many of each there are."""
    found = crew.watch(number, dict(enumerate(crew.publish(models))))
    right = tuple(tuple(map(int, found[k].right)) for k in range(len(models)))
    return right, tuple(map(int, found[0].tested))
