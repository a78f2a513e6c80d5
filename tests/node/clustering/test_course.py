"""What a federation with clusters does next: every way from comparisons to verdicts, and statements that cannot be."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from node.clustering.committee import Ballot
from node.clustering.course import Course
from node.clustering.settings import ClusterTerms
from node.clustering.similarity import in_the_clear
from node.clustering.state import Case, ClusterState
from node.clustering.stated import InvalidStatement, Stated
from node.tensors import InvalidModel, dump, load

TERMS = ClusterTerms(
    alpha=0.5, global_share=0.5, seats=2, tolerance=0.1, pause=2, counter="ab" * 32, signer="0x" + "ab" * 20
)
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


def watched(found, *, trained=1, models=(1,), **changes) -> ClusterState:
    """After a round of training, when models were tested."""
    groups = (FIRST, SECOND)
    state = replace(clustered(), stage="watch", labels=((57, 3), (6, 79)), trained=trained, groups=groups)
    trials = (model(7), model(8)) if len(models) == 1 else ()
    state = replace(state, models=tuple(map(model, models)), trials=trials, began="ef" * 32, **changes)
    return COURSE.heard(ClusterState.from_bytes(state.to_bytes()), Stated(right=found, tested=TESTED))


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


def test_when_the_one_model_fell_the_part_is_judged_that_is_worse_than_the_reference():
    fell = ((20, 30), (10, 60), (50, 61))
    found = watched(fell, **reference((50, 60)))
    assert found.stage == "show" and not found.trials
    assert [(case.cluster, case.members) for case in found.cases] == [(0, FIRST)]
    assert len(found.cases[0].committee) == 2 and set(found.cases[0].committee) <= set(SECOND)
    assert watched(fell, trained=2, **reference((50, 60), judged={0: 1})).stage == "train"
    assert watched(fell, trained=3, **reference((50, 60), judged={0: 1})).stage == "show"
    assert watched(fell, trained=2, **reference((50, 60), judged={1: 1})).stage == "show"


def test_a_bad_part_that_harms_the_one_model_little_is_not_judged():
    assert watched(((50, 58), (10, 60), (50, 61)), **reference((50, 60))).stage == "train"


def test_no_part_is_judged_when_none_is_worse_than_the_reference():
    assert watched(((20, 30), (50, 60), (50, 61)), **reference((50, 60))).stage == "train"


def test_a_cluster_that_fell_on_its_own_labels_is_judged_and_no_other():
    state = watched(((10, 90), (0, 60)), models=(1, 2), trained=5, **reference((50, 60)))
    assert state.stage == "show" and [case.cluster for case in state.cases] == [0]
    assert (
        len(state.references) == 2 and state.references[1]["weight"][0, 0] == 10
    )  # 60 of 100, less on the first label
    paused = watched(((10, 90), (50, 60)), models=(1, 2), trained=5, **reference((50, 60), judged={0: 4}))
    assert paused.stage == "train"


def test_the_expelled_leave_and_the_others_go_on_from_the_best_model():
    state = watched(((10, 90), (50, 60)), models=(1, 2), trained=5, **reference((50, 60)))
    (case,) = state.cases
    judged = replace(state, stage="vote")
    ballots = [Ballot(judge, (True, False, False), bytes(32)) for judge in case.committee]
    found = COURSE.voted(judged, {0: ballots})
    assert found.expelled == {2: 0} and found.clusters == ((3, 5), SECOND) and found.cases[0].against == (2, 0, 0)
    assert found.models[0]["weight"][0, 0] == 10 and found.models[1]["weight"][0, 0] == 2
    assert found.judged == {0: 5} and found.stage == "train"
    half = COURSE.voted(judged, {0: ballots[:1]})
    assert half.expelled == {} and half.clusters == state.clusters and half.models[0]["weight"][0, 0] == 1


def test_two_suspected_clusters_do_not_judge_each_other():
    state = watched(((10, 90), (50, 10)), models=(1, 2), trained=5, **reference((50, 60)))
    assert state.stage == "train" and state.cases == ()  # nobody is left to judge


def test_who_stayed_away_from_the_round_does_not_judge_its_own_cluster():
    """It is like its members, so accomplices could take all seats."""
    changes = {"models": (1, 2), "trained": 5, "groups": (FIRST, SECOND[:3]), **reference((50, 60))}
    (case,) = watched(((50, 90), (0, 0)), **changes).cases
    assert case.members == (7, 8, 9) and set(case.committee) <= set(FIRST)
    (shared,) = watched(((50, 90), (0, 0)), **changes, clusters=(FIRST, (2, *SECOND))).cases
    assert 2 in shared.committee  # it trained in its other cluster


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
    return replace(state, expelled={7: 1}, cases=(Case(0, FIRST, (7, 8), (1, 0, 2)),))


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
    ):
        with pytest.raises(InvalidModel):
            ClusterState.outline(wrong)


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
    "a cluster that is not there": {"judged": {2: 1}},
    "an expelled stranger": {"expelled": {1: 0}},
    "a judge from nowhere": {"cases": (Case(0, FIRST, (4,)),)},
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
    "votes on others": {"cases": (Case(0, FIRST, (7, 8), (1, 0)),)},
    "one cluster judged twice": {"cases": (Case(0, FIRST, (7,)), Case(0, FIRST, (8,)))},
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
def test_a_stage_of_another_protocol_is_refused(stage):
    with pytest.raises(InvalidStatement, match="nothing is compared"):
        COURSE.heard(replace(compared(), stage=stage), None)


def test_clusters_that_follow_from_nothing_are_refused():
    with pytest.raises(InvalidStatement, match="without the other"):
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
