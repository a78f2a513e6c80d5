"""Outcomes of rounds, and rounds without one."""

from types import SimpleNamespace

import pytest

from fedgrove.chain.records import FailureReason
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.roles.coordinator import context
from fedgrove.node.roles.coordinator.context import Outcomes, Overdue, fail
from tests.node.roles.fakes import Events, context_with, entry_with, turn_at

# --- What a round came to is computed once, unless its inputs change --------------------------------------------------


@pytest.fixture
def computed(monkeypatch):
    made = Events()
    monkeypatch.setattr(context, "outcome", made.noting("computed", "model"))
    return made


def inputs(model=b"model", commits=(1, 2)):
    current = entry_with(draws=(1, 2, 3), commits=commits)
    current.opened.model_digest = model
    return SimpleNamespace(current=current)


def record(data=b"record"):
    return SimpleNamespace(to_bytes=lambda: data)


def test_the_same_inputs_are_computed_once(computed):
    kept = Outcomes(None)
    assert kept.of(inputs(), record()) == kept.of(inputs(), record()) == "model"
    assert len(computed) == 1


@pytest.mark.parametrize(
    "changed", [(inputs(model=b"other"), record()), (inputs(commits=(1,)), record()), (inputs(), record(b"other"))]
)
def test_other_inputs_are_computed_anew(computed, changed):
    kept = Outcomes(None)
    kept.of(inputs(), record())
    kept.of(*changed)
    assert len(computed) == 2


# --- A round that comes to nothing ends on the ledger, with evidence or for its deadline ------------------------------


@pytest.fixture
def events():
    return Events()


def test_the_evidence_is_in_the_store_before_its_digest_is_on_the_ledger(events):
    step = fail(context_with(events), entry_with(4), FailureReason.UPDATE_UNAVAILABLE, {"clients": [2]})
    data = b'{"clients":[2],"round":4}'
    assert step.acted == "recorded the round as failed: update_unavailable"
    assert events == [("put", data), ("fail", 4, FailureReason.UPDATE_UNAVAILABLE, cid_of(data).digest)]


@pytest.mark.parametrize(("drawn", "sealed"), [((1, 2, 3), None), ((1, 2), object())])
def test_an_overdue_round_failed(events, drawn, sealed):
    step = Overdue(context_with(events)).act(turn_at(90, entry_with(draws=drawn, sealed=sealed)))
    assert step.acted == "recorded the round as failed: deadline"
    assert events == [("fail", 1, FailureReason.DEADLINE, bytes(32))]


def test_an_overdue_round_that_too_few_drew_in_is_skipped(events):
    step = Overdue(context_with(events)).act(turn_at(90, entry_with(draws=(1, 2))))
    assert step.acted == "skipped the round: too few drawn" and events == [("skip", 1)]
