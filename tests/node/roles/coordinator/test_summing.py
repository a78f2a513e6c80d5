"""From the order to the next model."""

from types import SimpleNamespace

import pytest

from fedgrove.chain.records import FailureReason
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.store import NotFound
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.aggregate import InvalidUpdate
from fedgrove.node.masking.recovery import TooFewShares
from fedgrove.node.masking.sealing import MaskingRefused
from fedgrove.node.methods.training.task_data import TaskFailed
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.members_metrics import MembersMetrics, of_sums
from fedgrove.node.protocol.method import Evaluated
from fedgrove.node.protocol.metric_words import MetricSums
from fedgrove.node.protocol.step import Kind
from fedgrove.node.roles.coordinator import summing
from fedgrove.node.roles.coordinator.summing import AwaitMembers, Close, RecordRecovery
from tests.node.roles.fakes import DEADLINES, Events, context_with, entry_with, turn_at, view_at

# --- While clients share and commit, the coordinator says for which it waits ------------------------------------------


def test_it_waits_for_the_shares_of_those_that_drew():
    step = AwaitMembers(None).act(turn_at(35, entry_with(draws=(1, 2, 3), shares=(2,))))
    assert (step.phase, step.waiting, step.until) == ("share", "clients 1, 3 to share", DEADLINES.share_end)


def test_it_waits_for_the_commitments_of_those_that_shared():
    step = AwaitMembers(None).act(turn_at(45, entry_with(draws=(1, 2, 3), shares=(1, 2), commits=(2,))))
    assert (step.phase, step.waiting, step.until) == ("commit", "client 1 to commit", DEADLINES.commit_end)


# --- A recovery is recorded when a model follows from it; what stands in the way for good fails the round -------------


EARLY, LAST_CALL = 52, DEADLINES.recover_end - 2
ABSENT = NotFound(cid_of(b"update"), "nobody has it")


def lack(client=2, owner_lied=False):
    return TooFewShares("too few shares", client, owner_lied=owner_lied)


class Recovering:
    """A round of three whose masking is said to go as given; ``groups`` are leaf positions.

    ``released`` is what the ledger lists, ``read`` what the store has of it.
    """

    def __init__(
        self,
        patch,
        unsafe=None,
        overspent="",
        lost=(),
        lacks=(),
        outcome="model",
        groups=(),
        released=(1, 2),
        read=None,
    ):
        self.events, lacks = Events(), list(lacks)
        read = released if read is None else read
        self.current = entry_with(draws=(1, 2, 3), commits=(1, 2, 3), releases=released)

        def recovered(inputs, shares, left_out):
            if lacks:
                raise lacks.pop(0)
            return SimpleNamespace(to_bytes=lambda: b"record", left_out=frozenset(left_out))

        patch.setattr(summing, "needed_secrets", self._raising(unsafe))
        patch.setattr(summing, "released_shares", lambda inputs: dict.fromkeys(read, b""))
        patch.setattr(summing, "unavailable_updates", lambda *_: list(lost))
        patch.setattr(summing, "unavailable", lambda store, digests, sizes: list(digests))
        patch.setattr(summing, "recovered", recovered)
        patch.setattr(summing, "overspent", lambda method, inputs: overspent)
        graph = SimpleNamespace(groups=groups, client=lambda position: position + 1)
        inputs = SimpleNamespace(current=self.current, graph=graph, sharers=None, survivors=None)
        self.context = context_with(
            self.events,
            view_at(EARLY),
            inputs=lambda current: inputs,
            outcomes=SimpleNamespace(of=self.events.noting("outcome", outcome)),
            method=SimpleNamespace(codec=SimpleNamespace(expected_bytes=lambda inputs, client: 1)),
        )

    @staticmethod
    def _raising(fault):
        def call(*_):
            if fault is not None:
                raise fault

        return call

    def act(self, block=EARLY):
        return RecordRecovery(self.context).act(turn_at(block, self.current))

    def reason(self):
        """Why the round failed, and the evidence."""
        ((_, _, reason, digest),) = [event for event in self.events if event[0] == "fail"]
        return reason, self.context.store.fetch(digest, 1000)


@pytest.fixture
def recovering(monkeypatch):
    return lambda **options: Recovering(monkeypatch, **options)


def test_a_recovery_is_recorded_after_a_model_was_computed_from_it(recovering):
    recovering = recovering()
    assert recovering.act().acted == "recovered with 3 survivors"
    assert recovering.events.names() == ["outcome", "put", "recover"]
    assert recovering.events[-1] == ("recover", 1, cid_of(b"record").digest)


@pytest.mark.parametrize(
    ("options", "reason", "evidence"),
    [
        ({"unsafe": MaskingRefused("one is left")}, FailureReason.TOO_FEW_SURVIVORS, b"one is left"),
        ({"overspent": "client 2 has spent"}, FailureReason.TOO_FEW_SURVIVORS, b"client 2 has spent"),
        ({"lost": [1]}, FailureReason.UPDATE_UNAVAILABLE, b'"clients":[2]'),
        ({"lacks": [lack(owner_lied=True)]}, FailureReason.TOO_FEW_SHARES, b"too few shares"),
        ({"outcome": InvalidUpdate("client 1: it is short", 1)}, FailureReason.INVALID_UPDATE, b"client 1"),
    ],
)
def test_what_no_waiting_helps_against_fails_the_round_at_once(recovering, options, reason, evidence):
    recovering = recovering(**options)
    assert recovering.act().acted == f"recorded the round as failed: {reason.name.lower()}"
    found, data = recovering.reason()
    assert found == reason and evidence in data and "recover" not in recovering.events.names()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"lacks": [lack()]}, FailureReason.TOO_FEW_SHARES),
        ({"outcome": ABSENT}, FailureReason.UPDATE_UNAVAILABLE),
    ],
)
def test_what_may_still_come_is_waited_for_until_the_last_call(recovering, options, reason):
    waiting = recovering(**options)
    step = waiting.act(LAST_CALL - 1)
    assert (step.phase, step.until, step.acted) == ("recover", DEADLINES.recover_end, "")
    failed = recovering(**options)
    failed.act(LAST_CALL)
    assert failed.reason()[0] == reason


@pytest.mark.parametrize(
    ("options", "content"),
    [({"lacks": [lack()]}, False), ({"lacks": [lack()], "read": (1,)}, True), ({"outcome": ABSENT}, True)],
    ids=["not listed", "not published", "no update"],
)
def test_it_says_when_it_waits_for_content_that_the_ledger_lists(recovering, options, content):
    assert (recovering(**options).act().kind is Kind.FETCHES) is content


def test_when_everybody_has_released_nothing_more_can_come(recovering):
    recovering = recovering(lacks=[lack()], released=(1, 2, 3))
    recovering.act()
    assert recovering.reason()[0] == FailureReason.TOO_FEW_SHARES


def test_a_group_that_lacks_an_update_is_left_out_and_the_others_are_summed(recovering):
    recovering = recovering(lost=[0], groups=((0, 1), (2,)))
    assert recovering.act().acted == "recovered with 3 survivors, leaving out 1 groups"


def test_a_group_that_lacks_shares_is_left_out_only_when_none_can_come(recovering):
    groups = ((0, 1), (2,))
    assert not recovering(lacks=[lack(client=3)], groups=groups).act(LAST_CALL - 1).acted
    assert "leaving out 1 groups" in recovering(lacks=[lack(client=3)], groups=groups).act(LAST_CALL).acted
    assert "leaving out 1 groups" in recovering(lacks=[lack(client=3, owner_lied=True)], groups=groups).act().acted


# --- A recovered round is closed with its model and metrics, or fails for what somebody recorded ----------------------


BLOCK = 62


class Closing:
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
def closing(monkeypatch):
    return lambda **options: Closing(monkeypatch, **options)


def test_model_and_metrics_are_in_the_store_before_their_digests_are_on_the_ledger(closing):
    closing = closing()
    assert closing.act().acted == "closed the round at accuracy 0.875"
    assert closing.events.names() == ["outcome", "put", "put", "close"]
    _, number, model, metrics = closing.events[-1]
    assert (number, model) == (1, cid_of(b"model bytes").digest)
    stated = Metrics.from_bytes(closing.context.store.fetch(metrics, 1 << 16))
    assert (stated.round, stated.accuracy, stated.loss, stated.samples) == (1, 0.875, 0.5, 10)


def test_the_metrics_name_the_block_of_the_recovery(closing):
    closing = closing()
    closing.act()
    stated = Metrics.from_bytes(closing.context.store.fetch(closing.events[-1][-1], 1 << 16))
    assert stated.head == (55, bytes([55] * 32).hex())


def test_without_test_data_no_accuracy_is_claimed(closing):
    assert closing(samples=0).act().acted == "closed the round"


def test_a_model_that_a_task_cannot_evaluate_is_closed_with(closing):
    """A member may have poisoned it for that."""

    def raising(model):
        raise TaskFailed("the task raised ValueError: input contains NaN")

    closing = closing()
    closing.context.aides.evaluate = raising
    told = "closed the round, whose model could not be evaluated (the task raised ValueError: input contains NaN)"
    assert closing.act().acted == told
    stated = Metrics.from_bytes(closing.context.store.fetch(closing.events[-1][-1], 1 << 16))
    assert (stated.accuracy, stated.loss, stated.samples) == (None, 0.0, 0)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"recovery": InvalidContent("it is junk")}, FailureReason.INVALID_RELEASE),
        ({"outcome": InvalidUpdate("it is short", 1)}, FailureReason.INVALID_UPDATE),
    ],
)
def test_what_no_model_follows_from_fails_the_round(closing, options, reason):
    closing = closing(**options)
    assert closing.act().acted == f"recorded the round as failed: {reason.name.lower()}"
    assert "close" not in closing.events.names() and closing.events[-1][2] == reason


def test_a_round_that_needs_a_statement_is_left_to_who_can_make_it(closing):
    closing = closing(fault="it lacks a statement")
    step = closing.act()
    assert (step.phase, step.until) == ("close", DEADLINES.close_end) and "it lacks a statement" in step.waiting
    assert closing.events.names() == ["outcome"]


def test_what_is_told_of_the_members_metrics_is_what_they_are():
    nothing, void = MembersMetrics(0, {}), MembersMetrics(0, {}, void="they add up to less than nothing")
    found = of_sums(MetricSums.measured(4, {"right": 3, "loss": 2.0, "squared_loss": 2.0}))
    assert [summing._said_of(members) for members in (None, nothing)] == ["", ""]
    assert summing._said_of(void) == "; the members' metrics are void, as they add up to less than nothing"
    assert (
        summing._said_of(found)
        == "; the members found accuracy 0.7500, loss 0.5000 ± 0.2500 on 4 samples, for the model before it"
    )
