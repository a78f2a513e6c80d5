"""A client's sealed shares are in the journal, then in the store, then on the ledger."""

from types import SimpleNamespace

from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.roles.client.contributing import PublishShares
from tests.node.roles.fakes import ME, Events, client_turn_at, context_with, entry_with


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
