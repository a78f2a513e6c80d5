"""A client disputes the closed round that it would train from when that is wrong."""

from types import SimpleNamespace

import pytest

from fedgrove.chain.crypto import vrf
from fedgrove.chain.crypto.keys import Keys
from fedgrove.ipfs.store import NotFound
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.roles.client.concluding import Dispute, lot
from tests.node.roles.fakes import DEADLINES, ME, Events, client_turn_at, context_with, entry_with, view_at


class Place:
    """A round that closed, and of which ``fault`` is said; ``disputed`` is one that this client disputes already."""

    def __init__(self, fault="", commits=(ME, 2), disputed=None):
        self.events = Events()
        self.base = entry_with(1, draws=(ME, 2), commits=commits) if commits is not None else None
        rounds = SimpleNamespace(base=self.base, disputed_by=lambda client: disputed)
        closings = SimpleNamespace(fault=self.events.noting("look", fault))
        self.context = context_with(self.events, view_at(5, rounds=rounds), closings=closings)

    def act(self, block=5, number=2):
        return Dispute(self.context).act(client_turn_at(block, entry_with(number)))


def test_a_round_that_is_right_is_no_reason_to_stop():
    place = Place()
    assert place.act() is None and place.events == [("look", place.base, ME)]


def test_before_the_first_round_closed_there_is_nothing_to_look_at():
    place = Place(commits=None)
    assert place.act() is None and not place.events


def test_a_wrong_round_is_disputed_with_evidence():
    place = Place(fault="its model is not the sum")
    step = place.act()
    assert (step.phase, step.acted) == ("dispute", "disputed round 1: its model is not the sum")
    assert place.events.names() == ["look", "put", "dispute"]
    assert b"not the sum" in place.context.store.fetch(place.events[-1][2], 1000)


def test_a_client_that_did_not_commit_waits_for_those_that_did():
    place = Place(fault="its model is not the sum", commits=(2,))
    step = place.act()
    assert "members of round 1: this client refuses its model" in step.waiting
    assert place.events.names() == ["look"]


def test_a_client_that_disputes_a_round_waits_and_looks_no_more():
    place = Place(fault="its model is not the sum", disputed=entry_with(1))
    assert "disputes round 1, which is still in force" in place.act().waiting and not place.events


@pytest.mark.parametrize(("number", "end"), [(2, DEADLINES.draw_end), (1, DEADLINES.close_end)])
def test_a_model_that_cannot_be_had_is_waited_for_and_then_refused(number, end):
    place = Place(fault=NotFound(cid_of(b"model"), "nobody has it"))
    with pytest.raises(NotFound):
        place.act(block=end - 1, number=number)
    step = place.act(block=end, number=number)
    assert step.acted.startswith("disputed round 1: ") and "nobody has it" in step.acted


def test_a_lot_is_a_clients_own_and_one_for_each_closing():
    ends = [SimpleNamespace(round=number, model_digest=bytes(32), metrics_digest=bytes(32)) for number in (1, 2)]
    keys = [Keys.generate() for _ in range(2)]
    lots = {lot(own, end) for own in keys for end in ends}
    assert len(lots) == 4 and all(0 <= each < 1 for each in lots)
    assert lot(keys[0], ends[0]) in lots


def test_a_lot_is_the_first_eight_bytes_of_the_output_as_a_fraction(monkeypatch):
    end = SimpleNamespace(round=1, model_digest=bytes(32), metrics_digest=bytes(32))
    monkeypatch.setattr(vrf, "proof_to_hash", lambda proof: bytes([0xC0]) + bytes(63))
    assert lot(Keys.generate(), end) == 0.75
