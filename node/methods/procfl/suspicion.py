"""Consequences of a fall in accuracy: the previous model is restored, and the model's trainers may be judged.

    watch → show → vote

A model that fell never goes on, not after the last round either, nor in a pause: its poison is not final. Who is judged
by whom is drawn when the next round has its seed, which nobody knows while the fall is stated. A cluster is judged by a
full committee, drawn from as many as the terms ask for, or not at all: of those who happen to be left over accomplices
soon have a majority. (Xu et al. 2025, algorithm 3, takes those that are most like the cluster by their own account.)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from fedgrove.common.errors import InvalidContent
from fedgrove.node.methods.procfl.cases import Case
from fedgrove.node.methods.procfl.committee import Ballot, Opens, by_lot, drawn_members, pool_of, tally
from fedgrove.node.methods.procfl.settings import ProCflSettings
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.stated import Counts, Stated
from fedgrove.node.methods.procfl.watching import Score, fallen, score


def watched(terms: ProCflSettings, labels: int, state: ClusterState, stated: Stated) -> ClusterState:
    """Whether models fell, on the labels that they are for, and whom that makes suspect.

    Raises InvalidContent: the statement is not of these models, or cannot be true.
    """
    several = len(state.models)
    stated.check_models(several + len(state.trials), labels)
    if state.tested not in ((), stated.tested):
        raise InvalidContent("the models were scored on another public set than the models before them")
    right, trials = stated.right[:several], stated.right[several:]
    if not state.references:
        kept = replace(state, references=state.models, right=right, tested=stated.tested)
        return _suspecting(terms, replace(kept, stage="train", trials=()), state.spoilt)
    state = replace(
        state,
        references=tuple(map(state.reference_of, range(several))),
        right=tuple(state.right[k if len(state.right) > 1 else 0] for k in range(several)),
    )
    for_labels = [state.labels_of(k) if several > 1 else state.all_labels for k in range(several)]
    found, best = (scores(rows, stated.tested, for_labels) for rows in (right, state.right))
    down = fallen(found, best, terms.tolerance)
    better = [k not in down and found[k].reaches(best[k]) for k in range(several)]
    kept = replace(
        state,
        stage="train",
        models=tuple(state.references[k] if k in down else state.models[k] for k in range(several)),
        references=tuple(state.models[k] if better[k] else state.references[k] for k in range(several)),
        right=tuple(right[k] if better[k] else state.right[k] for k in range(several)),
        tested=stated.tested,
        trials=(),
        measured=tuple(sorted({*state.measured, *down})),  # the model that fell was trained from the one before
    )
    bad = bad_parts(terms, kept, trials) if down and trials else down
    return _suspecting(terms, kept, {*bad, *state.spoilt})


def scores(right: Sequence[Counts], tested: Counts, labels: Sequence[Counts]) -> list[Score]:
    """The score of each model on the labels that it is for."""
    return [score(found, tested, counts) for found, counts in zip(right, labels, strict=True)]


def bad_parts(terms: ProCflSettings, state: ClusterState, trials: Sequence[Counts]) -> tuple[int, ...]:
    """Whose part's model fell below the best one of all."""
    labels = [state.labels_of(k) for k in range(len(trials))]
    best = scores(state.right * len(labels), state.tested, labels)
    return fallen(scores(trials, state.tested, labels), best, terms.tolerance)


def _suspecting(terms: ProCflSettings, state: ClusterState, bad: Iterable[int]) -> ClusterState:
    """Cases against the groups that are bad; of whom no fair committee can be drawn goes unjudged.

    Those who trained in none of them are free to judge. Who was in no sum of the round is not: accomplices could stay
    away to take the seats.
    """
    suspects = {k: state.groups[k] for k in sorted(bad) if state.groups[k]}
    trained = {client for group in state.groups for client in group}
    free = trained.difference(state.expelled, *suspects.values())
    cases = []
    for cluster, group in suspects.items():
        members = tuple(client for client in group if not _paused(terms, state, client))
        rows = pool_of(state.similarity, _rows(state, group), _rows(state, free), terms.least_overlap)
        if members and is_fair(terms, len(rows), len(trained)):
            cases.append(Case(cluster, members, tuple(state.clients[row] for row in rows)))
    return replace(state, stage="show", cases=tuple(cases)) if cases else state


def is_fair(terms: ProCflSettings, pool: int, trained: int) -> bool:
    """Whether a committee can be drawn from this many of all trainers: it is full, and not from a minority."""
    return bool(terms.seats) and pool >= terms.seats and pool >= Fraction(str(terms.least_pool)) * trained


def _paused(terms: ProCflSettings, state: ClusterState, client: int) -> bool:
    last = state.judged.get(client)
    return last is not None and state.trained - last < terms.pause


def _rows(state: ClusterState, clients: Iterable[int]) -> list[int]:
    """Their rows in the matrix of overlaps."""
    return sorted(state.rows[client] for client in clients)


# --- the vote ---------------------------------------------------------------------------------------------------------


def seated(terms: ProCflSettings, state: ClusterState, lots: bytes, opens: Opens | None = None) -> ClusterState:
    """The state with those drawn who are judged, at most half of a group, and their judges.

    A case stays without where nobody can be judged alone.

    Parameters
    ----------
    lots : bytes
        Seed of the round after the fall.
    opens : callable, optional
        Whose uploads are opened when members reveal what takes the masks off theirs; none where they reveal nothing.
    """
    return replace(state, cases=tuple(_seated(terms, state, case, lots, opens) for case in state.cases))


def _seated(terms: ProCflSettings, state: ClusterState, case: Case, lots: bytes, opens: Opens | None) -> Case:
    own, case = lots + case.cluster.to_bytes(4), Case(case.cluster, case.suspects, case.pool)
    members = drawn_members(case.suspects, len(state.groups[case.cluster]) // 2, own, state.judged, opens)
    committee = by_lot(case.pool, own, "judge")[: terms.seats]
    if not members or len(committee) < terms.seats:
        return case
    return replace(case, members=tuple(members), committee=tuple(sorted(committee)))


def shown(state: ClusterState) -> ClusterState:
    """When members have shown what they were to show."""
    cases = tuple(case for case in state.cases if case.seated)
    return replace(state, stage="vote" if cases else "train", cases=cases)


def voted(state: ClusterState, ballots: Mapping[int, Sequence[Ballot]]) -> ClusterState:
    """The verdicts; who is expelled leaves all clusters.

    Parameters
    ----------
    ballots : mapping
        By cluster: at most one of each judge, with a vote on each member.
    """
    cases = tuple(
        replace(case, against=tally(case.members, case.committee, ballots[case.cluster])) for case in state.cases
    )
    judged = {client: state.trained for case in cases for client in case.members}
    state = replace(state, stage="train", cases=cases, judged={**state.judged, **judged})
    return without(state, {client: case.cluster for case in cases for client in case.expelled})


def without(state: ClusterState, expelled: Mapping[int, int]) -> ClusterState:
    """The state without some members, by the cluster that they are expelled from."""
    return replace(
        state,
        clusters=tuple(tuple(client for client in members if client not in expelled) for members in state.clusters),
        expelled={**state.expelled, **expelled},
    )
