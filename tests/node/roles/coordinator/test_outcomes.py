"""What a round came to is computed once, unless its inputs change."""

from types import SimpleNamespace

import pytest

from fedgrove.node.roles.coordinator import context
from fedgrove.node.roles.coordinator.context import Outcomes
from tests.node.roles.fakes import Events, entry_with


@pytest.fixture
def events(monkeypatch):
    made = Events()
    monkeypatch.setattr(context, "outcome", made.noting("computed", "model"))
    return made


def inputs(model=b"model", commits=(1, 2)):
    current = entry_with(draws=(1, 2, 3), commits=commits)
    current.opened.model_digest = model
    return SimpleNamespace(current=current)


def record(data=b"record"):
    return SimpleNamespace(to_bytes=lambda: data)


def test_the_same_inputs_are_computed_once(events):
    kept = Outcomes(None)
    assert kept.of(inputs(), record()) == kept.of(inputs(), record()) == "model"
    assert len(events) == 1


@pytest.mark.parametrize(
    "changed", [(inputs(model=b"other"), record()), (inputs(commits=(1,)), record()), (inputs(), record(b"other"))]
)
def test_other_inputs_are_computed_anew(events, changed):
    kept = Outcomes(None)
    kept.of(inputs(), record())
    kept.of(*changed)
    assert len(events) == 2
