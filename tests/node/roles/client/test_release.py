"""A client releases shares when the commitments are final, and publishes only what the ledger lists."""

from types import SimpleNamespace

import pytest

from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.sealing import MaskingRefused
from fedgrove.node.protocol.step import Kind
from fedgrove.node.roles.client.concluding import ReleaseShares
from tests.node.roles.fakes import DEADLINES, ME, Events, client_turn_at, context_with, entry_with, view_at

SHARES = b"released"


class Place:
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
    place = Place()
    step = place.act(block=DEADLINES.commit_end - 1)
    assert (step.phase, step.waiting, step.until) == ("commit", "client 2 to commit", DEADLINES.commit_end)
    assert not place.events


def test_shares_are_in_the_journal_then_on_the_ledger_then_in_the_store():
    place = Place()
    step = place.act()
    assert (step.phase, step.acted) == ("recover", "released shares")
    assert place.events.names() == ["journal", "release", "put"]
    assert place.events[1] == ("release", 1, cid_of(SHARES).digest)


@pytest.mark.parametrize("place", [{"mined": False}, {"mined": False, "refuses": ("release",)}])
def test_what_the_ledger_does_not_list_stays_at_home(place):
    place = Place(**place)
    place.act()
    assert place.events.names() == ["journal", "release"]


def test_what_is_listed_is_published_once_also_after_a_crash():
    place = Place(releases=(ME,))
    assert place.act().acted == "published the shares that it released"
    step = place.act()
    assert (step.phase, step.acted, step.until) == ("close", "", DEADLINES.close_end)
    assert place.events.names() == ["put"]


def test_it_gives_others_half_of_the_window_to_publish():
    place = Place(gone=(2,))
    patience = DEADLINES.commit_end + place.context.view.settings.recover_window // 2
    step = place.act(block=patience - 1)
    assert (step.waiting, step.until) == ("client 2 to publish their committed updates", patience)
    assert step.kind is Kind.FETCHES
    assert not place.events
    assert place.act(block=patience).acted == "released shares"
    assert place.events[0][-1] == [2]


def test_what_would_expose_somebody_is_not_released():
    place = Place(released=MaskingRefused("too few are left"))
    step = place.act()
    assert step.waiting == "the coordinator: this client refuses to release shares, too few are left"
    assert step.until == DEADLINES.recover_end and "release" not in place.events.names()


def test_it_releases_nothing_for_a_round_that_is_overdue():
    place = Place()
    step = place.act(block=DEADLINES.recover_end)
    assert "overdue" in step.waiting and not place.events
