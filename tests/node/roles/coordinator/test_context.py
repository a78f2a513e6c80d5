"""Outcomes of rounds, and rounds without one."""

from types import SimpleNamespace

import pytest

from fedgrove.node.roles.coordinator import context
from fedgrove.node.roles.coordinator.context import Outcomes, Overdue
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


# --- A round that missed a deadline ends on the ledger ----------------------------------------------------------------


@pytest.fixture
def events():
    return Events()


@pytest.mark.parametrize(("drawn", "sealed"), [((1, 2, 3), None), ((1, 2), object())])
def test_an_overdue_round_failed(events, drawn, sealed):
    step = Overdue(context_with(events)).act(turn_at(90, entry_with(draws=drawn, sealed=sealed)))
    assert step.acted == "recorded the round as failed: it is overdue"
    assert events == [("fail", 1)]


def test_an_overdue_round_that_too_few_drew_in_is_skipped(events):
    step = Overdue(context_with(events)).act(turn_at(90, entry_with(draws=(1, 2))))
    assert step.acted == "skipped the round: too few drawn" and events == [("skip", 1)]
