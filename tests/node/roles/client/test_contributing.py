"""A client contributes: shares, commitment, masked update, each in the journal before anybody sees it."""

from types import SimpleNamespace

import pytest

from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.client import MaskingRefused
from fedgrove.node.protocol.local_work import BeginsAnew, CannotTakePart, StateLost
from fedgrove.node.protocol.step import Kind, Step
from fedgrove.node.roles.client.contributing import Commit, Publish, PublishShares
from tests.node.roles.fakes import DEADLINES, ME, Events, client_turn_at, context_with, entry_with

# --- A client's sealed shares are in the journal, then in the store, then on the ledger -------------------------------


def shared(**options):
    events = Events()
    disclosure = SimpleNamespace(shares=events.noting("journal", b"sealed"))
    unit = PublishShares(context_with(events, disclosure=disclosure, **options))
    return unit.act(client_turn_at(35, entry_with(draws=(ME, 2)))), events


def test_shares_are_made_then_published_then_listed():
    step, events = shared()
    assert (step.phase, step.acted) == ("share", "shared")
    assert events.names() == ["journal", "put", "share"]
    assert events[-1] == ("share", 1, cid_of(b"sealed").digest)


def test_a_client_whose_shares_the_ledger_refuses_sits_out():
    step, _ = shared(refuses=("share",))
    assert step.phase == "sit out" and "too late" in step.waiting


# --- A client commits to what its journal has, once, and only when the list of shares is final ------------------------


class Committing:
    """A client whose training comes to ``result``."""

    def __init__(self, result="update", masked=b"masked", slots=0, refuses=()):
        self.events = Events()
        codec = SimpleNamespace(
            remark=lambda round_number, update: "",
            caution=lambda round_number, update: "",
            detail=lambda update: "what it quotes",
        )
        self.context = context_with(
            self.events,
            refuses=refuses,
            config=SimpleNamespace(commit_slots=slots),
            inputs=lambda current: None,
            method=SimpleNamespace(codec=codec),
            work=SimpleNamespace(result=self.events.noting("train", result)),
            disclosure=SimpleNamespace(
                masked=self.events.noting("journal", masked),
                secrets=lambda number: SimpleNamespace(seed_hash=b"h" * 32),
                confirm_commit=self.events.noting("confirmed"),
            ),
        )
        self.unit = Commit(self.context)

    def act(self, block=45, number=1):
        return self.unit.act(client_turn_at(block, entry_with(number, draws=(ME, 2), shares=(ME,))))


def test_the_masked_update_is_in_the_journal_before_the_ledger_has_its_digest():
    place = Committing()
    step = place.act()
    assert (step.phase, step.acted) == ("commit", "committed")
    assert place.events.names() == ["train", "journal", "commit", "confirmed"]
    assert place.events[2] == ("commit", 1, cid_of(b"masked").digest, b"h" * 32)


def test_the_update_itself_stays_at_home():
    place = Committing()
    place.act()
    assert "put" not in place.events.names()


def test_nothing_is_masked_before_the_list_of_shares_is_final():
    place = Committing()
    step = place.act(block=DEADLINES.share_end - 1)
    assert (step.phase, step.waiting, step.until) == ("share", "client 2 to share", DEADLINES.share_end)
    assert place.events.names() == ["train"]


def test_while_it_trains_it_waits_for_itself():
    step = Committing(result=None).act()
    assert step.phase == "train" and step.kind is Kind.WORKS and step.until == DEADLINES.commit_end


@pytest.mark.parametrize("place", [{"result": CannotTakePart("no data")}, {"masked": MaskingRefused("no data")}])
def test_what_cannot_be_done_is_not_tried_again_in_that_round(place):
    place = Committing(**place)
    first = place.act()
    assert (first.phase, first.waiting) == ("sit out", "this client: no data")
    tried = len(place.events)
    assert place.act() == first and len(place.events) == tried
    place.act(number=2)
    assert len(place.events) > tried and "commit" not in place.events.names()


def test_a_lost_state_is_said_and_training_is_tried_again():
    place = Committing(result=StateLost("it cannot be read"))
    assert "trains without it: it cannot be read" in place.act().acted
    place.act()
    assert place.events.names() == ["train", "train"]


@pytest.mark.parametrize("kind", [CannotTakePart, lambda *said: BeginsAnew(CannotTakePart(*said))])
def test_what_a_fault_quotes_is_no_part_of_what_the_client_says(kind):
    step = Committing(result=kind("the task raised ValueError: patient 7", "the task raised ValueError")).act()
    assert "the task raised ValueError" in step.acted + step.waiting
    assert "patient" not in step.acted + step.waiting and "patient 7" in step.detail


# --- Where the terms have slots, a client commits only when one of them ends ------------------------------------------

WINDOW = DEADLINES.commit_end - DEADLINES.share_end
ENDS = [DEADLINES.share_end + slot * WINDOW // 4 for slot in (1, 2, 3)]


@pytest.mark.parametrize("slot", range(3))
def test_it_commits_when_the_slot_ends_in_which_it_was_ready(slot):
    place = Committing(slots=3)
    first = place.act(ENDS[slot - 1] + 1 if slot else DEADLINES.share_end + 1)
    assert (first.phase, first.until) == ("commit", ENDS[slot]) and "commit" not in place.events.names()
    assert place.act(ENDS[slot] - 1).until == ENDS[slot] and "commit" not in place.events.names()
    assert place.act(ENDS[slot]).acted == "committed"


def test_training_that_is_not_ready_when_the_last_slot_ends_has_failed():
    place = Committing(result=None, slots=3)
    assert place.act(ENDS[1]).until == ENDS[2]
    asked = []
    place.context.work.result = lambda current, client, last=False: (
        asked.append(last) or ("unchanged" if last else None)
    )
    assert place.act(ENDS[2]).acted == "committed" and asked == [True]
    assert place.events[1][-1] == "unchanged"


def test_who_comes_when_the_last_slot_has_ended_does_not_commit():
    place = Committing(slots=3)
    place.unit._trained = 1
    assert "the last slot had ended" in place.act(ENDS[2] + 1).waiting


def test_a_commitment_that_the_ledger_refused_is_not_noted_as_confirmed():
    place = Committing(refuses=("commit",))
    assert place.act().phase == "sit out"
    assert "confirmed" not in place.events.names()


# --- A masked update is published once, and then the client goes on to recover ----------------------------------------


UPDATE = b"masked"


@pytest.fixture
def publishing():
    events = Events()
    context = context_with(events, disclosure=SimpleNamespace(published=events.noting("journal", UPDATE)))
    return SimpleNamespace(events=events, context=context, unit=Publish(context))


def listed_turn(number=1):
    current = entry_with(number, draws=(ME,), shares=(ME,), commits=(ME,))
    current.commits[ME].digest = cid_of(UPDATE).digest
    return client_turn_at(45, current)


def test_it_publishes_what_the_journal_has_and_then_recovers(publishing):
    step = publishing.unit.act(listed_turn())
    assert isinstance(step, Step) and (step.phase, step.acted) == ("commit", "published its masked update")
    assert publishing.context.store.has(cid_of(UPDATE).digest)
    assert publishing.unit.act(listed_turn()) is None
    assert publishing.events.names() == ["journal", "put"]


def test_what_was_published_before_a_crash_is_pinned(publishing):
    publishing.context.store.put(UPDATE)
    assert publishing.unit.act(listed_turn()) is None
    assert publishing.context.store.pinned == {cid_of(UPDATE).digest}
    assert "journal" not in publishing.events.names()


def test_each_round_has_an_update_of_its_own(publishing):
    publishing.unit.act(listed_turn(1))
    publishing.context.store.blobs.clear()
    assert isinstance(publishing.unit.act(listed_turn(2)), Step)


def test_without_the_update_that_the_ledger_lists_it_sits_out(publishing):
    publishing.context.disclosure.published = lambda current, client: None
    step = publishing.unit.act(listed_turn())
    assert step.phase == "sit out" and "missing from the journal" in step.waiting
    assert not publishing.context.store.blobs
