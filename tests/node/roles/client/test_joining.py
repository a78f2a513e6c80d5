"""A client joins a round: it draws once, and leaves where too few of the members it knows have drawn."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from fedgrove.chain.crypto import tree, vrf
from fedgrove.chain.crypto.keys import Keys
from fedgrove.node.protocol.local_work import CannotTakePart
from fedgrove.node.roles.client import joining
from fedgrove.node.roles.client.joining import Draw, reason_to_leave, resume
from tests.node.roles.fakes import DEADLINES, ME, Events, client_turn_at, context_with, entry_with, view_at

# --- A client draws its lot once, in time, and has its secrets in the journal first -----------------------------------


SECRETS = SimpleNamespace(mask_key=b"m" * 32, seal_key=b"s" * 32)


@pytest.fixture(autouse=True)
def still(monkeypatch):
    """Why the federation stands still."""
    said = SimpleNamespace(reason="")
    monkeypatch.setattr(joining, "standstill", lambda rounds, config, number, released: said.reason)
    return said


class Drawing:
    """A client that may draw, unless something is changed."""

    def __init__(self, samples=60, weighs=True, waiting="", barred="", refusal="", refuses=()):
        self.events, self.key = Events(), Keys.generate()
        view = view_at(
            15,
            rounds=None,
            law=SimpleNamespace(barred=lambda member, current: barred),
            seed=lambda current: bytes(32),
        )
        self.context = context_with(
            self.events,
            view,
            refuses,
            config=None,
            keys=self.key,
            duplicates=SimpleNamespace(waiting=lambda *_: waiting),
            journal=SimpleNamespace(uploads=lambda: (), releases=lambda: ()),
            spending=lambda: SimpleNamespace(refusal=lambda *_: refusal),
            disclosure=SimpleNamespace(secrets=self.events.noting("secrets", SECRETS)),
            method=SimpleNamespace(codec=SimpleNamespace(weighs_samples=weighs)),
            work=SimpleNamespace(samples=self.events.noting("samples", samples)),
        )

    def act(self, block=15, active_from=0, rate=1_000_000, listed=False, **parts):
        current = entry_with(**parts)
        current.opened.sampling_rate = rate
        turn = client_turn_at(block, current, active_from)
        current.opened.barred = (turn.member.account,) if listed else ()
        x, y = vrf.coordinates(self.key.vrf_public)
        return Draw(self.context).act(replace(turn, member=replace(turn.member, vrf_x=x, vrf_y=y)))


def test_it_waits_for_the_seed_block():
    place = Drawing()
    step = place.act(block=9)
    assert (step.phase, step.until) == ("seeding", DEADLINES.seed_block) and not place.events


def test_its_secrets_are_in_the_journal_before_the_ledger_has_its_keys():
    place = Drawing()
    step = place.act()
    assert (step.phase, step.acted) == ("draw", "drew")
    assert place.events.names() == ["secrets", "samples", "draw"]
    _, number, keys, _, mask_key, seal_key, samples = place.events[-1]
    assert (number, keys, samples) == (1, place.context.keys, 60)
    assert (mask_key, seal_key) == (SECRETS.mask_key, SECRETS.seal_key)


def test_a_client_outside_the_sample_makes_no_secrets(monkeypatch):
    monkeypatch.setattr(tree, "is_drawn", lambda beta, rate: rate > 500_000)
    place = Drawing()
    step = place.act(rate=500_000)
    assert "not in the round's sample" in step.waiting and not place.events
    assert place.act(rate=500_001).acted == "drew"


def test_it_states_one_sample_where_all_weigh_the_same():
    place = Drawing(weighs=False)
    place.act()
    assert place.events.names() == ["secrets", "draw"] and place.events[-1][-1] == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"block": 20}, "did not draw in time"),
        ({"sealed": object()}, "did not draw in time"),
        ({"active_from": 1}, "active from the next round"),
    ],
)
def test_it_sits_out_what_it_has_no_part_in_and_makes_no_secrets(changes, reason):
    place = Drawing()
    step = place.act(**changes)
    assert step.phase == "sit out" and reason in step.waiting and step.until == DEADLINES.recover_end
    assert not place.events


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"waiting": "its journal is new"}, "this client: its journal is new"),
        ({"barred": "the client was not approved"}, "this client: the client was not approved"),
        ({"refusal": "the budget is spent"}, "this client: the budget is spent"),
    ],
)
def test_it_sits_out_what_it_must_not_join_and_makes_no_secrets(changes, reason):
    place = Drawing(**changes)
    step = place.act()
    assert (step.phase, step.waiting) == ("sit out", reason) and not place.events


def test_where_the_federation_stands_still_nobody_draws(still):
    still.reason = "it stands still: each of the cells {1, 2}, {3, 4} holds a member that spoils"
    place = Drawing()
    step = place.act()
    assert (step.phase, step.waiting) == ("sit out", f"people: {still.reason}") and not place.events


def test_a_client_with_nothing_to_upload_does_not_draw():
    place = Drawing(samples=CannotTakePart("it has no data left"))
    assert place.act().waiting == "this client: it has no data left"
    assert "draw" not in place.events.names()


def test_it_pays_for_no_draw_with_a_key_that_the_ledger_does_not_have():
    place = Drawing()
    place.key = Keys.generate()
    step = place.act()
    assert "the ledger has another VRF key" in step.waiting and not place.events


# --- A client that an opening listed as idle is there again in the next round -----------------------------------------


def registered(place, active_from=0):
    """The ledger's latest word of the client; the view may lag behind."""
    place.context.ledger.client_of = lambda account: SimpleNamespace(active_from=active_from)
    return place


def test_a_listed_client_takes_part_again_instead_of_drawing():
    place = registered(Drawing())
    assert (place.act(listed=True).phase, place.events) == ("resume", [("resume",)])


@pytest.mark.parametrize("active_from", [{"seen": 16}, {"known": 16}], ids=["confirmed", "mined"])
def test_a_listed_client_takes_part_again_once(active_from):
    place = registered(Drawing(barred="the client was idle when the round opened"), active_from.get("known", 0))
    step = place.act(listed=True, active_from=active_from.get("seen", 0))
    assert step.phase == "sit out" and not place.events


def test_a_resumption_that_the_ledger_refuses_is_not_paid_for_again():
    place = registered(Drawing(refuses=("resume",)))
    assert [place.act(listed=True).phase for _ in range(2)] == ["sit out"] * 2
    assert place.events.names() == ["resume"]


def test_a_client_that_may_not_draw_for_another_reason_does_not_resume():
    place = registered(Drawing())
    current = entry_with()
    turn = client_turn_at(15, current)
    current.opened.barred = (turn.member.account,)
    for change in ({"left": True}, {"approved": False, "revoked_at": -1}, {"active_from": 1}):
        assert resume(place.context, replace(turn, member=replace(turn.member, **change))) is None
    assert not place.events


# --- A client that has drawn leaves a round that too few of the members it knows have joined --------------------------


@pytest.fixture
def attendance(monkeypatch):
    """What is said of the attendance in the round."""
    said = SimpleNamespace(fault="")
    monkeypatch.setattr(joining, "attendance_fault", lambda rounds, current, config: said.fault)
    return said


def leaves(current, note=True):
    journal = SimpleNamespace(note=lambda number: note)
    context = context_with(Events(), view_at(35, rounds=None), journal=journal, config=None)
    return reason_to_leave(context, client_turn_at(35, current))


def test_without_its_journal_it_can_do_nothing(attendance):
    for sealed in (None, object()):
        assert "journal of the round is missing" in leaves(entry_with(draws=(ME,), sealed=sealed), note=None)


def test_it_looks_at_who_drew_once_the_order_is_sealed(attendance):
    attendance.fault = "only 2 of 8 are there"
    assert leaves(entry_with(draws=(ME,))) == ""
    refused = leaves(entry_with(draws=(ME,), sealed=object()))
    assert refused == "its members: this client refuses the round, only 2 of 8 are there"


def test_it_stays_where_enough_have_drawn(attendance):
    assert leaves(entry_with(draws=(ME,), sealed=object())) == ""


def test_it_stays_once_it_has_committed(attendance):
    attendance.fault = "only 2 of 8 are there"
    assert leaves(entry_with(draws=(ME,), sealed=object(), shares=(ME,), commits=(ME,))) == ""
