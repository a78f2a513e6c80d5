"""A client concludes: it releases shares, and disputes a closing that is wrong."""

from types import SimpleNamespace

import pytest

from fedgrove.chain.crypto import vrf
from fedgrove.chain.crypto.keys import Keys
from fedgrove.ipfs.store import NotFound
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.sealing import MaskingRefused
from fedgrove.node.protocol.step import Kind
from fedgrove.node.roles.client.concluding import Dispute, ReleaseShares, lot
from tests.node.roles.fakes import DEADLINES, ME, Events, client_turn_at, context_with, entry_with, view_at

# --- A client releases shares when the commitments are final, and publishes only what the ledger lists ----------------


SHARES = b"released"


class Releasing:
    """A client in a round of two, both of which committed; the ledger lists its release once it is ``mined``."""

    def __init__(self, gone=(), released=SHARES, mined=True, refuses=(), releases=()):
        self.events = Events()
        self.current = entry_with(draws=(ME, 2), shares=(ME, 2), commits=(ME,), releases=releases)
        if ME in releases:
            self.current.releases[ME].digest = cid_of(SHARES).digest
        self.context = context_with(
            self.events,
            view_at(52, refresh=self._refresh if mined else lambda: None),
            refuses=refuses,
            disclosure=SimpleNamespace(
                unpublished=lambda current, client: list(gone),
                released=self.events.noting("journal", released),
                listed_release=lambda current, client: SHARES,
            ),
        )
        self.unit = ReleaseShares(self.context)

    def _refresh(self):
        if "release" in self.events.names():
            self.current.releases[ME] = SimpleNamespace(digest=cid_of(SHARES).digest)

    def act(self, block=52):
        return self.unit.act(client_turn_at(block, self.current))


def test_it_waits_until_the_list_of_commitments_is_final():
    place = Releasing()
    step = place.act(block=DEADLINES.commit_end - 1)
    assert (step.phase, step.waiting, step.until) == ("commit", "client 2 to commit", DEADLINES.commit_end)
    assert not place.events


def test_shares_are_in_the_journal_then_on_the_ledger_then_in_the_store():
    place = Releasing()
    step = place.act()
    assert (step.phase, step.acted) == ("recover", "released shares")
    assert place.events.names() == ["journal", "release", "put"]
    assert place.events[1] == ("release", 1, cid_of(SHARES).digest)


@pytest.mark.parametrize("place", [{"mined": False}, {"mined": False, "refuses": ("release",)}])
def test_what_the_ledger_does_not_list_stays_at_home(place):
    place = Releasing(**place)
    place.act()
    assert place.events.names() == ["journal", "release"]


def test_what_is_listed_is_published_once_also_after_a_crash():
    place = Releasing(releases=(ME,))
    assert place.act().acted == "published the shares that it released"
    step = place.act()
    assert (step.phase, step.acted, step.until) == ("close", "", DEADLINES.close_end)
    assert place.events.names() == ["put"]


def test_it_gives_others_half_of_the_window_to_publish():
    place = Releasing(gone=(2,))
    patience = DEADLINES.commit_end + place.context.view.settings.recover_window // 2
    step = place.act(block=patience - 1)
    assert (step.waiting, step.until) == ("client 2 to publish their committed updates", patience)
    assert step.kind is Kind.FETCHES
    assert not place.events
    assert place.act(block=patience).acted == "released shares"
    assert place.events[0][-1] == [2]


def test_what_would_expose_somebody_is_not_released():
    place = Releasing(released=MaskingRefused("too few are left"))
    step = place.act()
    assert step.waiting == "the coordinator: this client refuses to release shares, too few are left"
    assert step.until == DEADLINES.recover_end and "release" not in place.events.names()


def test_it_releases_nothing_for_a_round_that_is_overdue():
    place = Releasing()
    step = place.act(block=DEADLINES.recover_end)
    assert "overdue" in step.waiting and not place.events


# --- A client disputes the closed round that it would train from when that is wrong -----------------------------------


class Disputing:
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
    place = Disputing()
    assert place.act() is None and place.events == [("look", place.base, ME)]


def test_before_the_first_round_closed_there_is_nothing_to_look_at():
    place = Disputing(commits=None)
    assert place.act() is None and not place.events


def test_a_wrong_round_is_disputed_with_evidence():
    place = Disputing(fault="its model is not the sum")
    step = place.act()
    assert (step.phase, step.acted) == ("dispute", "disputed round 1: its model is not the sum")
    assert place.events.names() == ["look", "put", "dispute"]
    assert b"not the sum" in place.context.store.fetch(place.events[-1][2], 1000)


def test_a_client_that_did_not_commit_waits_for_those_that_did():
    place = Disputing(fault="its model is not the sum", commits=(2,))
    step = place.act()
    assert "members of round 1: this client refuses its model" in step.waiting
    assert place.events.names() == ["look"]


def test_a_client_that_disputes_a_round_waits_and_looks_no_more():
    place = Disputing(fault="its model is not the sum", disputed=entry_with(1))
    assert "disputes round 1, which is still in force" in place.act().waiting and not place.events


@pytest.mark.parametrize(("number", "end"), [(2, DEADLINES.draw_end), (1, DEADLINES.close_end)])
def test_a_model_that_cannot_be_had_is_waited_for_and_then_refused(number, end):
    place = Disputing(fault=NotFound(cid_of(b"model"), "nobody has it"))
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
