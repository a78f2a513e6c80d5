"""A recovery is recorded when a model follows from it; what stands in the way for good fails the round."""

from types import SimpleNamespace

import pytest

from fedgrove.chain.records import FailureReason
from fedgrove.ipfs.store import NotFound
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.aggregate import InvalidUpdate
from fedgrove.node.masking.recovery import TooFewShares
from fedgrove.node.masking.survivors import UnsafeSurvivors
from fedgrove.node.protocol.step import Kind
from fedgrove.node.roles.coordinator import summing
from fedgrove.node.roles.coordinator.summing import RecordRecovery
from tests.node.roles.fakes import DEADLINES, Events, context_with, entry_with, turn_at, view_at

EARLY, LAST_CALL = 52, DEADLINES.recover_end - 2
ABSENT = NotFound(cid_of(b"update"), "nobody has it")


def lack(client=2, owner_lied=False):
    return TooFewShares("too few shares", client, owner_lied=owner_lied)


class Place:
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
def place(monkeypatch):
    return lambda **options: Place(monkeypatch, **options)


def test_a_recovery_is_recorded_after_a_model_was_computed_from_it(place):
    place = place()
    assert place.act().acted == "recovered with 3 survivors"
    assert place.events.names() == ["outcome", "put", "recover"]
    assert place.events[-1] == ("recover", 1, cid_of(b"record").digest)


@pytest.mark.parametrize(
    ("options", "reason", "evidence"),
    [
        ({"unsafe": UnsafeSurvivors("one is left")}, FailureReason.TOO_FEW_SURVIVORS, b"one is left"),
        ({"overspent": "client 2 has spent"}, FailureReason.TOO_FEW_SURVIVORS, b"client 2 has spent"),
        ({"lost": [1]}, FailureReason.UPDATE_UNAVAILABLE, b'"clients":[2]'),
        ({"lacks": [lack(owner_lied=True)]}, FailureReason.TOO_FEW_SHARES, b"too few shares"),
        ({"outcome": InvalidUpdate("client 1: it is short", 1)}, FailureReason.INVALID_UPDATE, b"client 1"),
    ],
)
def test_what_no_waiting_helps_against_fails_the_round_at_once(place, options, reason, evidence):
    place = place(**options)
    assert place.act().acted == f"recorded the round as failed: {reason.name.lower()}"
    found, data = place.reason()
    assert found == reason and evidence in data and "recover" not in place.events.names()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"lacks": [lack()]}, FailureReason.TOO_FEW_SHARES),
        ({"outcome": ABSENT}, FailureReason.UPDATE_UNAVAILABLE),
    ],
)
def test_what_may_still_come_is_waited_for_until_the_last_call(place, options, reason):
    waiting = place(**options)
    step = waiting.act(LAST_CALL - 1)
    assert (step.phase, step.until, step.acted) == ("recover", DEADLINES.recover_end, "")
    failed = place(**options)
    failed.act(LAST_CALL)
    assert failed.reason()[0] == reason


@pytest.mark.parametrize(
    ("options", "content"),
    [({"lacks": [lack()]}, False), ({"lacks": [lack()], "read": (1,)}, True), ({"outcome": ABSENT}, True)],
    ids=["not listed", "not published", "no update"],
)
def test_it_says_when_it_waits_for_content_that_the_ledger_lists(place, options, content):
    assert (place(**options).act().kind is Kind.FETCHES) is content


def test_when_everybody_has_released_nothing_more_can_come(place):
    place = place(lacks=[lack()], released=(1, 2, 3))
    place.act()
    assert place.reason()[0] == FailureReason.TOO_FEW_SHARES


def test_a_group_that_lacks_an_update_is_left_out_and_the_others_are_summed(place):
    place = place(lost=[0], groups=((0, 1), (2,)))
    assert place.act().acted == "recovered with 3 survivors, leaving out 1 groups"


def test_a_group_that_lacks_shares_is_left_out_only_when_none_can_come(place):
    groups = ((0, 1), (2,))
    assert not place(lacks=[lack(client=3)], groups=groups).act(LAST_CALL - 1).acted
    assert "leaving out 1 groups" in place(lacks=[lack(client=3)], groups=groups).act(LAST_CALL).acted
    assert "leaving out 1 groups" in place(lacks=[lack(client=3, owner_lied=True)], groups=groups).act().acted
