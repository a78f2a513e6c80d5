"""Course of a federation with clusters: its next steps follow from the state and the statements.

    blind → answer → [labels] → train → … → train
                                  ↑ (watch) → show → vote

First comparisons (``node.methods.procfl.comparing``), then a round of label counts if there are committees, then
training. Where a model fell on the public set, members show what they sent, and committees vote (Xu et al. 2025,
algorithms 1 to 3). In the first stage of training there is one model. Where there are committees, it is summed in parts
that do not overlap, each under masks of its own: when it fell, the parts' models tell whose part is bad, and what is to
be shown is the very upload that fell.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.methods.procfl import suspicion
from fedgrove.node.methods.procfl.cover import candidates, greedy_cover
from fedgrove.node.methods.procfl.labels import contradicts
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.stated import Counts, Stated
from fedgrove.node.methods.procfl.sums import GroupSum, mean_of, together
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.methods.procfl.training import Cluster, global_rounds, global_weights
from fedgrove.node.privacy.weighted import WeightedMean

FEWEST = 3
"""Of fewer clients masks hide no model, so fewer are never summed."""

_GUARDED = ("labels", "watch", "show", "vote")


@dataclass(frozen=True)
class Course:
    """The terms that decide.

    Attributes
    ----------
    terms : ProCflTerms
    rounds : int
        Of the federation, all together.
    labels : int
        Classes of the data.
    """

    terms: ProCflTerms
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

    def check_called_for(self, state: ClusterState, stated: Stated | None) -> None:
        """Raise InvalidContent where a statement is missing, or nobody asked for one."""
        if (stated is None) == (state.stage in ("count", "watch")):
            raise InvalidContent("the statement on the clusters is missing, or was not called for")

    def after_statement(self, state: ClusterState, stated: Stated | None) -> ClusterState:
        """The state when the statement that it waits for has been heard.

        Raises InvalidContent: it is missing, cannot be true, or is not called for.
        """
        self.check_called_for(state, stated)
        if not self.terms.seats and state.stage in _GUARDED:
            raise InvalidContent(f"these terms have no committees, so there is no stage '{state.stage}'")
        if any(len(row) not in (0, self.labels) for row in (*state.labels, *state.right, state.tested)):
            raise InvalidContent(f"the state does not count {self.labels} labels")
        if bool(state.clusters) != bool(state.overlaps):
            raise InvalidContent("the state has clusters without overlaps, or overlaps without clusters")
        if stated is None:
            return state
        if state.stage == "count":
            return self.clustered(state, stated.overlaps)
        return suspicion.watched(self.terms, self.labels, state, stated)

    def clustered(self, state: ClusterState, overlaps: tuple[Counts, ...]) -> ClusterState:
        """Clusters that follow from the overlaps (algorithm 2).

        Raises InvalidContent: no sets of these sizes have these overlaps.
        """
        sizes = [state.sizes[client] for client in state.clients]
        if len(overlaps) != len(sizes) or [row[k] for k, row in enumerate(overlaps)] != sizes:
            raise InvalidContent("the overlaps do not belong to the sets that were compared")
        found = candidates(replace(state, overlaps=overlaps).similarity, self.terms.alpha)
        clusters = tuple(tuple(state.clients[k] for k in each.members) for each in greedy_cover(found))
        # Nothing but the comparisons has happened yet, whatever the state says.
        found = ClusterState("labels" if self.terms.seats else "train", state.models[:1])
        compared = {name: getattr(state, name) for name in ("session", "sets", "clients")}
        return replace(found, **compared, overlaps=overlaps, clusters=clusters)

    # --- what sums come to ------------------------------------------------------------------------------------------

    def labelled(self, state: ClusterState, counted: Sequence[tuple[Cluster, Counts]]) -> ClusterState:
        """The state when label shares were summed, for each part its members and their shares.

        Empty shares are not known; where none are, all labels count alike.
        """
        labels = tuple(shares for _, shares in counted)
        groups = tuple(group if shares else () for group, shares in counted)
        if not any(labels):
            labels = ((1,) * self.labels,) * len(labels)
        return replace(state, stage="train", labels=labels, groups=groups)

    def trained(
        self,
        state: ClusterState,
        sums: Sequence[GroupSum],
        weights: Mapping[int, Fraction],
        bound: float,
        stated: Mapping[int, int],
        began: str,
    ) -> ClusterState:
        """The means of all groups; a model stays where too few trained it, or what they sent makes none.

        An upload that cannot be summed names its sender: that member is out. A sum beyond the bound does not, and the
        group may have to answer for it.

        Parameters
        ----------
        sums : sequence of GroupSum
            One a model, or a part of the one model.
        weights : mapping
            How much each client counts, as ``weights`` has it.
        bound : float
            On the models' values.
        stated : mapping
            The number that each client stated when it drew.
        began : str
            Names the state that the round began with.
        """
        mean = WeightedMean(state.layout, bound)
        models = tuple(mean_of(each, weights, mean, state.model_of(number)) for number, each in enumerate(sums))
        watch = bool(self.terms.seats)
        found = replace(
            state,
            stage="watch" if watch else "train",
            models=models,
            trained=state.trained + 1,
            groups=tuple(each.group for each in sums),
            spoilt=tuple(number for number, each in enumerate(sums) if each.words is None and each.group),
            labels=self.believed(state, stated),
            began=began,
        )
        faults = {each.fault: number for number, each in enumerate(sums) if each.fault is not None}
        found = suspicion.without(found, faults)
        if self.is_global(state):
            whole = mean_of(together(sums), weights, mean, state.models[0])
            found = replace(found, models=(whole,), trials=models if watch else ())
        return replace(found, measured=_measured(state, found))

    # --- who does what ----------------------------------------------------------------------------------------------

    def options(self, state: ClusterState, client: int) -> tuple[int, ...]:
        """The clusters that a client may train in, those first whose members' data are most like its own."""
        own = [number for number, members in enumerate(state.clusters) if client in members]
        return tuple(sorted(own, key=lambda number: (-_likeness(state, client, state.clusters[number]), number)))

    def parts(self, state: ClusterState, clients: Iterable[int], least: int = FEWEST) -> tuple[Cluster, ...]:
        """For each cluster those of the clients that are most like it: no client is in two.

        Where they are fewer than ``least``, too few to be summed, they go where they are most like of their other
        clusters.
        """
        options = {client: self.options(state, client) for client in sorted(clients)}
        within_reach = Counter(number for own in options.values() for number in own)
        while True:
            found: list[list[int]] = [[] for _ in state.clusters]
            for client, own in options.items():
                if own:
                    found[own[0]].append(client)
            small = [number for number, part in enumerate(found) if 0 < len(part) < least]
            if not small:
                return tuple(map(tuple, found))
            given_up = min(small, key=lambda number: (within_reach[number], number))
            options = {client: tuple(k for k in own if k != given_up) for client, own in options.items()}

    def groups(self, state: ClusterState, stated: Mapping[int, int], least: int = FEWEST) -> tuple[Cluster, ...]:
        """Groups to sum in the next round, by model or part; empty for a round without masks.

        Parameters
        ----------
        stated : mapping
            The number that each drawn client stated (``number_of``).
        least : int
            Groups of fewer are not summed.
        """
        if state.stage not in ("labels", "train"):
            return ()
        if state.stage == "labels" or (self.is_global(state) and self.terms.seats):
            found = self.parts(state, stated, least)
        elif self.is_global(state):
            found = (tuple(sorted(client for client in stated if self.options(state, client))),)
        else:
            chosen = {client: chosen_by(state, number) for client, number in stated.items()}
            found = tuple(
                tuple(client for client in members if chosen.get(client) == cluster)
                for cluster, members in enumerate(state.clusters)
            )
        return tuple(group if len(group) >= least else () for group in found)

    # --- what members say when they draw ----------------------------------------------------------------------------

    def number_of(self, state: ClusterState, client: int, choice: int, shares: Counts) -> int:
        """A client's statement when it draws in a training round.

        Its cluster from 1, in the second stage, and else 1; in the first round as many more as there are clusters if
        the label shares that were added up for its own part cannot have its own among them.
        """
        part = self._counted(state, client)
        doubts = part is not None and self._doubts(state, client, part, shares)
        return 1 + (0 if self.is_global(state) else choice) + doubts * len(state.clusters)

    def believed(self, state: ClusterState, stated: Mapping[int, int]) -> tuple[Counts, ...]:
        """The label shares that none of those whom they are made of contradicts."""
        doubting = (client for client, number in stated.items() if number > len(state.clusters))
        doubted = {self._counted(state, client) for client in doubting}
        left = tuple(() if k in doubted else shares for k, shares in enumerate(state.labels))
        return left if any(left) else ((1,) * self.labels,) * len(state.labels)

    def _counted(self, state: ClusterState, client: int) -> int | None:
        """The part with which a client's label shares were added up, before the first round of training."""
        if state.trained or not any(state.labels):
            return None
        return next((k for k, group in enumerate(state.groups) if client in group and state.labels[k]), None)

    def _doubts(self, state: ClusterState, client: int, part: int, shares: Counts) -> bool:
        own, size = state.overlaps[state.rows[client]], state.sizes
        rows = ((state.rows[member], member) for member in state.groups[part])
        alike = [Fraction(own[row], max(size[client], size[member])) for row, member in rows]
        return contradicts(shares, state.labels[part], alike)

    def weights(self, state: ClusterState, groups: Iterable[Cluster]) -> dict[int, Fraction]:
        """How much each client counts in the mean of its group, or, where there is one model, in that of all groups."""
        if not self.is_global(state):
            return {client: Fraction(1, len(group)) for group in groups for client in group}
        weights = global_weights([members for members in state.clusters if members])
        clients = [client for group in groups for client in group]
        total = sum(weights[client] for client in clients)
        return {client: weights[client] / total for client in clients}


def chosen_by(state: ClusterState, number: int) -> int:
    """The cluster, from 0, of a client that states a number when it draws; −1 if there is none."""
    several = len(state.clusters)
    return (number - 1) % several if 1 <= number <= 2 * several else -1


def _measured(before: ClusterState, after: ClusterState) -> tuple[int, ...]:
    """Numbers of the models that a round of training left as they were, so that their metrics were summed."""
    trained = {number for number, group in enumerate(after.groups) if group}
    summed = trained if len(before.models) > 1 else set(range(len(after.models)) if trained else ())
    return tuple(
        number
        for number, model in enumerate(after.models)
        if (number in summed or before.is_measured(number)) and _alike(model, before.model_of(number))
    )


def _alike(one: Tensors, other: Tensors) -> bool:
    return all(np.array_equal(values, other[name]) for name, values in one.items())


def _likeness(state: ClusterState, client: int, members: Cluster) -> Fraction:
    own = state.overlaps[state.rows[client]]
    return Fraction(sum(own[state.rows[member]] for member in members), len(members))
