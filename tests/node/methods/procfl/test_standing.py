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
    told = cluster_standing(COURSE, state(stage, **changes), running(), committing=True)
    assert (told.stage, told.acting, told.awaited, told.stated) == (stage, acting, acting, stated)


def test_who_has_committed_is_awaited_no_more_and_nobody_is_when_the_time_is_over():
    for committing, awaited in ((True, (6,)), (False, ())):
        told = cluster_standing(COURSE, state("vote", cases=(CASE,)), running(committed=(4, 5)), committing)
        assert told.awaited == awaited and told.acting == (4, 6)


def test_before_a_round_is_sealed_all_members_of_clusters_are_to_train():
    drawing = SimpleNamespace(draws={}, sealed=None, commits={})
    for each in (None, drawing):
        assert cluster_standing(COURSE, state("train", trained=2), each, False).acting == (1, 2, 3, 4, 5, 6)


def test_words_name_the_stage_those_who_show_and_those_who_vote():
    def doing(stage, **changes):
        return cluster_standing(COURSE, state(stage, **changes), None, False).doing

    assert cluster_standing(COURSE, None, None, False).stage == "blind"
    assert "the coordinator counts" in doing("answer")
    assert doing("train", trained=1) == "training round 2, of one model for all, as are the first 2"
    assert doing("train", trained=2) == "training round 3, with one model per cluster"
    assert doing("show", cases=(CASE,)) == "clients 1, 3 show noisy models to clients 4, 6"
    undrawn = Case(0, (1, 2, 3), (4, 5, 6))
    assert doing("show", cases=(undrawn,)) == "some of clients 1, 2, 3 show noisy models to judges drawn from 3"
    assert doing("vote", cases=(CASE,)) == "clients 4, 6 vote on clients 1, 3"
    unwatched = Course(replace(TERMS, seats=0), 7, 2)
    assert cluster_standing(unwatched, state("answer"), running(), committing=True).stated
    assert not cluster_standing(unwatched, state("train"), running(), committing=True).stated
