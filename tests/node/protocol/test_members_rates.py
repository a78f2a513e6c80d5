"""What a round states of its members' noisy rates: figures, hostile statements, differences."""

import json

import pytest

from fedgrove.common.errors import InvalidContent
from fedgrove.common.wire import canonical_json
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.members_metrics import MembersMetrics, described, difference
from fedgrove.node.protocol.members_rates import MembersRates

RECORD, HEAD = "0" * 64, (1, "0" * 64)
STATED = MembersRates({"right": 0.8125, "recall": 0.25}, 0.0075)
VOID = MembersRates({}, 0.0, "a reason")


def test_the_figures_are_rates_and_their_noise_and_no_count():
    assert STATED.to_figures() == {"accuracy": 0.8125, "recall": 0.25, "noise": 0.0075}
    assert STATED.accuracy == 0.8125 and STATED.there and STATED.loss is None and not STATED.ending
    assert VOID.to_figures() == {"void": "a reason"} and VOID.accuracy is None and not VOID.there
    assert STATED.replace(last=True).to_report()["last"] is True and "last" not in STATED.to_report()
    assert MembersRates({"recall": 0.25}, 0.1).accuracy is None


def test_what_noise_carries_beyond_is_stated_as_it_is_and_told_within():
    beyond = MembersRates({"right": 1.004, "recall": -0.01}, 0.0075)
    assert beyond.to_figures() == {"accuracy": 1.0, "recall": 0.0, "noise": 0.0075} and beyond.accuracy == 1.0
    assert beyond.to_table()["rates"] == {"right": 1.004, "recall": -0.01}


def test_people_are_told_rates_and_their_noise():
    assert described(STATED.to_figures()) == "accuracy 0.8125, recall 0.2500 (noise ± 0.0075)"
    assert described(STATED.replace(last=True).to_report()) == "accuracy 0.8125, recall 0.2500 (noise ± 0.0075)"
    exact = {"samples": 9, "loss": 0.5, "standard_error": 0.25}
    assert described(exact) == "loss 0.5000 ± 0.2500 on 9 samples"
    assert described({"accuracy": 1.0, **exact}) == "accuracy 1.0000, loss 0.5000 ± 0.2500 on 9 samples"


@pytest.mark.parametrize("found", [STATED, VOID, STATED.replace(last=True), VOID.replace(last=True)])
def test_a_statement_comes_back_as_it_was(found):
    metrics = Metrics(3, RECORD, HEAD, members=found)
    assert Metrics.from_bytes(metrics.to_bytes()) == metrics
    assert not difference(found, Metrics.from_bytes(metrics.to_bytes()).members)


HOSTILE = [
    {"rates": {}},
    {"rates": {}, "noise": 0.0},
    {"rates": [], "noise": 0.0, "void": "x"},
    {"rates": {"right": 1}, "noise": 0.1},
    {"rates": {"right": "1"}, "noise": 0.1},
    {"rates": {"right": True}, "noise": 0.1},
    {"rates": {"right": 1e300}, "noise": 0.1},
    {"rates": {"<b>": 0.5}, "noise": 0.1},
    {"rates": {"right": 0.5}, "noise": -0.1},
    {"rates": {"right": 0.5}, "noise": 1},
    {"rates": {"right": 0.5}, "noise": 1e300},
    {"rates": {"right": 0.5}},
    {"rates": {"right": 0.5}, "noise": 0.1, "void": "x"},
    {"rates": {"right": 0.5}, "noise": 0.1, "last": False},
    {"rates": {"right": 0.5}, "noise": 0.1, "last": 1},
    {"rates": {"right": 0.5}, "noise": 0.1, "samples": 300},
    {"rates": {"right": 0.5}, "noise": 0.1, "course": None},
    {"rates": {}, "noise": 0.0, "void": 3},
    {"rates": {}, "noise": 0.0, "void": "x" * 1000},
]


@pytest.mark.parametrize("members", HOSTILE, ids=str)
def test_anything_else_is_no_statement(members):
    table = json.loads(Metrics(1, RECORD, HEAD).to_bytes())
    with pytest.raises(InvalidContent, match=r"members|canonical"):
        Metrics.from_bytes(canonical_json({**table, "members": {"kind": "rates", **members}}))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_is_no_statement(number):
    data = Metrics(1, RECORD, HEAD, members=STATED).to_bytes()
    with pytest.raises(InvalidContent):
        Metrics.from_bytes(data.replace(b"0.8125", number.encode()))


def test_each_difference_is_named():
    other = STATED.replace(rates=STATED.rates | {"right": 0.8126})
    exact = MembersMetrics(5, {"right": 4, "loss": 1, "squared_loss": 1})
    for wrong in (other, STATED.replace(noise=0.0076), VOID, exact):
        assert "not the sum" in difference(wrong, STATED) and "not the sum" in difference(STATED, wrong)
    assert "lack" in difference(None, STATED) and "sent none" in difference(STATED, None)
    assert "of the end" in difference(STATED.replace(last=True), STATED)
