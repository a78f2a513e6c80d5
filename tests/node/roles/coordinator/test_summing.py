"""From the order to the next model."""

from types import SimpleNamespace

import pytest

from fedgrove.ipfs.store import NotFound
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.aggregate import InvalidUpdate
from fedgrove.node.masking.recovery import TooFewShares
from fedgrove.node.methods.training.task_data import TaskFailed
from fedgrove.node.protocol import aggregation
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.members_metrics import MembersMetrics, of_sums
from fedgrove.node.protocol.method import Evaluated
from fedgrove.node.protocol.metric_words import MetricSums
from fedgrove.node.protocol.step import Kind
from fedgrove.node.roles.coordinator import summing
from fedgrove.node.roles.coordinator.summing import AwaitMembers, Close
from tests.node.roles.fakes import DEADLINES, Events, context_with, entry_with, turn_at, view_at

# --- While clients share and commit, the coordinator says for which it waits ------------------------------------------


def test_it_waits_for_the_shares_of_those_that_drew():
    step = AwaitMembers(None).act(turn_at(35, entry_with(draws=(1, 2, 3), shares=(2,))))
    assert (step.phase, step.waiting, step.until) == ("share", "clients 1, 3 to share", DEADLINES.share_end)


def test_it_waits_for_the_commitments_of_those_that_shared():
    step = AwaitMembers(None).act(turn_at(45, entry_with(draws=(1, 2, 3), shares=(1, 2), commits=(2,))))
    assert (step.phase, step.waiting, step.until) == ("commit", "client 1 to commit", DEADLINES.commit_end)


# --- A round is closed with the model that follows from the released shares -------------------------------------------


EARLY, LAST_CALL = 52, DEADLINES.recover_end - 2
ABSENT = NotFound(cid_of(b"update"), "nobody has it")
RECORD = cid_of(b"record").digest


def lack(client=2, owner_lied=False):
    return TooFewShares("too few shares", client, owner_lied=owner_lied)


class Closing:
    """A round of three, all of whom committed, whose masking is said to go as given; ``groups`` are leaf positions.

    ``released`` is what the ledger lists, ``read`` what the store has of it.
    """

    def __init__(
        self,
        patch,
        hopeless=False,
        refused="",
        lost=(),
        lacks=(),
        outcome=None,
        groups=(),
        released=(1, 2),
        read=None,
        samples=10,
        fault="",
    ):
        self.events = Events()
        read, lacks = released if read is None else read, list(lacks)
        self.current = entry_with(draws=(1, 2, 3), commits=(1, 2, 3), releases=released)

        def recovered(inputs, shares, left_out=()):
            if lacks:
                raise lacks.pop(0)
            return SimpleNamespace(to_bytes=lambda: b"record", left_out=frozenset(left_out))

        patch.setattr(summing, "nothing_to_sum", lambda method, inputs: refused)
        patch.setattr(summing, "released_shares", lambda inputs: dict.fromkeys(read, b""))
        patch.setattr(aggregation, "unavailable_updates", lambda *_: list(lost))
        patch.setattr(aggregation, "unavailable", lambda store, digests, sizes: list(digests))
        patch.setattr(aggregation, "recovered", recovered)
        graph = SimpleNamespace(
            groups=[SimpleNamespace(positions=each) for each in groups],
            client=lambda position: position + 1,
            is_whole=not groups,
        )
        lists = {"sharers": None, "survivors": None, "store": None, "bounds": None}
        inputs = SimpleNamespace(current=self.current, graph=graph, **lists)
        outcome = outcome or SimpleNamespace(model="model", privacy=None, members=None, raised=None)
        self.context = context_with(
            self.events,
            view_at(EARLY, law=SimpleNamespace(is_hopeless=lambda current, block: hopeless)),
            inputs=lambda current: inputs,
            outcomes=SimpleNamespace(of=self.events.noting("outcome", outcome)),
            aides=SimpleNamespace(
                statements=lambda round_number, model: None, evaluate=lambda model: Evaluated(0.875, 0.5, samples)
            ),
            method=SimpleNamespace(
                codec=SimpleNamespace(expected_bytes=lambda inputs, client: 1),
                schedule=SimpleNamespace(standing=lambda model, stated: model),
                statement_fault=lambda model, metrics: fault,
                model_bytes=lambda model: b"model bytes",
            ),
        )
        self.context.ledger.block_hash = lambda number: bytes([number]) * 32

    def act(self, block=EARLY):
        return Close(self.context).act(turn_at(block, self.current))

    def stated(self):
        """The metrics that it closed with."""
        return Metrics.from_bytes(self.context.store.fetch(self.events[-1][-1], 1 << 16))


@pytest.fixture
def closing(monkeypatch):
    return lambda **options: Closing(monkeypatch, **options)


def test_record_model_and_metrics_are_in_the_store_before_their_digests_are_on_the_ledger(closing):
    closing = closing()
    assert closing.act().acted == "closed the round of 3 at accuracy 0.875"
    assert closing.events.names() == ["outcome", "put", "put", "put", "close"]
    assert [event[1] for event in closing.events[1:3]] == [b"record", b"model bytes"]
    assert closing.events[-1][1:3] == (1, cid_of(b"model bytes").digest)
    stated = closing.stated()
    assert (stated.round, stated.accuracy, stated.loss, stated.samples) == (1, 0.875, 0.5, 10)


def test_the_metrics_name_the_recovery_record_and_the_block_that_it_was_made_in(closing):
    closing = closing()
    closing.act()
    assert closing.stated().recovery == RECORD.hex()
    assert closing.stated().head == (EARLY, bytes([EARLY] * 32).hex())


def test_a_round_that_no_closing_can_follow_fails_at_once(closing):
    closing = closing(hopeless=True)
    assert closing.act().acted == "recorded the round as failed: 3 of 3 committed"
    assert closing.events == [("fail", 1)]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"refused": "one is left"}, "members to judge that nothing may be summed: one is left"),
        ({"outcome": InvalidUpdate("client 1: it is short", 1)}, "an update cannot be summed, client 1: it is short"),
        ({"lost": [1]}, "the update of client 2 is not available"),
        ({"lacks": [lack(owner_lied=True)]}, "too few shares"),
        ({"lacks": [lack()]}, "too few shares"),
        ({"outcome": ABSENT}, "nobody has it"),
        ({"released": (1,)}, "clients 2, 3 to release shares"),
    ],
    ids=["refused", "invalid update", "lost update", "owner lied", "too few shares", "no update", "too few releases"],
)
def test_where_no_model_follows_it_waits_for_members_and_the_clock(closing, options, reason):
    """Its word alone ends no round."""
    for block in (EARLY, LAST_CALL):
        place = closing(**options)
        step = place.act(block)
        assert (step.phase, step.until, step.acted) == ("recover", DEADLINES.recover_end, "")
        assert reason in step.waiting and not {"fail", "close"} & set(place.events.names())


@pytest.mark.parametrize(
    ("options", "content"),
    [
        ({"lacks": [lack()]}, False),
        ({"lacks": [lack()], "read": (1,)}, True),
        ({"outcome": ABSENT}, True),
    ],
    ids=["not listed", "not published", "no update"],
)
def test_it_says_when_it_waits_for_content_that_the_ledger_lists(closing, options, content):
    assert (closing(**options).act().kind is Kind.FETCHES) is content


def test_a_group_that_lacks_an_update_is_left_out_and_the_others_are_summed(closing):
    step = closing(lost=[0], groups=((0, 1), (2,))).act()
    assert step.acted == "closed the round of 3, leaving out 1 groups at accuracy 0.875"


def test_a_group_that_lacks_shares_is_left_out_only_when_none_can_come(closing):
    groups = ((0, 1), (2,))
    assert not closing(lacks=[lack(client=3)], groups=groups).act(LAST_CALL - 1).acted
    for options, block in (
        ({"lacks": [lack(client=3)]}, LAST_CALL),
        ({"lacks": [lack(client=3, owner_lied=True)]}, EARLY),
        ({"lacks": [lack(client=3)], "released": (1, 2, 3)}, EARLY),
    ):
        assert "leaving out 1 groups" in closing(**options, groups=groups).act(block).acted


def test_without_test_data_no_accuracy_is_claimed(closing):
    assert closing(samples=0).act().acted == "closed the round of 3"


def test_a_model_that_a_task_cannot_evaluate_is_closed_with(closing):
    """A member may have poisoned it for that."""

    def raising(model):
        raise TaskFailed("the task raised ValueError: input contains NaN")

    closing = closing()
    closing.context.aides.evaluate = raising
    told = "whose model could not be evaluated (the task raised ValueError: input contains NaN)"
    assert closing.act().acted == f"closed the round of 3, {told}"
    stated = closing.stated()
    assert (stated.accuracy, stated.loss, stated.samples) == (None, 0.0, 0)


def test_a_round_that_needs_a_statement_is_left_to_who_can_make_it(closing):
    closing = closing(fault="it lacks a statement")
    step = closing.act()
    assert (step.phase, step.until) == ("recover", DEADLINES.recover_end) and "it lacks a statement" in step.waiting
    assert "close" not in closing.events.names()


def test_what_is_told_of_the_members_metrics_is_what_they_are():
    nothing, void = MembersMetrics(0, {}), MembersMetrics(0, {}, void="they add up to less than nothing")
    found = of_sums(MetricSums.measured(4, {"right": 3, "loss": 2.0, "squared_loss": 2.0}))
    assert [summing._said_of(members) for members in (None, nothing)] == ["", ""]
    assert summing._said_of(void) == "; the members' metrics are void, as they add up to less than nothing"
    assert (
        summing._said_of(found)
        == "; the members found accuracy 0.7500, loss 0.5000 ± 0.2500 on 4 samples, for the model before it"
    )
