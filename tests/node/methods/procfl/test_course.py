"""The first steps of a federation with clusters: comparisons, clusters, their training."""

from dataclasses import replace
from fractions import Fraction

import pytest

from fedgrove.common.errors import InvalidContent
from fedgrove.node.methods.procfl.course import Course, chosen_by
from fedgrove.node.methods.procfl.labels import SHARE, label_shares
from fedgrove.node.methods.procfl.stated import Stated
from tests.node.methods.procfl.courses import (
    CLIENTS,
    COUNTS,
    COURSE,
    FIRST,
    SECOND,
    TERMS,
    clustered,
    compared,
    full,
    overlaps,
    unfair,
)


def test_clusters_follow_from_the_overlaps():
    state = COURSE.after_statement(compared(), Stated(overlaps=overlaps()))
    assert state.stage == "labels" and set(state.clusters) == {FIRST, SECOND}
    assert replace(TERMS, seats=0).first_rounds == 2 and TERMS.first_rounds == 3
    assert (
        Course(replace(TERMS, seats=0), 11, 2).after_statement(compared(), Stated(overlaps=overlaps())).stage == "train"
    )


@pytest.mark.parametrize(
    ("row", "column", "value"), [(0, 0, 22), (0, 1, 99), (0, 1, 1), (2, 5, 20)], ids=["size", "above", "one", "other"]
)
def test_overlaps_that_no_sets_can_have_are_refused(row, column, value):
    wrong = [list(counts) for counts in overlaps()]
    wrong[row][column] = value
    with pytest.raises(InvalidContent):
        COURSE.after_statement(compared(), Stated(overlaps=tuple(map(tuple, wrong))))


def test_without_committees_there_is_nobody_to_judge():
    for state in (full(), replace(full(), stage="labels")):
        with pytest.raises(InvalidContent, match="no committees"):
            unfair(seats=0).after_statement(state, None)


@pytest.mark.parametrize("stage", ["blind", "answer", "labels", "train", "show", "vote"])
def test_a_statement_that_nobody_called_for_is_refused(stage):
    state = replace(compared(), stage=stage)
    assert COURSE.after_statement(state, None) is state
    with pytest.raises(InvalidContent):
        COURSE.after_statement(state, Stated(overlaps=overlaps()))


@pytest.mark.parametrize("stage", ["count", "watch"])
def test_a_statement_that_is_called_for_must_be_there(stage):
    with pytest.raises(InvalidContent):
        COURSE.after_statement(replace(compared(), stage=stage), None)


def test_groups_of_each_stage_do_not_overlap_and_can_mask():
    state = replace(clustered(), labels=((57, 3), (6, 79)))
    everybody = dict.fromkeys((1, *CLIENTS), 1)  # client 1 came when all had compared
    assert COURSE.groups(replace(state, stage="labels"), everybody) == (FIRST, SECOND)
    assert COURSE.groups(replace(state, stage="train"), everybody) == (FIRST, SECOND)
    unwatched = Course(replace(TERMS, seats=0), 11, 2)
    assert unwatched.groups(replace(state, stage="train"), everybody) == (CLIENTS,)
    assert COURSE.groups(replace(state, stage="vote"), everybody) == ()
    alone = replace(state, stage="train", trained=COURSE.last_global)
    chosen = {client: 1 if client in FIRST else 2 for client in CLIENTS}
    assert COURSE.groups(alone, chosen) == (FIRST, SECOND)
    assert COURSE.groups(alone, {**chosen, 3: 2}) == ((), SECOND)  # not a member of it, and two cannot mask
    assert COURSE.groups(alone, {**chosen, 8: 9}) == (FIRST, (7, 9, 10))


def test_weights_sum_to_one_and_all_clusters_weigh_the_same_at_first():
    state = replace(clustered(), stage="train")
    first = COURSE.weights(state, (FIRST, SECOND))
    assert first == COURSE.weights(state, (CLIENTS,))
    assert sum(first.values()) == 1 and sum(first[client] for client in FIRST) == Fraction(1, 2)
    later = COURSE.weights(replace(state, trained=COURSE.last_global), (FIRST, SECOND))
    assert {later[client] for client in FIRST} == {Fraction(1, 3)}
    assert {later[client] for client in SECOND} == {Fraction(1, 4)}


def test_who_is_in_two_clusters_prefers_the_one_like_it():
    state = replace(clustered(), clusters=(FIRST, (5, *SECOND)))
    assert COURSE.options(state, 5) == (0, 1) and COURSE.options(state, 7) == (1,) and COURSE.options(state, 1) == ()
    assert COURSE.parts(state, CLIENTS) == (FIRST, SECOND)


def test_who_is_with_too_few_goes_to_another_of_its_clusters_or_is_in_no_part():
    state = replace(clustered(), clusters=((2, 3), (2, 3, 5, 10), (7, 8, 9, 10)))
    assert COURSE.parts(state, CLIENTS) == ((), (2, 3, 5), (7, 8, 9, 10))
    assert COURSE.parts(replace(state, clusters=((2, 3), (5, 7, 8, 9, 10))), CLIENTS) == ((), (5, 7, 8, 9, 10))
    assert COURSE.parts(state, (2, 3, 5, 7, 10)) == ((), (2, 3, 5, 10), ())
    assert COURSE.parts(state, (2, 7)) == ((), (), ())


def test_a_client_states_its_cluster_and_in_the_first_round_whether_it_doubts_the_label_shares():
    state = replace(clustered(), stage="train", groups=(FIRST, SECOND), labels=shares_of(FIRST, SECOND))
    own = shares_of((2,))[0]
    assert COURSE.number_of(state, 2, 0, own) == 1
    alone = unfair(global_share=0.0)
    assert alone.number_of(state, 2, 0, own) == 1 and alone.number_of(state, 2, 1, own) == 2
    forged = replace(state, labels=((0, 3 * SHARE), state.labels[1]))
    assert COURSE.number_of(forged, 2, 0, own) == 3 and alone.number_of(forged, 2, 1, own) == 4
    assert [chosen_by(state, number) for number in (0, 1, 2, 3, 4, 5, 1 << 31)] == [-1, 0, 1, 0, 1, -1, -1]
    later = replace(forged, trained=1)
    assert COURSE.number_of(later, 2, 0, own) == 1  # groups are those who trained by then


def test_label_shares_that_a_member_doubts_are_believed_by_nobody():
    """The rest of the federation keeps its own; a member that doubts for no reason harms its own cluster only."""
    state = replace(clustered(), stage="train", groups=(FIRST, SECOND), labels=shares_of(FIRST, SECOND))
    assert COURSE.believed(state, dict.fromkeys(CLIENTS, 1)) == state.labels
    assert COURSE.believed(state, {**dict.fromkeys(CLIENTS, 1), 5: 3}) == ((), state.labels[1])
    assert COURSE.believed(state, {**dict.fromkeys(CLIENTS, 1), 5: 3, 9: 4}) == ((1, 1), (1, 1))
    assert COURSE.believed(replace(state, trained=1), {5: 3}) == state.labels
    assert replace(state, labels=((), state.labels[1])).labels_of(0) == (1, 1)


def shares_of(*groups):
    """Label shares of groups, each added up."""
    own = {client: label_shares(counts) for client, counts in zip(CLIENTS, COUNTS, strict=True)}
    return tuple(tuple(sum(own[client] for client in group).tolist()) for group in groups)
