"""Status of a federation with clusters: its members' task in this round, and the members that are awaited.

All of it follows from the ledger and the state that the round began with; nothing here is checked, as clients do that.
"""

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass

from fedgrove.node.methods.procfl.cases import Case
from fedgrove.node.methods.procfl.course import FEWEST, Course
from fedgrove.node.methods.procfl.round_inputs import numbers_in
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.training import Cluster
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.step import name_clients


@dataclass(frozen=True)
class SmallCluster:
    """A cluster with fewer members than hide each other in a sum, so that its own model is not summed.

    Attributes
    ----------
    cluster : int
        From 0.
    members, gone : Cluster
        Clients of it that are members of the federation now, and those that are not any more.
    needed : int
        The fewest that are summed.
    """

    cluster: int
    members: Cluster
    gone: Cluster
    needed: int

    def __str__(self) -> str:
        """What that means, and what can be done, in one sentence."""
        count, missing = len(self.members), self.needed - len(self.members)
        gone = len(self.gone)
        again = f"let {missing} of its {gone} former members be approved again, or " if gone >= missing else ""
        return (
            f"cluster {self.cluster + 1} has {count or 'no'} member{'' if count == 1 else 's'}, but a sum needs "
            f"{self.needed}, as many as hide each other, so its own model stays as it is: {again}found a federation "
            "with a lower procfl.alpha, for larger clusters, or a lower masking.colluders, for smaller sums"
        )


@dataclass(frozen=True)
class ClusterStanding:
    """Purpose of the latest round, or of the next one if it has ended.

    Attributes
    ----------
    stage : str
        One of ``node.methods.procfl.state.STAGES``.
    doing : str
        What its members do, in one clause.
    acting : Cluster
        Who has something to say in it; the others commit to nothing.
    awaited : Cluster
        Who of them is yet to commit, while that can be done.
    stated : str
        What the coordinator states when it closes the round, so that no stand-by can; empty where nothing is.
    trained : int
        Rounds of training so far.
    clusters : tuple of Cluster
    cases : tuple of Case
        Suspected clusters and their committees, while they are judged.
    expelled : Cluster
    small : tuple of SmallCluster
        Clusters whose own model cannot be summed any more; none when the training has ended.
    """

    stage: str
    doing: str
    acting: Cluster
    awaited: Cluster
    stated: str
    trained: int
    clusters: tuple[Cluster, ...]
    cases: tuple[Case, ...]
    expelled: Cluster
    small: tuple[SmallCluster, ...] = ()

    def to_dict(self) -> dict:
        """A JSON-ready form."""
        return asdict(self)


def cluster_standing(
    course: Course,
    state: ClusterState | None,
    current: RoundRecords | None,
    committing: bool,
    present: Collection[int],
    over: bool = False,
    least: int = FEWEST,
) -> ClusterStanding:
    """Purpose of a round.

    Parameters
    ----------
    state : ClusterState or None
        What the round begins with, with those drawn who show, and to whom, once its order is sealed; None before the
        first round that closed.
    current : RoundRecords or None
        The round, if it runs.
    committing : bool
        Whether its clients may still commit.
    present : collection of int
        Clients that are members now.
    over : bool
        The training has ended: members only evaluate the last models.
    least : int
        Groups of fewer are not summed.
    """
    state = state or ClusterState.first({})
    acting = _acting(course, state, current, least)
    return ClusterStanding(
        stage=state.stage,
        doing="members evaluate the last models" if over else _doing(course, state),
        acting=acting,
        awaited=tuple(client for client in acting if client not in current.commits) if committing and current else (),
        stated="" if over else _stated(course, state),
        trained=state.trained,
        clusters=state.clusters,
        cases=state.cases if state.stage in ("show", "vote") else (),
        expelled=tuple(sorted(state.expelled)),
        small=() if over else small_clusters(state, present, least),
    )


def small_clusters(state: ClusterState, present: Collection[int], needed: int) -> tuple[SmallCluster, ...]:
    """The clusters with fewer clients ``present`` than ``needed`` for a sum (``cells.crowd_of``)."""
    found: list[SmallCluster] = []
    for number, clients in enumerate(state.clusters):
        members = tuple(client for client in clients if client in present)
        if len(members) < needed:
            gone = tuple(client for client in clients if client not in present)
            found.append(SmallCluster(number, members, gone, needed))
    return tuple(found)


def _acting(course: Course, state: ClusterState, current: RoundRecords | None, least: int) -> Cluster:
    """Clients that contribute to a round."""
    drawn = current.draws if current else {}
    match state.stage:
        case "blind":
            return tuple(sorted(drawn))
        case "answer":
            return tuple(sorted(state.sets))
        case "show":
            return tuple(sorted({client for case in state.cases for client in case.members}))
        case "vote":
            return tuple(sorted({client for case in state.cases for client in case.committee}))
    if current is None or current.sealed is None:
        return tuple(sorted({client for members in state.clusters for client in members}))
    groups = course.groups(state, numbers_in(drawn), least)
    return tuple(sorted({client for group in groups for client in group}))


def _stated(course: Course, state: ClusterState) -> str:
    """The coordinator's statement when it closes a round that began with this state."""
    if state.stage == "answer":
        return "how much the sets have in common"
    watched = state.stage == "train" and course.terms.seats
    return "how accurate the models are on its public samples" if watched else ""


def _doing(course: Course, state: ClusterState) -> str:
    """A round's purpose in one clause."""
    match state.stage:
        case "blind":
            return "members blind the sets of their label counts for comparison"
        case "answer":
            return "members answer each other's sets, and the coordinator counts"
        case "labels":
            return "label counts are summed within each group"
        case "show":
            shown = "what they sent" if course.terms.shown == "upload" else "noisy models"
            return _cases(state, lambda members, judges: f"{members} show {shown} to {judges}")
        case "vote":
            return _cases(state, lambda members, judges: f"{judges} vote on {members}")
    number = state.trained + 1
    if course.is_global(state):
        return f"training round {number}, of one model for all, as are the first {course.last_global}"
    return f"training round {number}, with one model per cluster"


def _cases(state: ClusterState, describe: Callable[[str, str], str]) -> str:
    return "; ".join(describe(*_named(case)) for case in state.cases)


def _named(case: Case) -> tuple[str, str]:
    """The judged members and their judges, as far as they are drawn."""
    if case.seated:
        return name_clients(case.members), name_clients(case.committee)
    return f"some of {name_clients(case.suspects)}", f"judges drawn from {len(case.pool)}"
