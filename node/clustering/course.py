"""What a federation with clusters does next, and with whom: all of it follows from the state and what is stated.

    blind → … → [labels] → train → … → train
                             ↑ (watch) → show → vote

First comparisons (``node.clustering.comparing``), then a round of label counts if there are committees, then training.
Where a model fell on the public set, members show what they sent, and committees vote (Xu et al. 2025, algorithms 1 to
3). In the first stage of training there is one model. Where there are committees, it is summed in parts that do not
overlap, each under masks of its own: when it fell, the parts' models tell whose part is bad, and what is to be shown is
the very upload that fell.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction

from node.clustering.committee import Ballot, NoCommittee, draw_committee, suspected, tally
from node.clustering.comparing import comparing
from node.clustering.cover import candidates, greedy_cover
from node.clustering.settings import ClusterTerms
from node.clustering.similarity import Inconsistent
from node.clustering.state import Case, ClusterState
from node.clustering.stated import Counts, InvalidStatement, Stated
from node.clustering.training import Cluster, global_rounds, global_weights

FEWEST = 3
"""Of fewer clients masks hide no model, so fewer are never summed."""


@dataclass(frozen=True)
class Course:
    """The terms that decide.

    Attributes
    ----------
    terms : ClusterTerms
    rounds : int
        Of the federation, all together.
    labels : int
        Classes of the data.
    """

    terms: ClusterTerms
    rounds: int
    labels: int

    @property
    def training_rounds(self) -> int:
        """T, if no round is lost, and none spent on judging."""
        return max(0, self.rounds - self.terms.first_rounds)

    @property
    def last_global(self) -> int:
        """How many rounds train one model of all clusters."""
        return global_rounds(self.training_rounds, self.terms.global_share)

    def is_global(self, state: ClusterState) -> bool:
        """Whether the next round of training has one model."""
        return state.trained < self.last_global

    # --- what is stated ---------------------------------------------------------------------------------------------

    def heard(self, state: ClusterState, stated: Stated | None) -> ClusterState:
        """The state when the statement that it waits for has been heard.

        Raises
        ------
        InvalidStatement
            It is missing, cannot be true, or is not called for.
        """
        if (stated is None) == (state.stage in ("count", "watch")):
            raise InvalidStatement("what is stated of the clusters is missing, or was not called for")
        if any(len(row) not in (0, self.labels) for row in (*state.labels, *state.right, state.tested)):
            raise InvalidStatement(f"the state counts other than {self.labels} labels")
        if bool(state.clusters) != bool(state.overlaps):
            raise InvalidStatement("the state has clusters, or overlaps, without the other")
        if state.stage in ("ask", "answer", "report") and state.stage not in comparing(self.terms.psi).stages:
            raise InvalidStatement(f"by these terms nothing is compared in a stage '{state.stage}'")
        if state.stage == "count":
            return self.clustered(state, stated.overlaps)
        return self._watched(state, stated) if state.stage == "watch" else state

    def clustered(self, state: ClusterState, overlaps: tuple[Counts, ...]) -> ClusterState:
        """Clusters that follow from the overlaps (algorithm 2).

        Raises
        ------
        InvalidStatement
            No sets of these sizes have such overlaps.
        """
        sizes = [state.sizes[client] for client in state.clients]
        if len(overlaps) != len(sizes) or [row[k] for k, row in enumerate(overlaps)] != sizes:
            raise InvalidStatement("the overlaps are not those of the sets that were compared")
        compared = replace(state, overlaps=overlaps)
        try:
            found = candidates(compared.similarity, self.terms.alpha)
        except (Inconsistent, ValueError) as fault:
            raise InvalidStatement(str(fault)) from None
        clusters = tuple(tuple(state.clients[k] for k in each.members) for each in greedy_cover(found))
        return replace(compared, stage="labels" if self.terms.seats else "train", clusters=clusters)

    def _watched(self, state: ClusterState, stated: Stated) -> ClusterState:
        """Whether models fell, on the labels that they are for, and whom that makes suspect."""
        several = len(state.models)
        stated.check_models(several + len(state.trials), self.labels)
        if state.tested not in ((), stated.tested):
            raise InvalidStatement("models were tested on another public set than those before them")
        right, trials = stated.right[:several], stated.right[several:]
        if not state.references:
            kept = replace(state, references=state.models, right=right, tested=stated.tested)
            return replace(kept, stage="train", trials=())
        state = replace(
            state,
            references=tuple(map(state.reference_of, range(several))),
            right=tuple(state.right[k if len(state.right) > 1 else 0] for k in range(several)),
        )
        labels = [state.labels_of(k) if several > 1 else state.all_labels for k in range(several)]
        found, best = (scores(rows, stated.tested, labels) for rows in (right, state.right))
        fallen = self._fallen(found, best)
        better = [k not in fallen and found[k] >= best[k] for k in range(several)]
        kept = replace(
            state,
            stage="train",
            references=tuple(state.models[k] if better[k] else state.references[k] for k in range(several)),
            right=tuple(right[k] if better[k] else state.right[k] for k in range(several)),
            tested=stated.tested,
            trials=(),
        )
        if fallen and trials:
            fallen = self._bad_parts(kept, trials)
        return self._suspecting(kept, {k: state.groups[k] for k in fallen if state.groups[k]})

    def _bad_parts(self, state: ClusterState, trials: Sequence[Counts]) -> tuple[int, ...]:
        """Whose part's model fell below the best one of all."""
        labels = [state.labels_of(k) for k in range(len(trials))]
        best = scores(state.right * len(labels), state.tested, labels)
        return self._fallen(scores(trials, state.tested, labels), best)

    def voted(self, state: ClusterState, ballots: Mapping[int, Sequence[Ballot]]) -> ClusterState:
        """The verdicts; who is expelled leaves all clusters, and the others go on from the best model before the fall.

        Parameters
        ----------
        ballots : mapping
            By cluster: at most one of each judge, with a vote on each member.
        """
        cases = tuple(
            replace(case, against=tally(case.members, case.committee, ballots[case.cluster]).against)
            for case in state.cases
        )
        fallen = {case.cluster for case in cases if case.expelled}
        out = {client: case.cluster for case in cases for client in case.expelled}
        models = tuple(
            state.reference_of(k) if fallen and (k in fallen or len(state.models) == 1) else model
            for k, model in enumerate(state.models)
        )
        return replace(
            state,
            stage="train",
            models=models,
            cases=cases,
            clusters=tuple(tuple(client for client in members if client not in out) for members in state.clusters),
            judged={**state.judged, **{case.cluster: state.trained for case in cases}},
            expelled={**state.expelled, **out},
        )

    def _suspecting(self, state: ClusterState, suspects: Mapping[int, Cluster]) -> ClusterState:
        """Committees for the suspects; a cluster outside which nobody is left to judge it goes unjudged.

        Members of it that were in no sum of the round do not judge it: accomplices could stay away to take the seats.
        """
        wanted = {k: members for k, members in suspects.items() if not self._paused(state, k)}
        cases = []
        for cluster, members in wanted.items():
            others = {client for k, group in wanted.items() if k != cluster for client in group}
            away = set(state.clusters[cluster]).difference(*state.groups)
            barred = others.union(state.expelled, away)
            with suppress(NoCommittee):
                drawn = draw_committee(state.similarity, _rows(state, members), self.terms.seats, _rows(state, barred))
                cases.append(Case(cluster, members, tuple(state.clients[row] for row in drawn)))
        return replace(state, stage="show", cases=tuple(cases)) if cases else state

    def _fallen(self, found: Sequence[Fraction], best: Sequence[Fraction]) -> tuple[int, ...]:
        return suspected(found, best, Fraction(str(self.terms.tolerance)))

    def _paused(self, state: ClusterState, cluster: int) -> bool:
        last = state.judged.get(cluster)
        return last is not None and state.trained - last < self.terms.pause

    # --- who does what ----------------------------------------------------------------------------------------------

    def options(self, state: ClusterState, client: int) -> tuple[int, ...]:
        """The clusters that a client may train in, those first whose members' data are most like its own."""
        own = [number for number, members in enumerate(state.clusters) if client in members]
        return tuple(sorted(own, key=lambda number: (-_likeness(state, client, state.clusters[number]), number)))

    def parts(self, state: ClusterState, clients: Iterable[int]) -> tuple[Cluster, ...]:
        """For each cluster those of the clients that are most like it: no client is in two.

        Where they are too few to be summed, they go where they are most like of their other clusters.
        """
        options = {client: self.options(state, client) for client in sorted(clients)}
        within_reach = Counter(number for own in options.values() for number in own)
        while True:
            found: list[list[int]] = [[] for _ in state.clusters]
            for client, own in options.items():
                if own:
                    found[own[0]].append(client)
            small = [number for number, part in enumerate(found) if 0 < len(part) < FEWEST]
            if not small:
                return tuple(map(tuple, found))
            given_up = min(small, key=lambda number: (within_reach[number], number))
            options = {client: tuple(k for k in own if k != given_up) for client, own in options.items()}

    def groups(self, state: ClusterState, stated: Mapping[int, int]) -> tuple[Cluster, ...]:
        """Who is summed together in the next round, by model or part; nothing where it has no masks.

        Parameters
        ----------
        stated : mapping
            The number that each drawn client stated: in the second stage of training that of its cluster, from 1.
        """
        if state.stage not in ("labels", "train"):
            return ()
        if state.stage == "labels" or (self.is_global(state) and self.terms.seats):
            found = self.parts(state, stated)
        elif self.is_global(state):
            found = (tuple(sorted(client for client in stated if self.options(state, client))),)
        else:
            found = tuple(
                tuple(sorted(client for client in members if stated.get(client) == number))
                for number, members in enumerate(state.clusters, 1)
            )
        return tuple(group if len(group) >= FEWEST else () for group in found)

    def weights(self, state: ClusterState, groups: Iterable[Cluster]) -> dict[int, Fraction]:
        """How much each client counts in the mean of its group, or, where there is one model, in that of all groups."""
        if not self.is_global(state):
            return {client: Fraction(1, len(group)) for group in groups for client in group}
        weights = global_weights([members for members in state.clusters if members])
        clients = [client for group in groups for client in group]
        total = sum(weights[client] for client in clients)
        return {client: weights[client] / total for client in clients}


def _rows(state: ClusterState, clients: Iterable[int]) -> list[int]:
    """Their rows in the matrix of overlaps."""
    return sorted(state.rows[client] for client in clients)


def _likeness(state: ClusterState, client: int, members: Cluster) -> Fraction:
    own = state.overlaps[state.rows[client]]
    return Fraction(sum(own[state.rows[member]] for member in members), len(members))


def scores(right: Sequence[Counts], tested: Counts, labels: Sequence[Counts]) -> list[Fraction]:
    """Expected accuracy of each model on data with these label counts, of the labels that were tested."""
    return [_score(found, tested, counts) for found, counts in zip(right, labels, strict=True)]


def _score(right: Counts, tested: Counts, counts: Counts) -> Fraction:
    known = [(count, Fraction(n, most)) for n, most, count in zip(right, tested, counts, strict=True) if most]
    total = sum(count for count, _ in known)
    return sum((count * share for count, share in known), Fraction(0)) / total if total else Fraction(0)
