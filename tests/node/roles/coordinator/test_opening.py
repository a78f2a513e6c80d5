"""Between rounds and up to the order."""

from types import SimpleNamespace

import pytest

from fedgrove.chain.face.ledger import MAX_BARRED
from fedgrove.chain.records import SeedFixed
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.roles.coordinator import opening
from fedgrove.node.roles.coordinator.opening import Open, SealOrder
from tests.node.roles.fakes import DEADLINES, Events, context_with, entry_with, turn_at, view_at

# --- A round is opened from the model that stands, when it is due and one can follow ----------------------------------


FIRST, STANDING = b"first model", b"d" * 32


@pytest.fixture(autouse=True)
def still(monkeypatch):
    """Why the federation stands still."""
    said = SimpleNamespace(reason="")
    monkeypatch.setattr(opening, "standstill", lambda rounds, config, number: said.reason)
    return said


class Opening:
    """Members that are active from the given blocks on; the next round is due at a block."""

    def __init__(self, active_from=(0, 0, 0), due=0, over="", pause=0):
        self.events = Events()
        members = {number: SimpleNamespace(active_from=block) for number, block in enumerate(active_from)}
        rounds = SimpleNamespace(
            members=members,
            model_digest=STANDING,
            latest=SimpleNamespace(number=6),
            in_vain=2,
            pause=lambda window: pause * window,
        )
        view = view_at(
            80,
            settings={"draw_window": 10},
            rounds=rounds,
            barred=lambda number: [f"account barred from round {number}"],
        )
        self.context = context_with(
            self.events,
            view,
            members=3,
            initial_model=FIRST,
            config=SimpleNamespace(to_bytes=lambda: b"terms"),
            method=SimpleNamespace(schedule=SimpleNamespace(due=lambda rounds, model, block: due)),
            over=lambda: over,
        )
        self.unit = Open(self.context)


def ended_at(block):
    return entry_with(end=SimpleNamespace(at=SimpleNamespace(block=block)))


def test_the_first_round_starts_from_the_initial_model():
    place = Opening()
    assert place.unit.first().acted == "opened a round"
    assert place.events == [
        ("put", FIRST),
        ("put", b"terms"),
        ("open", cid_of(FIRST).digest, ["account barred from round 7"]),
    ]


def test_the_first_round_waits_for_members_that_are_active_when_it_opens():
    assert Opening(active_from=(0, 0, 81)).unit.first().acted
    place = Opening(active_from=(0, 0, 82))
    assert place.unit.first().waiting == "members to register: 2 of the 3 needed are active" and not place.events


def test_the_next_round_starts_from_the_model_that_stands():
    place = Opening(due=80)
    assert place.unit.act(turn_at(80, ended_at(80))).acted == "opened a round"
    assert place.events[-1] == ("open", STANDING, ["account barred from round 7"])


@pytest.mark.parametrize(
    ("place", "phase", "until"),
    [({"due": 81}, "open", 81), ({"due": None}, "idle", 0), ({"over": "all rounds have ended"}, "done", 0)],
)
def test_no_round_is_opened_that_is_not_due_or_cannot_follow(place, phase, until):
    place = Opening(**place)
    step = place.unit.act(turn_at(80, entry_with()))
    assert (step.phase, step.until, step.acted) == (phase, until, "") and not place.events


def test_after_rounds_in_vain_it_waits():
    place = Opening(pause=2)
    step = place.unit.act(turn_at(80, ended_at(70)))
    assert (step.phase, step.until) == ("open", 90) and "2 rounds in a row" in step.waiting and not place.events
    assert place.unit.act(turn_at(90, ended_at(70))).acted == "opened a round"


def test_where_the_federation_stands_still_it_waits_for_people(still):
    still.reason = "it stands still: all its members together have a member that spoils"
    place = Opening()
    step = place.unit.act(turn_at(80, entry_with()))
    assert (step.phase, step.waiting, step.until) == ("open", f"people: {still.reason}", 0) and not place.events


def test_no_more_are_listed_than_an_opening_takes():
    place = Opening()
    place.context.view.barred = lambda number: [str(account) for account in range(MAX_BARRED + 1)]
    place.unit.act(turn_at(80, ended_at(80)))
    assert len(place.events[-1][-1]) == MAX_BARRED


def test_why_no_round_follows_is_said():
    step = Opening(over="the privacy budget is spent").unit.act(turn_at(80, entry_with()))
    assert step.waiting == "nobody: the privacy budget is spent"


# --- The seed is fixed once, draws are waited for, and the order is sealed when its block is confirmed ----------------


SEED, WINDOW_END = object(), 16


class TwoTickets(RoundRecords):
    """A round whose draws have these tickets."""

    tickets = (5, 6)


def sealing(block, draws=(), seed=SEED, may_skip=False):
    """A round that members 1, 2 and 4 may draw in, whose window for draws ends with that of the fakes."""
    events = Events()
    opened = SimpleNamespace(round=1, opened_at=DEADLINES.opened_at)
    current = TwoTickets(opened, (1, 2, 4), once={SeedFixed: seed} if seed else {})
    current.draws.update(dict.fromkeys(draws))
    settings = {"seed_delay": DEADLINES.seed_block, "draw_window": WINDOW_END - DEADLINES.seed_block}
    context = context_with(events, view_at(block, settings=settings), may_skip=lambda current: may_skip)
    return SealOrder(context).act(turn_at(block, current)), events


def test_it_waits_for_the_seed_block():
    step, events = sealing(DEADLINES.seed_block - 1, seed=None)
    assert (step.phase, step.until) == ("seeding", DEADLINES.seed_block) and not events


@pytest.mark.parametrize("block", [DEADLINES.seed_block, DEADLINES.draw_end - 1])
def test_the_seed_is_fixed_once(block):
    step, events = sealing(block, seed=None)
    assert step.acted == "fixed the seed" and events == [("fix_seed", 1)]
    assert not sealing(block)[1]


def test_in_the_window_it_waits_for_all_members_that_may_draw():
    step, _ = sealing(15, draws=(1,))
    assert (step.phase, step.waiting, step.until) == ("draw", "clients 2, 4 to draw", WINDOW_END)


@pytest.mark.parametrize(
    ("may_skip", "done", "events"), [(False, "", []), (True, "skipped the round: 1 drawn", [("skip", 1)])]
)
def test_after_the_window_a_round_waits_for_its_quorum_but_where_others_may_draw_in_the_next(may_skip, done, events):
    step, found = sealing(WINDOW_END, draws=(1,), may_skip=may_skip)
    assert (step.acted, found) == (done, events)
    if not done:
        assert step.waiting == "clients 2, 4 to draw: 1 of the 3 needed have" and step.until == DEADLINES.draw_end


def test_a_round_below_the_quorum_is_skipped_when_no_more_draws_are_taken():
    step, events = sealing(DEADLINES.draw_end, draws=(1, 2))
    assert step.acted == "skipped the round: 2 drawn" and events == [("skip", 1)]


def test_the_order_is_sealed_only_after_its_block():
    step, events = sealing(DEADLINES.order_block - 1, draws=(1, 2, 3))
    assert (step.phase, step.until) == ("seal", DEADLINES.order_block) and not events
    step, events = sealing(DEADLINES.order_block, draws=(1, 2, 3))
    assert step.acted == "sealed the order of 3" and events == [("seal", 1, (5, 6), DEADLINES.order_block)]
