"""A masked update is published once, and then the client goes on to recover."""

from types import SimpleNamespace

import pytest

from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.protocol.step import Step
from fedgrove.node.roles.client.contributing import Publish
from tests.node.roles.fakes import ME, Events, client_turn_at, context_with, entry_with

UPDATE = b"masked"


@pytest.fixture
def place():
    events = Events()
    context = context_with(events, disclosure=SimpleNamespace(published=events.noting("journal", UPDATE)))
    return SimpleNamespace(events=events, context=context, unit=Publish(context))


def turn(number=1):
    current = entry_with(number, draws=(ME,), shares=(ME,), commits=(ME,))
    current.commits[ME].digest = cid_of(UPDATE).digest
    return client_turn_at(45, current)


def test_it_publishes_what_the_journal_has_and_then_recovers(place):
    step = place.unit.act(turn())
    assert isinstance(step, Step) and (step.phase, step.acted) == ("commit", "published its masked update")
    assert place.context.store.has(cid_of(UPDATE).digest)
    assert place.unit.act(turn()) is None
    assert place.events.names() == ["journal", "put"]


def test_what_was_published_before_a_crash_is_pinned(place):
    place.context.store.put(UPDATE)
    assert place.unit.act(turn()) is None
    assert place.context.store.pinned == {cid_of(UPDATE).digest}
    assert "journal" not in place.events.names()


def test_each_round_has_an_update_of_its_own(place):
    place.unit.act(turn(1))
    place.context.store.blobs.clear()
    assert isinstance(place.unit.act(turn(2)), Step)


def test_without_the_update_that_the_ledger_lists_it_sits_out(place):
    place.context.disclosure.published = lambda current, client: None
    step = place.unit.act(turn())
    assert step.phase == "sit out" and "missing from the journal" in step.waiting
    assert not place.context.store.blobs
