"""Which samples are held out: a fixed share by keyed hashes, and none of them is ever trained on."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.common.errors import Refused
from fedgrove.node.learning.held_out import HoldOutRule, mark_of, marks_of, split
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.tasks.task import dataset_of

RULE = HoldOutRule(bytes(32), 200_000)


def marks(values):
    return [RULE.mark(b"%d" % value) for value in values]


@given(st.integers(1, 60), st.integers(0, 900_000))
def test_as_many_are_held_out_as_everybody_can_compute(count, millionths):
    found = split(marks(range(count)), HoldOutRule(bytes(32), millionths))
    assert len(found.held_out) == millionths * count // 1_000_000
    assert sorted(found.train + found.held_out) == list(range(count))


def test_the_choice_does_not_depend_on_the_order_but_on_the_secret():
    values = list(range(50))
    chosen = {values[index] for index in split(marks(values), RULE).held_out}
    values.reverse()
    assert chosen == {values[index] for index in split(marks(values), RULE).held_out}
    other = HoldOutRule(bytes(31) + b"x", 200_000)
    assert chosen != {index for index in split([other.mark(b"%d" % each) for each in range(50)], other).held_out}


@given(st.lists(st.sets(st.integers(0, 80), min_size=1), min_size=2, max_size=6))
def test_no_sample_moves_to_training_while_data_come_and_go(stages):
    boundary, held = b"", set()
    for stage in stages:
        values = sorted(stage)
        try:
            found = split(marks(values), HoldOutRule(RULE.secret, RULE.millionths, boundary))
        except Refused:
            continue
        boundary = found.boundary
        held |= {values[index] for index in found.held_out}
        assert not held & {values[index] for index in found.train}


def test_equal_samples_stand_on_one_side():
    found = split(marks([7, 7, 7, 1, 2, 3, 4, 5, 6, 8]), HoldOutRule(bytes(32), 100_000))
    copies = {0, 1, 2}
    assert copies.isdisjoint(found.train) or copies <= set(found.train)
    for secret in range(40):  # also where the share cuts through the copies
        rule = HoldOutRule(bytes([secret]) * 32, 100_000)
        found = split([rule.mark(b"%d" % each) for each in (7, 7, 7, 1, 2, 3, 4, 5, 6, 8)], rule)
        assert len(found.held_out) == 1
        assert copies.isdisjoint(found.train) or copies.isdisjoint(found.held_out)


def test_where_all_samples_are_equal_a_sentence_says_so():
    with pytest.raises(Refused, match="no sample is left to train on"):
        split(marks([1] * 10), RULE)


def test_a_rule_travels_in_a_header():
    rule = HoldOutRule(bytes(range(32)), 300_000, b"\x07" * 32)
    assert HoldOutRule.from_header(rule.to_header()) == rule


def test_images_differ_by_pixels_and_by_labels():
    x = np.zeros((3, 1, 2, 2), np.float32)
    x[1, 0, 0, 0] = 1
    found = marks_of(Samples(x, np.array([0, 0, 1])), RULE)
    assert len(set(found)) == 3


def test_a_network_and_a_task_hold_out_the_same_samples():
    x, y = np.random.default_rng(2).random((6, 1, 2, 2), dtype=np.float32), np.arange(6) % 3
    pairs = dataset_of((x, y))
    assert marks_of(Samples(x, y), RULE) == [mark_of(pairs[index], RULE) for index in range(6)]


def test_items_of_any_kind_have_marks_of_their_content():
    items = [
        (torch.zeros(2), 1),
        (torch.zeros(2), 2),
        (torch.zeros(2, 1), 1),
        (torch.zeros(2, dtype=torch.float64), 1),
        (np.ones(2), 1),
        {"tokens": [1, 2], "mask": [1]},
        {"tokens": [1], "mask": [2, 1]},
        ("text", 1),
        (b"text", 1),
        [("text",), 1],
        (None, True),
    ]
    found = [mark_of(item, RULE) for item in items]
    assert len(set(found)) == len(items)
    assert found[0] == mark_of((torch.zeros(2), 1), RULE)
    assert mark_of({"a": 1, "b": 2}, RULE) == mark_of({"b": 2, "a": 1}, RULE)


def test_an_item_without_content_is_refused():
    with pytest.raises(TypeError, match="object has no content to choose held-out samples by"):
        mark_of((object(), 1), RULE)
