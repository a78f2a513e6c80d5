"""What a round states of its members' evaluation: figures, plausibility, the course of the loss, hostile statements."""

import json
import math

import numpy as np
import pytest

from fedgrove.common.errors import InvalidContent
from fedgrove.common.wire import canonical_json
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.members_metrics import (
    LossCourse,
    MembersMetrics,
    described,
    difference,
    of_sums,
    with_course,
)
from fedgrove.node.protocol.metric_words import MetricSums

RECORD, HEAD = "0" * 64, (1, "0" * 64)
LOSSES = np.array([0.25, 1.5, 3.0, 0.5, 2.0])


def stated(losses=LOSSES, right=3, **more) -> MembersMetrics:
    found = {"right": right, "loss": float(losses.sum()), "squared_loss": float((losses**2).sum())}
    sums = MetricSums.measured(len(losses), found)
    return MembersMetrics(sums.samples, sums.sums, **more)


def table(found) -> dict:
    return json.loads(Metrics(1, RECORD, HEAD, members=found).to_bytes())


def test_the_figures_are_those_of_the_losses():
    found = stated()
    assert found.accuracy == 3 / 5 and found.loss == LOSSES.mean()
    assert found.standard_error == pytest.approx(LOSSES.std() / math.sqrt(5), rel=1e-12)
    assert stated(np.full(9, 0.3)).standard_error == pytest.approx(0, abs=1e-4)


def test_a_metric_of_the_tasks_own_is_a_mean_too():
    sums = MetricSums.measured(4, {"squared_error": 6.0, "loss": 6.0, "squared_loss": 20.0})
    figures = MembersMetrics(4, sums.sums).to_figures()
    assert figures["squared_error"] == 1.5 and "accuracy" not in figures


@pytest.mark.parametrize(
    ("samples", "right", "squares", "said"),
    [
        (5, 6, 9.0, "6 right answers of 5"),
        (2**31, 6, 9.0, "more than a word may"),
        (5, 3, -1.0, "less than nothing"),
    ],
)
def test_what_honest_members_cannot_add_up_to_is_void(samples, right, squares, said):
    found = of_sums(MetricSums.measured(samples, {"right": right, "loss": 1.0, "squared_loss": squares}))
    assert said in found.void and not found.there and found.loss is None and found.accuracy is None
    assert found.sums == {} and found.to_figures() == {"samples": 0, "void": found.void}


@pytest.mark.parametrize(("loss", "stopped"), [(2.0**23 - 1, []), (2.0**23, ["loss"]), (math.nan, ["loss"])])
def test_a_sum_that_may_have_reached_its_stop_is_marked(loss, stopped):
    found = of_sums(MetricSums.measured(4, {"right": 2, "loss": loss, "squared_loss": 9.0}))
    assert found.to_figures().get("stopped", []) == found.to_report().get("stopped", []) == stopped
    assert ("at the stop of sums, so perhaps larger: loss" in described(found.to_figures())) == bool(stopped)


@pytest.mark.parametrize("right", [0, 5])
def test_all_right_and_all_wrong_are_plausible(right):
    assert not of_sums(MetricSums(5, {"right": right, "loss": 0, "squared_loss": 0})).void


def courses(means, patience, spread=0.0) -> list[LossCourse]:
    """The course over rounds whose losses have these means (None: void), each of 4 samples."""
    found, before = [], None
    for mean in means:
        one = MembersMetrics(0, {}, "no") if mean is None else stated(np.array([mean - spread, mean + spread] * 2))
        before = with_course(one, before, patience).course
        found.append(before)
    return found


def test_a_loss_that_falls_goes_on_and_one_that_does_not_ends_after_the_patience():
    assert [each.ends for each in courses([4, 3, 2, 1], 1)] == [False] * 4
    assert [each.ends for each in courses([4, 3, 3, 3, 3], 3)] == [False] * 4 + [True]
    assert [each.waited for each in courses([4, 5, 3, 6, 7], 3)] == [0, 1, 0, 1, 2]


def test_a_fall_within_the_standard_error_counts_as_none():
    """The standard error of two samples at mean ± spread, twice each, is half the spread."""
    assert [each.waited for each in courses([4.0, 3.6], 3, spread=1.0)] == [0, 1]
    assert [each.waited for each in courses([4.0, 3.4], 3, spread=1.0)] == [0, 0]


def test_small_falls_add_up():
    course = courses([4.0, 3.75, 3.5, 3.25], 3, spread=1.0)
    assert [each.waited for each in course] == [0, 1, 2, 0] and course[-1].least_loss == 3.25


def test_rounds_without_metrics_neither_end_nor_prolong_the_training():
    assert [each.waited for each in courses([3, None, 3, None, 3], 2)] == [0, 0, 1, 1, 2]
    assert courses([None, None], 1) == [LossCourse()] * 2


def test_without_a_patience_nothing_is_said_of_the_course():
    assert with_course(stated(), None, 0).course is None


def test_the_end_is_told_in_a_sentence():
    assert courses_ending([3, 3], 1)[-11:] == "for 1 round"
    assert courses_ending([3, 3, 3], 2).endswith("has not fallen by more than its standard error for 2 rounds")
    assert courses_ending([3, 2, 1], 2) == ""


def courses_ending(means, patience) -> str:
    return stated(course=courses(means, patience)[-1]).ending


@pytest.mark.parametrize(
    "found",
    [
        stated(),
        MembersMetrics(0, {}, "a reason"),
        stated(course=LossCourse(0.5, 2, True)),
        stated(course=LossCourse(0.5, 2, True), last=True),
        MembersMetrics(0, {}, "a reason", last=True),
    ],
)
def test_a_statement_comes_back_as_it_was(found):
    metrics = Metrics(3, RECORD, HEAD, members=found)
    assert Metrics.from_bytes(metrics.to_bytes()) == metrics
    assert not difference(found, Metrics.from_bytes(metrics.to_bytes()).members)


HOSTILE = [
    None,
    [],
    "x",
    {},
    {"samples": 3},
    {"samples": -1, "sums": {}},
    {"samples": True, "sums": {}},
    {"samples": 2**40, "sums": {}},
    {"samples": 3, "sums": []},
    {"samples": 3, "sums": {}},
    {"samples": 3, "sums": {"loss": 1}},
    {"samples": 3, "sums": {"loss": 1.5, "squared_loss": 1}},
    {"samples": 3, "sums": {"loss": True, "squared_loss": 1}},
    {"samples": 3, "sums": {"loss": 1, "squared_loss": 1, "<b>": 1}},
    {"samples": 3, "sums": {"loss": 1, "squared_loss": 2**70}},
    {"samples": 0, "sums": {}, "void": 3},
    {"samples": 0, "sums": {}, "void": "x" * 1000},
    {"samples": 0, "sums": {}, "more": 3},
    {"samples": 0, "sums": {}, "last": False},
    {"samples": 0, "sums": {}, "last": 1},
    {"samples": 0, "sums": {}, "last": "true"},
    {"samples": 0, "sums": {}, "course": {"ends": False}},
    {"samples": 0, "sums": {}, "course": []},
    {"samples": 0, "sums": {}, "course": {"least_loss": "x", "waited": 0, "ends": False}},
    {"samples": 0, "sums": {}, "course": {"least_loss": 1.0, "waited": -1, "ends": False}},
    {"samples": 0, "sums": {}, "course": {"least_loss": 1.0, "waited": 1, "ends": 1}},
    {"samples": 0, "sums": {}, "course": {"least_loss": 1.0, "waited": 1, "ends": True, "more": 1}},
]


@pytest.mark.parametrize("members", HOSTILE, ids=str)
def test_anything_else_is_no_statement(members):
    stated = {"kind": "sums", **members} if isinstance(members, dict) else members
    with pytest.raises(InvalidContent, match=r"members|canonical"):
        Metrics.from_bytes(canonical_json({**table(None), "members": stated}))


def test_each_difference_is_named():
    right = stated(course=LossCourse(1.0, 1))
    assert "lack" in difference(None, right) and "sent none" in difference(right, None)
    assert "not the sum" in difference(stated(right=2, course=LossCourse(1.0, 1)), right)
    assert "of the end" in difference(stated(course=LossCourse(1.0, 1, True)), right)
    assert "of the end" in difference(right.replace(last=True), right)
    assert "of the end" in difference(right, right.replace(last=True))
