"""The watch of a federation with clusters: references, falls, cases, verdicts, and statements that cannot be."""

from dataclasses import replace

import pytest

from fedgrove.common.errors import InvalidContent
from fedgrove.node.methods.procfl import suspicion
from fedgrove.node.methods.procfl.cases import Case
from fedgrove.node.methods.procfl.committee import Ballot
from fedgrove.node.methods.procfl.course import Course
from fedgrove.node.methods.procfl.labels import SHARE
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.stated import Stated
from fedgrove.node.methods.procfl.suspicion import shown
from tests.node.methods.procfl.courses import (
    COURSE,
    FIRST,
    SECOND,
    TERMS,
    TESTED,
    clustered,
    model,
    parted,
    reference,
    unfair,
    watched,
)

GOOD = ((50, 60), (60, 70))
"""What the parts' models get right; here nobody looks at it."""


def test_the_first_trained_model_is_the_first_reference():
    state = watched(((50, 60), *GOOD))
    assert state.stage == "train" and state.right == ((50, 60),) and not state.trials
    assert state.references[0]["weight"][0, 0] == 1


def test_a_better_model_becomes_the_reference_and_a_little_worse_one_does_not():
    better = watched(((60, 60), *GOOD), **reference((50, 60)))
    assert better.right == ((60, 60),) and better.references[0]["weight"][0, 0] == 1
    worse = watched(((50, 58), *GOOD), **reference((50, 60)))
    assert worse.stage == "train" and worse.references[0]["weight"][0, 0] == 10
    assert worse.models[0]["weight"][0, 0] == 1  # it goes on all the same


def test_the_best_never_gets_worse_of_one_label_for_another():
    """Round by round nothing would have fallen, and in the end a label would be given up."""
    changes = {"models": (1, 2), "trained": 5, "labels": ((40, 20), (6, 79)), **reference((50, 60))}
    traded = watched(((59, 44), (50, 60)), **changes)  # more right answers on data like theirs
    assert traded.stage == "train" and traded.right[0] == (50, 60) and traded.models[0]["weight"][0, 0] == 1


def test_when_the_one_model_fell_the_part_is_judged_that_is_worse_than_the_reference():
    fell = ((20, 30), (10, 60), (50, 61))
    found = watched(fell, **reference((50, 60)))
    assert found.stage == "show" and not found.trials
    assert found.cases == (Case(0, FIRST, SECOND),)
    assert found.models[0]["weight"][0, 0] == 10  # the best before the fall


def test_who_was_judged_of_late_is_left_alone_and_its_cluster_is_not():
    """Half of a cluster is judged at a time: the other half comes next."""
    fell = ((20, 30), (10, 60), (50, 61))
    lately = watched(fell, trained=2, **reference((50, 60), judged={2: 1, 3: 1}))
    assert lately.cases == (Case(0, (5,), SECOND),)
    assert watched(fell, trained=2, **reference((50, 60), judged=dict.fromkeys(FIRST, 1))).stage == "train"
    assert watched(fell, trained=3, **reference((50, 60), judged=dict.fromkeys(FIRST, 1))).stage == "show"


def test_a_bad_part_that_harms_the_one_model_little_is_not_judged():
    assert watched(((50, 58), (10, 60), (50, 61)), **reference((50, 60))).stage == "train"


def test_no_part_is_judged_when_none_is_worse_than_the_reference():
    state = watched(((20, 30), (50, 60), (50, 61)), **reference((50, 60)))
    assert state.stage == "train" and state.models[0]["weight"][0, 0] == 10


def test_a_cluster_that_fell_on_its_own_labels_is_judged_and_no_other():
    state = watched(((10, 90), (0, 60)), models=(1, 2), trained=5, **reference((50, 60)))
    assert state.stage == "show" and [case.cluster for case in state.cases] == [0]
    assert (
        len(state.references) == 2 and state.references[1]["weight"][0, 0] == 10
    )  # 60 of 100, less on the first label
    assert [each["weight"][0, 0] for each in state.models] == [10, 2]


def test_what_fell_in_a_pause_does_not_go_on_either():
    paused = dict.fromkeys(FIRST, 4)
    state = watched(((10, 90), (50, 60)), models=(1, 2), trained=5, **reference((50, 60), judged=paused))
    assert state.stage == "train" and [each["weight"][0, 0] for each in state.models] == [10, 2]


@pytest.mark.parametrize("labels", [((SHARE * 9 // 10, SHARE // 10), (6, 79)), ((1, 1), (6, 79))])
def test_a_model_that_says_one_label_only_fell_however_frequent_that_label_is(labels):
    """Of nine in ten samples it is right; the label of the others counts as much."""
    state = watched(((100, 0), (50, 60)), models=(1, 2), trained=5, **reference((90, 60)), labels=labels)
    fell = state.models[0]["weight"][0, 0] == 10
    rare = labels[0][1] * 4 < sum(labels[0])  # less than half of an average label: it is not what the model is for
    assert fell != rare


def test_a_model_that_gives_up_many_labels_for_a_frequent_one_fell():
    course = Course(TERMS, rounds=11, labels=4)
    state = replace(clustered(), stage="watch", labels=((40, 20, 20, 20), (1, 1, 1, 1)), trained=5)
    changes = {"groups": (FIRST, SECOND), "began": "ef" * 32, "models": (model(1), model(2))}
    changes |= {"references": (model(10),), "right": ((80, 80, 80, 80),), "tested": (100,) * 4}
    state = ClusterState.from_bytes(replace(state, **changes).to_bytes())
    for second, gone in ((10, True), (70, False)):  # of data like its members' it gets 74 or 86 right in 100
        heard = course.after_statement(state, Stated(right=((100, second, 80, 80), (80,) * 4), tested=(100,) * 4))
        assert (heard.models[0]["weight"][0, 0] == 10) == gone and heard.models[1]["weight"][0, 0] == 2


def test_no_committee_is_drawn_from_few():
    """A full one, and of at least so many of all who trained, or none."""
    fell = ((10, 90), (50, 60))
    options = {"models": (1, 2), "trained": 5, **reference((50, 60))}
    assert watched(fell, course=unfair(seats=4), **options).cases == (Case(0, FIRST, SECOND),)
    for terms in ({"seats": 5}, {"least_pool": 0.6}, {"least_overlap": 0.9}):
        state = watched(fell, course=unfair(**terms), **options)
        assert state.stage == "train" and not state.cases and state.models[0]["weight"][0, 0] == 10


def test_a_minority_judges_no_majority():
    fell = ((50, 60), (0, 10))
    options = {"models": (1, 2), "trained": 5, **reference((50, 60))}
    assert watched(fell, **options).cases == (Case(1, SECOND, FIRST),)
    assert not watched(fell, course=unfair(least_pool=0.5), **options).cases


def test_a_group_whose_sum_is_no_model_is_judged_whatever_its_model_scores():
    """The model is the one from before: it cannot have fallen."""
    state = watched(((50, 60), (50, 60)), models=(1, 2), trained=5, **reference((50, 60)), spoilt=(0,))
    assert state.cases == (Case(0, FIRST, SECOND),)
    assert watched(((50, 60), *GOOD), spoilt=(0,)).stage == "show"  # in the first round of training, too


LOTS = bytes(32)


def seated(**changes) -> ClusterState:
    """The first cluster is suspected, and lots are drawn."""
    return suspicion.seated(
        COURSE.terms, watched(((10, 90), (50, 60)), models=(1, 2), trained=5, **reference((50, 60)), **changes), LOTS
    )


def test_half_of_a_cluster_at_most_is_judged_by_judges_drawn_by_lot():
    drawn = {suspicion.seated(COURSE.terms, seated(), bytes([seed]) * 32).cases for seed in range(100)}
    (cases, *_) = drawn
    assert {len(case.members) for (case,) in drawn} == {1} and {len(case.committee) for (case,) in drawn} == {2}
    assert {case.members[0] for (case,) in drawn} == set(FIRST)
    assert {judge for (case,) in drawn for judge in case.committee} == set(SECOND)
    assert cases[0].suspects == FIRST and cases[0].pool == SECOND


def test_where_nobody_can_be_judged_alone_nobody_is():
    state = watched(((10, 90), (50, 60)), models=(1, 2), trained=5, **reference((50, 60)))
    bare = suspicion.seated(COURSE.terms, state, LOTS, lambda telling: {*telling, *FIRST})
    assert not bare.cases[0].seated
    after = shown(bare)
    assert after.stage == "train" and after.cases == () and ClusterState.from_bytes(after.to_bytes())


def test_the_expelled_leave_and_the_others_go_on():
    judged = shown(seated())
    (case,) = judged.cases
    assert judged.stage == "vote" and ClusterState.from_bytes(judged.to_bytes()).cases == (case,)
    ballots = [Ballot(judge, (True,), bytes(32)) for judge in case.committee]
    found, out = suspicion.voted(judged, {0: ballots}), case.members[0]
    assert found.expelled == {out: 0} and found.cases[0].against == (2,)
    assert found.clusters == (tuple(client for client in FIRST if client != out), SECOND)
    assert found.judged == {out: 5} and found.stage == "train"
    half = suspicion.voted(judged, {0: ballots[:1]})
    assert half.expelled == {} and half.clusters == judged.clusters and half.judged == {out: 5}


def test_a_committee_that_says_nothing_expels_nobody_and_stops_nothing():
    found = suspicion.voted(shown(seated()), {0: []})
    assert found.stage == "train" and found.expelled == {} and found.cases[0].against == (0,)


def test_two_suspected_clusters_do_not_judge_each_other():
    state = watched(((10, 90), (50, 10)), models=(1, 2), trained=5, **reference((50, 60)))
    assert state.stage == "train" and state.cases == ()  # nobody is left to judge


def test_who_stayed_away_from_the_round_does_not_judge_its_own_cluster():
    """It is like its members, so accomplices could take all seats."""
    changes = {"models": (1, 2), "trained": 5, "groups": (FIRST, SECOND[:3]), **reference((50, 60))}
    (case,) = watched(((50, 90), (0, 0)), **changes).cases
    assert case == Case(1, (7, 8, 9), FIRST)
    (shared,) = watched(((50, 90), (0, 0)), **changes, clusters=(FIRST, (2, *SECOND))).cases
    assert 2 in shared.pool  # it trained in its other cluster


def test_scores_on_another_public_set_are_refused():
    """They would be held against those of the models before."""
    kept = {"models": (1, 2), "trained": 5, "references": (model(10),), "right": ((5, 6),), "tested": (10, 10)}
    with pytest.raises(InvalidContent, match="another public set"):
        watched(((10, 90), (50, 60)), **kept)


@pytest.mark.parametrize(
    ("right", "tested"),
    [
        (((1, 1),), TESTED),
        (((1, 1),) * 4, TESTED),
        (((1,),) * 3, (1,)),
        (((1, 1), (1, 1), (101, 1)), TESTED),
        (((0, 0),) * 3, (0, 0)),
        ((), ()),
    ],
)
def test_tests_that_cannot_be_are_refused(right, tested):
    with pytest.raises(InvalidContent):
        COURSE.after_statement(parted(), Stated(right=right, tested=tested))
