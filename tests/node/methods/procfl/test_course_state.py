"""States and statements of a federation with clusters as bytes, and those that cannot be."""

from dataclasses import replace

import numpy as np
import pytest

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.tensors import dump, load
from fedgrove.node.methods.procfl.cases import Case
from fedgrove.node.methods.procfl.state import MAX_HEAD_BYTES, ClusterState
from fedgrove.node.methods.procfl.stated import Stated
from tests.node.methods.procfl.courses import (
    CLIENTS,
    COURSE,
    FIRST,
    SECOND,
    clustered,
    compared,
    full,
    model,
    overlaps,
    parted,
)

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
        with pytest.raises(InvalidContent):
            ClusterState.outline(wrong)


def test_a_head_beyond_all_bounds_is_not_read():
    with pytest.raises(InvalidContent, match="cut short"):
        ClusterState.from_bytes((MAX_HEAD_BYTES + 1).to_bytes(8) + b"0" * 100)


def test_hostile_states_are_refused():
    data, rng = full().to_bytes(), np.random.default_rng(0)
    head = 8 + int.from_bytes(data[:8])
    for place in [*range(12), *rng.integers(0, head, 150).tolist()]:
        changed = bytearray(data)
        changed[place] ^= 1 << int(rng.integers(8))
        try:
            found = ClusterState.from_bytes(bytes(changed))
        except InvalidContent:
            continue
        assert found.to_bytes() == bytes(changed)
    for wrong in (b"", data[:100], data + b"\0", bytes(8) + data[8:], (1 << 60).to_bytes(8) + data[8:], b"[" * 9000):
        with pytest.raises(InvalidContent):
            ClusterState.from_bytes(wrong)
    with pytest.raises(InvalidContent):
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
    with pytest.raises(InvalidContent):
        ClusterState.from_bytes(replace(full(), **WRONG[wrong]).to_bytes())
    with pytest.raises(InvalidContent):
        ClusterState.outline(replace(full(), **WRONG[wrong]).head())


@pytest.mark.parametrize(
    "label", ["models/2/weight", "models/-1/weight", "models/0", "more/0/weight", "models/x/weight"]
)
def test_a_tensor_of_no_model_is_refused(label):
    data = full().to_bytes()
    end = 8 + int.from_bytes(data[:8])
    stacked = {**load(data[end:]), label: model(1)["weight"]}
    with pytest.raises(InvalidContent):
        ClusterState.from_bytes(data[:end] + dump(stacked))


@pytest.mark.parametrize("stage", ["ask", "report"])
def test_a_stage_that_there_is_not_is_refused(stage):
    with pytest.raises(InvalidContent):
        ClusterState.from_bytes(replace(compared(), stage=stage).to_bytes())


def test_clusters_that_follow_from_nothing_are_refused():
    with pytest.raises(InvalidContent, match="clusters without overlaps"):
        COURSE.after_statement(replace(full(), stage="train", overlaps=()), None)


def test_a_state_of_other_labels_is_refused():
    with pytest.raises(InvalidContent):
        COURSE.after_statement(replace(full(), stage="train", labels=((1, 2, 3), ())), None)


def test_statements_survive_their_tables_and_nothing_else_does():
    stated = Stated(overlaps(), ((1, 2),), (3, 4), bytes(range(65)).hex())
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
        with pytest.raises(InvalidContent):
            Stated.from_table(wrong)
