"""What a federation with clusters does next: every way from comparisons to verdicts, and statements that cannot be."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from fedgrove.node.base.tensors import InvalidModel, dump, load
from fedgrove.node.methods.procfl.cases import Case
from fedgrove.node.methods.procfl.committee import Ballot
from fedgrove.node.methods.procfl.course import Course, chosen_by
from fedgrove.node.methods.procfl.labels import SHARE, label_shares
from fedgrove.node.methods.procfl.similarity import in_the_clear
from fedgrove.node.methods.procfl.state import MAX_HEAD_BYTES, ClusterState
from fedgrove.node.methods.procfl.stated import InvalidStatement, Stated
from fedgrove.node.methods.procfl.suspicion import shown
from fedgrove.node.methods.procfl.terms import ProCflTerms

SETTINGS = {"alpha": 0.5, "global_share": 0.5, "seats": 2, "tolerance": 0.1, "pause": 2}
FAIR = {"least_overlap": 0.04, "least_pool": 0.4}
TERMS = ProCflTerms(**SETTINGS, **FAIR, counter="ab" * 32, signer="0x" + "ab" * 20)
COURSE = Course(TERMS, rounds=11, labels=2)
COUNTS = np.array([[20, 1], [18, 2], [19, 0], [1, 20], [0, 18], [2, 22], [3, 19]])
"""Of clients 2, 3, 5, 7, 8, 9 and 10: two groups, of three and of four."""
CLIENTS = (2, 3, 5, 7, 8, 9, 10)
FIRST, SECOND = (2, 3, 5), (7, 8, 9, 10)
TESTED = (100, 100)


def model(number: float):
    return {"weight": np.full((2, 2), number, np.float32), "bias": np.full(2, -number, np.float32)}


def overlaps():
    return tuple(map(tuple, in_the_clear(COUNTS).overlaps.tolist()))


def compared() -> ClusterState:
    """All have answered; the coordinator is to count."""
    sets = {client: ("cd" * 32, int(counts.sum())) for client, counts in zip(CLIENTS, COUNTS, strict=True)}
    return ClusterState("count", (model(0),), sets=sets, clients=CLIENTS)


def clustered() -> ClusterState:
    """The clusters, in the order of the clients."""
    return replace(COURSE.heard(compared(), Stated(overlaps=overlaps())), clusters=(FIRST, SECOND))


def watched(found, *, trained=1, models=(1,), course=COURSE, **changes) -> ClusterState:
    """After a round of training, when models were tested."""
    groups = (FIRST, SECOND)
    state = replace(clustered(), stage="watch", labels=((57, 3), (6, 79)), trained=trained, groups=groups)
    trials = (model(7), model(8)) if len(models) == 1 else ()
    state = replace(state, models=tuple(map(model, models)), trials=trials, began="ef" * 32, **changes)
    return course.heard(ClusterState.from_bytes(state.to_bytes()), Stated(right=found, tested=TESTED))


def unfair(**terms) -> Course:
    """A course by other terms."""
    return Course(replace(TERMS, **terms), rounds=11, labels=2)


def reference(*right, **changes):
    """What is kept of good rounds before."""
    return {"references": tuple(map(model, range(10, 10 + len(right)))), "right": right, "tested": TESTED, **changes}


# --- comparisons and clusters -----------------------------------------------------------------------------------------


def test_clusters_follow_from_the_overlaps():
    state = COURSE.heard(compared(), Stated(overlaps=overlaps()))
    assert state.stage == "labels" and set(state.clusters) == {FIRST, SECOND}
    assert replace(TERMS, seats=0).first_rounds == 2 and TERMS.first_rounds == 3
    assert Course(replace(TERMS, seats=0), 11, 2).heard(compared(), Stated(overlaps=overlaps())).stage == "train"


@pytest.mark.parametrize(
    ("row", "column", "value"), [(0, 0, 22), (0, 1, 99), (0, 1, 1), (2, 5, 20)], ids=["size", "above", "one", "other"]
)
def test_overlaps_that_no_sets_can_have_are_refused(row, column, value):
    wrong = [list(counts) for counts in overlaps()]
    wrong[row][column] = value
    with pytest.raises(InvalidStatement):
        COURSE.heard(compared(), Stated(overlaps=tuple(map(tuple, wrong))))


def test_without_committees_there_is_nobody_to_judge():
    for state in (full(), replace(full(), stage="labels")):
        with pytest.raises(InvalidStatement, match="no committees"):
            unfair(seats=0).heard(state, None)


@pytest.mark.parametrize("stage", ["blind", "answer", "labels", "train", "show", "vote"])
def test_a_statement_that_nobody_called_for_is_refused(stage):
    state = replace(compared(), stage=stage)
    assert COURSE.heard(state, None) is state
    with pytest.raises(InvalidStatement):
        COURSE.heard(state, Stated(overlaps=overlaps()))


@pytest.mark.parametrize("stage", ["count", "watch"])
def test_a_statement_that_is_called_for_must_be_there(stage):
    with pytest.raises(InvalidStatement):
        COURSE.heard(replace(compared(), stage=stage), None)


# --- training ---------------------------------------------------------------------------------------------------------


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


def parted() -> ClusterState:
    """After a round of one model in two parts, before anybody tested it."""
    state = replace(clustered(), stage="watch", labels=((57, 3), (6, 79)), trained=1, groups=(FIRST, SECOND))
    return replace(state, trials=(model(7), model(8)))


# --- the watch --------------------------------------------------------------------------------------------------------


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
        heard = course.heard(state, Stated(right=((100, second, 80, 80), (80,) * 4), tested=(100,) * 4))
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
    return COURSE.seated(
        watched(((10, 90), (50, 60)), models=(1, 2), trained=5, **reference((50, 60)), **changes), LOTS
    )


def test_half_of_a_cluster_at_most_is_judged_by_judges_drawn_by_lot():
    drawn = {COURSE.seated(seated(), bytes([seed]) * 32).cases for seed in range(100)}
    (cases, *_) = drawn
    assert {len(case.members) for (case,) in drawn} == {1} and {len(case.committee) for (case,) in drawn} == {2}
    assert {case.members[0] for (case,) in drawn} == set(FIRST)
    assert {judge for (case,) in drawn for judge in case.committee} == set(SECOND)
    assert cases[0].suspects == FIRST and cases[0].pool == SECOND


def test_where_nobody_can_be_judged_alone_nobody_is():
    state = watched(((10, 90), (50, 60)), models=(1, 2), trained=5, **reference((50, 60)))
    bare = COURSE.seated(state, LOTS, lambda telling: {*telling, *FIRST})
    assert not bare.cases[0].seated
    after = shown(bare)
    assert after.stage == "train" and after.cases == () and ClusterState.from_bytes(after.to_bytes())


def test_the_expelled_leave_and_the_others_go_on():
    judged = shown(seated())
    (case,) = judged.cases
    assert judged.stage == "vote" and ClusterState.from_bytes(judged.to_bytes()).cases == (case,)
    ballots = [Ballot(judge, (True,), bytes(32)) for judge in case.committee]
    found, out = COURSE.voted(judged, {0: ballots}), case.members[0]
    assert found.expelled == {out: 0} and found.cases[0].against == (2,)
    assert found.clusters == (tuple(client for client in FIRST if client != out), SECOND)
    assert found.judged == {out: 5} and found.stage == "train"
    half = COURSE.voted(judged, {0: ballots[:1]})
    assert half.expelled == {} and half.clusters == judged.clusters and half.judged == {out: 5}


def test_a_committee_that_says_nothing_expels_nobody_and_stops_nothing():
    found = COURSE.voted(shown(seated()), {0: []})
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
    with pytest.raises(InvalidStatement, match="another public set"):
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
    with pytest.raises(InvalidStatement):
        COURSE.heard(parted(), Stated(right=right, tested=tested))


# --- bytes ------------------------------------------------------------------------------------------------------------


def full() -> ClusterState:
    state = watched(((10, 90), (50, 60)), models=(1, 2), trained=5, **reference((50, 60)))
    return replace(state, expelled={7: 1}, judged={3: 4}, cases=(Case(0, FIRST, SECOND, (2, 3), (7, 8), (1, 0)),))


STATES = [ClusterState.first(model(3)), compared(), clustered(), parted(), full()]


@pytest.mark.parametrize("state", STATES)
def test_a_state_survives_its_bytes(state):
    data = state.to_bytes()
    again = ClusterState.from_bytes(data, state.layout)
    assert again.to_bytes() == data
    assert again.cases == state.cases and again.sets == state.sets and again.overlaps == state.overlaps


@pytest.mark.parametrize("state", STATES)
def test_an_outline_is_the_state_without_its_tensors(state):
    outline = ClusterState.outline(state.head())
    for kind in ("models", "references", "trials"):
        assert getattr(outline, kind) == ({},) * len(getattr(state, kind))
        outline = replace(outline, **{kind: getattr(state, kind)})
    assert outline.to_bytes() == state.to_bytes()


def test_an_outline_of_anything_else_is_refused():
    head = full().head()
    for wrong in (
        b"",
        b"[]",
        head[:-1],
        head + b" ",
        head.replace(b'"models":2', b'"models":9007199254740992'),
        b"[" * 9000,
        b"[" * 9000 + b"]" * 9000,
        b"[" + b"[]," * 40_000 + b"[]]",
        b'{"a":"' + b"]" * 100 + b'","b":' + b"[" * 9000,
    ):
        with pytest.raises(InvalidModel):
            ClusterState.outline(wrong)


def test_a_head_beyond_all_bounds_is_not_read():
    with pytest.raises(InvalidModel, match="cut short"):
        ClusterState.from_bytes((MAX_HEAD_BYTES + 1).to_bytes(8) + b"0" * 100)


def test_hostile_states_are_refused():
    data, rng = full().to_bytes(), np.random.default_rng(0)
    head = 8 + int.from_bytes(data[:8])
    for place in [*range(12), *rng.integers(0, head, 150).tolist()]:
        changed = bytearray(data)
        changed[place] ^= 1 << int(rng.integers(8))
        try:
            found = ClusterState.from_bytes(bytes(changed))
        except InvalidModel:
            continue
        assert found.to_bytes() == bytes(changed)
    for wrong in (b"", data[:100], data + b"\0", bytes(8) + data[8:], (1 << 60).to_bytes(8) + data[8:], b"[" * 9000):
        with pytest.raises(InvalidModel):
            ClusterState.from_bytes(wrong)
    with pytest.raises(InvalidModel):
        ClusterState.from_bytes(data, ClusterState.first({"weight": np.ones(3, np.float32)}).layout)


WRONG = {
    "a member who never compared": {"clusters": ((2, 3, 6), SECOND)},
    "a verdict on a stranger": {"judged": {1: 1}},
    "a cluster that is not there": {"expelled": {7: 2}},
    "an expelled stranger": {"expelled": {1: 0}},
    "a judge from nowhere": {"cases": (Case(0, FIRST, (4,)),)},
    "a judge who is suspected": {"cases": (Case(0, FIRST, (5, 7)),)},
    "a judge who may not": {"cases": (Case(0, FIRST, (7, 8), (2,), (9,)),)},
    "a member that is not suspected": {"cases": (Case(0, (2, 3), SECOND, (5,), (7,)),)},
    "members without judges": {"cases": (Case(0, FIRST, SECOND, (2,)),)},
    "a case against a cluster that is not there": {"cases": (Case(2, FIRST, SECOND),)},
    "a client twice in a cluster": {"clusters": ((2, 2, 3), SECOND)},
    "a client in two groups": {"groups": (FIRST, (5, 7, 8))},
    "a group out of order": {"groups": ((3, 2, 5), SECOND)},
    "a client with no number": {"clusters": ((0, 2, 3), SECOND)},
    "a client with a number beyond four bytes": {"sets": {**clustered().sets, 1 << 32: ("cd" * 32, 21)}},
    "a set of nothing": {"sets": {**clustered().sets, 11: ("cd" * 32, 0)}},
    "a set beyond all bounds": {"sets": {**clustered().sets, 11: ("cd" * 32, 1 << 40)}},
    "a set that nobody published": {"sets": {**clustered().sets, 11: ("", 21)}},
    "more right than there were": {"right": ((50, 60), (101, 60))},
    "scores without samples": {"right": ((0, 0), (0, 0)), "tested": (0, 0)},
    "labels of several lengths": {"labels": ((57, 3), (6, 79, 1))},
    "labels of which there are none": {"labels": ((57, 3), (0, 0))},
    "a sum that was spoilt of nobody": {"spoilt": (2,)},
    "a sum that was spoilt twice": {"spoilt": (0, 0)},
    "more models than clusters": {"models": (model(1),) * 3},
    "references without scores": {"right": ()},
    "groups of no model": {"stage": "watch", "groups": (FIRST,)},
    "no labels to watch": {"stage": "watch", "labels": ()},
    "parts of several models": {"trials": (model(1),) * 2},
    "clients out of order": {"clients": (3, 2, *CLIENTS[2:])},
    "no set": {"sets": {}},
    "a comparison without a session": {"stage": "answer", "session": ""},
    "training without clusters": {
        "clusters": (),
        "labels": (),
        "groups": (),
        "judged": {},
        "expelled": {},
        "cases": (),
    },
    "overlaps of other sets": {"sets": {client: ("cd" * 32, 1) for client in CLIENTS}},
    "labels of nobody": {"labels": ((), ())},
    "scores of other labels than were tested": {"tested": (100,)},
    "votes on others": {"cases": (Case(0, FIRST, SECOND, (2, 3), (7, 8), (1, 0, 0)),)},
    "one cluster judged twice": {"cases": (Case(0, FIRST, (7,)), Case(0, FIRST, (8,)))},
    "a vote before the lots": {"stage": "vote", "cases": (Case(0, FIRST, SECOND),)},
    "a vote on nobody": {"stage": "vote", "cases": ()},
    "a vote without a model from before": {"stage": "vote", "references": (), "right": ()},
    "a vote on no round": {"stage": "vote", "began": ""},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_state_that_does_not_hold_together_is_refused(wrong):
    with pytest.raises(InvalidModel):
        ClusterState.from_bytes(replace(full(), **WRONG[wrong]).to_bytes())
    with pytest.raises(InvalidModel):
        ClusterState.outline(replace(full(), **WRONG[wrong]).head())


@pytest.mark.parametrize(
    "label", ["models/2/weight", "models/-1/weight", "models/0", "more/0/weight", "models/x/weight"]
)
def test_a_tensor_of_no_model_is_refused(label):
    data = full().to_bytes()
    end = 8 + int.from_bytes(data[:8])
    stacked = {**load(data[end:]), label: model(1)["weight"]}
    with pytest.raises(InvalidModel):
        ClusterState.from_bytes(data[:end] + dump(stacked))


@pytest.mark.parametrize("stage", ["ask", "report"])
def test_a_stage_that_there_is_not_is_refused(stage):
    with pytest.raises(InvalidModel):
        ClusterState.from_bytes(replace(compared(), stage=stage).to_bytes())


def test_clusters_that_follow_from_nothing_are_refused():
    with pytest.raises(InvalidStatement, match="clusters without overlaps"):
        COURSE.heard(replace(full(), stage="train", overlaps=()), None)


def test_a_state_of_other_labels_is_refused():
    with pytest.raises(InvalidStatement):
        COURSE.heard(replace(full(), stage="train", labels=((1, 2, 3), ())), None)


def test_statements_survive_their_tables_and_nothing_else_does():
    stated = Stated(overlaps(), ((1, 2),), (3, 4), bytes(range(65)))
    assert Stated.from_table(stated.to_table()) == stated
    table = stated.to_table()
    for wrong in (
        None,
        [],
        {},
        {**table, "more": 1},
        {**table, "tested": [-1, 2]},
        {**table, "tested": [True, 2]},
        {**table, "signature": "0"},
        {**table, "signature": 7},
    ):
        with pytest.raises(InvalidStatement):
            Stated.from_table(wrong)
