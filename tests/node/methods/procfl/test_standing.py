"""What ``fedgrove status`` says of each stage: what is done, by whom, who is awaited, and who alone can close."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fedgrove.node.methods.procfl.cases import Case
from fedgrove.node.methods.procfl.course import Course
from fedgrove.node.methods.procfl.standing import cluster_standing
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.terms import ProCflTerms

TERMS = ProCflTerms(seats=2, global_share=0.5, counter="ab" * 32, signer="0x" + "ab" * 20)
COURSE = Course(TERMS, rounds=7, labels=2)
CLUSTERS = ((1, 2, 3), (4, 5, 6))
CASE = Case(0, (1, 2, 3), (4, 5, 6), (1, 3), (4, 6))


def state(stage: str, **changes) -> ClusterState:
    """Of six members in two groups."""
    overlaps = tuple(tuple(20 if row // 3 == column // 3 else 4 for column in range(6)) for row in range(6))
    sets = {client: ("cd" * 32, 20) for client in range(1, 7)}
    known = {"sets": sets, "clients": tuple(range(1, 7)), "overlaps": overlaps, "clusters": CLUSTERS, **changes}
    return ClusterState(stage, ({"weight": np.zeros(2, np.float32)},), **known)


def running(stated=1, committed=()) -> SimpleNamespace:
    """A sealed round in which seven clients drew, the last of whom came when all had compared."""
    draws = {client: SimpleNamespace(samples=stated, mask_key=b"\1" * 32) for client in range(1, 8)}
    return SimpleNamespace(draws=draws, sealed=True, commits=dict.fromkeys(committed))


def standing_of(course, state, current, committing, present=range(1, 8), **options):
    """By default of a federation of seven, all of whom are still members."""
    return cluster_standing(course, state, current, committing, present, **options)


@pytest.mark.parametrize(
    ("stage", "changes", "acting", "stated"),
    [
        ("blind", {"sets": {}, "clients": (), "overlaps": (), "clusters": ()}, (1, 2, 3, 4, 5, 6, 7), ""),
        ("answer", {}, (1, 2, 3, 4, 5, 6), "how much the sets have in common"),
        ("labels", {}, (1, 2, 3, 4, 5, 6), ""),
        ("train", {}, (1, 2, 3, 4, 5, 6), "how accurate the models are on its public samples"),
        (
            "train",
            {"trained": 2},
            (1, 2, 3),
            "how accurate the models are on its public samples",
        ),  # all others chose the first
        ("show", {"cases": (CASE,)}, (1, 3), ""),
        ("vote", {"cases": (CASE,)}, (4, 6), ""),
    ],
)
def test_who_has_something_to_say_in_a_stage_and_what_the_coordinator_states(stage, changes, acting, stated):
    told = standing_of(COURSE, state(stage, **changes), running(), committing=True)
    assert (told.stage, told.acting, told.awaited, told.stated) == (stage, acting, acting, stated)


def test_who_has_committed_is_awaited_no_more_and_nobody_is_when_the_time_is_over():
    for committing, awaited in ((True, (6,)), (False, ())):
        told = standing_of(COURSE, state("vote", cases=(CASE,)), running(committed=(4, 5)), committing)
        assert told.awaited == awaited and told.acting == (4, 6)


def test_before_a_round_is_sealed_all_members_of_clusters_are_to_train():
    drawing = SimpleNamespace(draws={}, sealed=None, commits={})
    for each in (None, drawing):
        assert standing_of(COURSE, state("train", trained=2), each, False).acting == (1, 2, 3, 4, 5, 6)


def test_words_name_the_stage_those_who_show_and_those_who_vote():
    def doing(stage, **changes):
        return standing_of(COURSE, state(stage, **changes), None, False).doing

    assert standing_of(COURSE, None, None, False).stage == "blind"
    assert "the coordinator counts" in doing("answer")
    assert doing("train", trained=1) == "training round 2, of one model for all, as are the first 2"
    assert doing("train", trained=2) == "training round 3, with one model per cluster"
    assert doing("show", cases=(CASE,)) == "clients 1, 3 show noisy models to clients 4, 6"
    undrawn = Case(0, (1, 2, 3), (4, 5, 6))
    assert doing("show", cases=(undrawn,)) == "some of clients 1, 2, 3 show noisy models to judges drawn from 3"
    assert doing("vote", cases=(CASE,)) == "clients 4, 6 vote on clients 1, 3"
    unwatched = Course(replace(TERMS, seats=0), 7, 2)
    assert standing_of(unwatched, state("answer"), running(), committing=True).stated
    assert not standing_of(unwatched, state("train"), running(), committing=True).stated


def test_a_cluster_below_the_crowd_says_how_many_it_has_and_needs_and_what_can_be_done():
    def small(present, least, **options):
        return standing_of(COURSE, state("train", trained=2), None, False, present, least=least, **options).small

    assert small(range(1, 7), 3) == () == small((1, 2, 3), 4, over=True)
    (told,) = small((1, 2, 3, 4), 3)
    assert (told.cluster, told.members, told.gone, told.needed) == (1, (4,), (5, 6), 3)
    assert str(told) == (
        "cluster 2 has 1 member, but a sum needs 3, as many as hide each other, so its own model stays as it is: let 2 "
        "of its 2 former members be approved again, or found a federation with a lower procfl.alpha, for larger "
        "clusters, or a lower masking.colluders, for smaller sums"
    )
    first, second = map(str, small((1, 2, 3), 4))
    assert first.startswith("cluster 1 has 3 members, but a sum needs 4,") and ": found a federation " in first
    assert second.startswith("cluster 2 has no members,") and ": found a federation " in second
