"""The course of clusters for people: results of rounds, activity of clients, scores of models."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from fedgrove.node.explorer import drawings
from fedgrove.node.explorer.drawings import COLOURS, Series
from fedgrove.node.explorer.views.clusters import ClusterStep, ClustersView
from fedgrove.node.explorer.views.words import people
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.training import Cluster
from fedgrove.node.status.clusters import ClusterScore

MAX_CELLS = 20_000
"""A grid of clients and rounds with more is not shown."""

MAX_CLUSTERS = 100
"""Of more, only the first are named."""


@dataclass(frozen=True)
class CourseMark:
    """Mark of a client in a round: a letter or two, its meaning, and a class for the style sheet."""

    text: str = ""
    title: str = ""
    kind: str = ""


def grid(clusters: ClustersView) -> list[tuple[int, list[CourseMark]]]:
    """A line of marks for each client that compared; nothing where it would be too large."""
    clients = clusters.matrix.clients if clusters.matrix else tuple(clusters.now.sets)
    if len(clients) * len(clusters.steps) > MAX_CELLS:
        return []
    voted: dict[int, set[int]] = defaultdict(set)
    showed: dict[int, set[int]] = defaultdict(set)
    for each in clusters.judgements:
        showed[each.shown.number if each.shown else 0].update(each.showed)
        voted[each.voted.number if each.voted else 0].update(each.ballots)
    return [
        (client, [_mark(step, client, showed[step.number], voted[step.number]) for step in clusters.steps])
        for client in clients
    ]


def _mark(step: ClusterStep, client: int, showed: Iterable[int], voted: Iterable[int]) -> CourseMark:
    if step.began is not None and client in step.began.expelled:
        return CourseMark("×", "expelled", "out")
    if step.left is None:
        return CourseMark()
    state, stage = step.left.state, step.row.stage
    cluster = step.trained.get(client)
    if cluster is not None and step.one_model:
        return CourseMark("●", "trained the global model", "one")
    if cluster is not None:
        return CourseMark(str(cluster + 1), f"trained cluster {cluster + 1}’s model", f"k{cluster % COLOURS}")
    if stage == "show" and any(client in case.members for case in state.cases):
        return (
            CourseMark("?", "showed what it sent", "asked")
            if client in showed
            else CourseMark("!", "showed nothing", "asked")
        )
    if stage == "vote" and client in voted:
        return CourseMark("V", "voted", "judge")
    compared = stage in ("blind", "answer") and client in (state.clients or state.sets)
    summed = stage == "labels" and any(client in members for members in state.clusters)
    return CourseMark("·", "compared sets, or was counted") if compared or summed else CourseMark()


def curves(clusters: ClustersView) -> Markup | None:
    """Scores of models over the rounds; None if none was tested."""
    points: dict[int | None, list[tuple[int, float]]] = defaultdict(list)
    for place, step in enumerate(clusters.steps, 1):
        for score in step.scores[: 1 if step.one_model else MAX_CLUSTERS]:
            points[score.cluster].append((place, score.score))
    if not points:
        return None
    series = [
        Series("one", "global", line) if cluster is None else Series(f"k{cluster % COLOURS}", str(cluster + 1), line)
        for cluster, line in points.items()
    ]
    return drawings.curves(series, len(clusters.steps), "Scores of models on public samples over rounds")


def score_name(step: ClusterStep, score: ClusterScore) -> str:
    """Name of the model that a score belongs to."""
    if score.cluster is None:
        return "the global model"
    return f"cluster {score.cluster + 1}’s part of it" if step.one_model else f"cluster {score.cluster + 1}’s"


def said(step: ClusterStep) -> list[str]:
    """Result of a round, in sentences."""
    return _said(step, step.left.state) if step.left else []


def _said(step: ClusterStep, state: ClusterState) -> list[str]:
    began = step.began
    match step.row.stage:
        case "blind" if state.stage == "blind":
            return ["Too few sets can be compared: the round is repeated."]
        case "blind":
            sizes = tuple(state.sizes.values()) or (0,)
            return [f"{len(state.sets)} sets can be compared; they have {min(sizes)} to {max(sizes)} elements."]
        case "answer" if state.stage == "blind":
            return ["Too few answered: the comparisons start again."]
        case "answer" if state.clusters:
            answered = f"{len(state.clients)} compared their sets."
            return [
                answered,
                *(f"Cluster {k}: {people(members)}." for k, members in enumerate(state.clusters[:MAX_CLUSTERS], 1)),
            ]
        case "labels":
            known = [k for k, shares in enumerate(state.labels, 1) if sum(shares) and set(shares) != {1}]
            summed = f"Label shares were summed for clusters {people(known)}."
            return [summed if known else "Too few clients for a sum."]
        case "train":
            return [*_trained(step, state), *_suspicion(step)]
        case "show":
            if not state.cases:
                return ["The suspects could not be judged one by one."]
            return [
                f"{people(case.members)} were drawn to show what they sent to {people(case.committee)}."
                for case in state.cases[:MAX_CLUSTERS]
            ]
        case "vote":
            out = [client for client in state.expelled if began is None or client not in began.expelled]
            return [f"Expelled: {people(out)}." if out else "Nobody is expelled."]
    return []


def _trained(step: ClusterStep, state: ClusterState) -> list[str]:
    if step.one_model:
        return [f"One model, by {people(sorted(client for group in state.groups for client in group))}."]
    return [_model(state, k, group) for k, group in enumerate(state.groups[:MAX_CLUSTERS])]


def _model(state: ClusterState, cluster: int, group: Cluster) -> str:
    """Result for a cluster's model."""
    name = f"cluster {cluster + 1}’s model"
    if cluster in state.spoilt:
        return f"The updates of {people(group)} could not be summed: {name} is kept."
    return f"{name.capitalize()}, by {people(group)}." if group else f"Too few trained {name}, which is kept."


def _suspicion(step: ClusterStep) -> list[str]:
    fell = [each for each in step.scores if each.fell]
    named = [score_name(step, each) for each in fell[:MAX_CLUSTERS]]
    said = [f"Dropped because its accuracy fell: {', '.join(named)}."] if fell else []
    judges = [
        f"Suspected: {people(case.suspects)} of cluster {case.cluster + 1}; judges are drawn from {people(case.pool)}."
        for case in step.suspected[:MAX_CLUSTERS]
    ]
    return said + judges
