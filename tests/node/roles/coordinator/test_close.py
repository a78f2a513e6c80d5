"""A recovered round is closed with its model and metrics, or fails for what somebody recorded."""

from types import SimpleNamespace

import pytest

from fedgrove.chain.records import FailureReason
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.aggregate import InvalidUpdate
from fedgrove.node.methods.training.task_data import TaskFailed
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.members_metrics import MembersMetrics, of_sums
from fedgrove.node.protocol.method import Evaluated
from fedgrove.node.protocol.metric_words import MetricSums
from fedgrove.node.roles.coordinator import summing
from fedgrove.node.roles.coordinator.summing import Close
from tests.node.roles.fakes import DEADLINES, Events, context_with, entry_with, turn_at, view_at

BLOCK = 62


class Place:
    """A round recovered in block 55 that comes to ``outcome``."""

    def __init__(self, patch, recovery="record", outcome=None, samples=10, fault=""):
        self.events = Events()
        outcome = outcome or SimpleNamespace(model="model", privacy=None, members=None)
        patch.setattr(summing, "recovery", Events().noting("recovery", recovery))
        patch.setattr(summing, "most_record_bytes", lambda graph: 100)
        recovered = SimpleNamespace(digest=cid_of(b"record").digest, at=SimpleNamespace(block=55))
        self.current = entry_with(draws=(1, 2, 3), sealed=object(), recovered=recovered)
        self.context = context_with(
            self.events,
            view_at(BLOCK),
            inputs=lambda current: SimpleNamespace(current=current, graph=None),
            outcomes=SimpleNamespace(of=self.events.noting("outcome", outcome)),
            aides=SimpleNamespace(
                statements=lambda round_number, model: None, evaluate=lambda model: Evaluated(0.875, 0.5, samples)
            ),
            method=SimpleNamespace(
                schedule=SimpleNamespace(standing=lambda model, stated: model),
                statement_fault=lambda model, metrics: fault,
                model_bytes=lambda model: b"model bytes",
            ),
        )
        self.context.ledger.block_hash = lambda number: bytes([number]) * 32
        self.context.store.blobs[recovered.digest] = b"record"

    def act(self):
        return Close(self.context).act(turn_at(BLOCK, self.current))


@pytest.fixture
def place(monkeypatch):
    return lambda **options: Place(monkeypatch, **options)


def test_model_and_metrics_are_in_the_store_before_their_digests_are_on_the_ledger(place):
    place = place()
    assert place.act().acted == "closed the round at accuracy 0.875"
    assert place.events.names() == ["outcome", "put", "put", "close"]
    _, number, model, metrics = place.events[-1]
    assert (number, model) == (1, cid_of(b"model bytes").digest)
    stated = Metrics.from_bytes(place.context.store.fetch(metrics, 1 << 16))
    assert (stated.round, stated.accuracy, stated.loss, stated.samples) == (1, 0.875, 0.5, 10)


def test_the_metrics_name_the_block_of_the_recovery(place):
    place = place()
    place.act()
    stated = Metrics.from_bytes(place.context.store.fetch(place.events[-1][-1], 1 << 16))
    assert stated.head == (55, bytes([55] * 32).hex())


def test_without_test_data_no_accuracy_is_claimed(place):
    assert place(samples=0).act().acted == "closed the round"


def test_a_model_that_a_task_cannot_evaluate_is_closed_with(place):
    """A member may have poisoned it for that."""

    def raising(model):
        raise TaskFailed("the task raised ValueError: input contains NaN")

    place = place()
    place.context.aides.evaluate = raising
    told = "closed the round, whose model could not be evaluated (the task raised ValueError: input contains NaN)"
    assert place.act().acted == told
    stated = Metrics.from_bytes(place.context.store.fetch(place.events[-1][-1], 1 << 16))
    assert (stated.accuracy, stated.loss, stated.samples) == (None, 0.0, 0)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"recovery": InvalidContent("it is junk")}, FailureReason.INVALID_RELEASE),
        ({"outcome": InvalidUpdate("it is short", 1)}, FailureReason.INVALID_UPDATE),
    ],
)
def test_what_no_model_follows_from_fails_the_round(place, options, reason):
    place = place(**options)
    assert place.act().acted == f"recorded the round as failed: {reason.name.lower()}"
    assert "close" not in place.events.names() and place.events[-1][2] == reason


def test_a_round_that_needs_a_statement_is_left_to_who_can_make_it(place):
    place = place(fault="it lacks a statement")
    step = place.act()
    assert (step.phase, step.until) == ("close", DEADLINES.close_end) and "it lacks a statement" in step.waiting
    assert place.events.names() == ["outcome"]


def test_what_is_told_of_the_members_metrics_is_what_they_are():
    nothing, void = MembersMetrics(0, {}), MembersMetrics(0, {}, void="they add up to less than nothing")
    found = of_sums(MetricSums.measured(4, {"right": 3, "loss": 2.0, "squared_loss": 2.0}), 4)
    assert [summing._said_of(members) for members in (None, nothing)] == ["", ""]
    assert summing._said_of(void) == "; the members' metrics are void, as they add up to less than nothing"
    assert (
        summing._said_of(found)
        == "; the members found accuracy 0.7500, loss 0.5000 ± 0.2500 on 4 samples, for the model before it"
    )
