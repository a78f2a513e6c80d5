"""Between rounds and up to the order."""

from types import SimpleNamespace

import pytest

from fedgrove.chain.face.ledger import MAX_REPORT
from fedgrove.chain.records import Closed, SeedFixed
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.roles.coordinator.opening import Open, ReportAbsences, SealOrder
from tests.node.roles.fakes import DEADLINES, Events, context_with, entry_with, turn_at, view_at

# --- Clients that drew and did not commit are reported once, and only of a round that stands --------------------------


CLOSED = object.__new__(Closed)


def closed(order=(1, 2, 3), commits=(2,), **parts):
    return entry_with(draws=order, commits=commits, **{"end": CLOSED, **parts})


@pytest.fixture
def reporting():
    def made(refuses=()):
        events = Events()
        members = {client: SimpleNamespace(account=f"account {client}") for client in range(1, MAX_REPORT + 10)}
        view = view_at(80, rounds=SimpleNamespace(members=members))
        context = context_with(events, view, refuses)
        return SimpleNamespace(events=events, unit=ReportAbsences(context))

    return made


def test_all_of_the_order_without_a_commitment_are_reported(reporting):
    reporting = reporting()
    step = reporting.unit.act(turn_at(80, closed()))
    assert (step.phase, step.acted) == ("open", "reported absent: clients 1, 3")
    assert reporting.events == [("report_absences", 1, ["account 1", "account 3"])]


@pytest.mark.parametrize(
    "current",
    [
        closed(commits=(1, 2, 3)),
        closed(absences={1}),
        closed(voided=object()),
        closed(end=object()),
        closed(order=tuple(range(1, MAX_REPORT + 3)), commits=(1,)),
    ],
    ids=["nobody is absent", "reported already", "void", "failed", "too many to report"],
)
def test_a_round_without_anything_to_report_leads_to_the_next(reporting, current):
    reporting = reporting()
    assert reporting.unit.act(turn_at(80, current)) is None and not reporting.events


def test_as_many_as_a_report_may_name_are_reported(reporting):
    assert reporting().unit.act(turn_at(80, closed(order=tuple(range(1, MAX_REPORT + 2)), commits=(1,)))).acted


def test_a_report_that_the_ledger_refuses_does_not_hold_up_training(reporting):
    reporting = reporting(refuses=("report_absences",))
    step = reporting.unit.act(turn_at(80, closed()))
    assert "absences were not reported" in step.waiting and "too late" in step.waiting and step.until == 81
    assert reporting.unit.act(turn_at(81, closed())) is None
    assert len(reporting.events) == 1


# --- A round is opened from the model that stands, when it is due and one can follow ----------------------------------


FIRST, STANDING = b"first model", b"d" * 32


class Opening:
    """Members that are active from the given blocks on; the next round is due at a block."""

    def __init__(self, active_from=(0, 0, 0), due=0, over=""):
        self.events = Events()
        members = {number: SimpleNamespace(active_from=block) for number, block in enumerate(active_from)}
        rounds = SimpleNamespace(members=members, model_digest=STANDING, latest=SimpleNamespace(number=6))
        view = view_at(80, rounds=rounds, barred=lambda number: [f"account barred from round {number}"])
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
    assert place.unit.act(turn_at(80, entry_with())).acted == "opened a round"
    assert place.events[-1] == ("open", STANDING, ["account barred from round 7"])


@pytest.mark.parametrize(
    ("place", "phase", "until"),
    [({"due": 81}, "open", 81), ({"due": None}, "idle", 0), ({"over": "all rounds have ended"}, "done", 0)],
)
def test_no_round_is_opened_that_is_not_due_or_cannot_follow(place, phase, until):
    place = Opening(**place)
    step = place.unit.act(turn_at(80, entry_with()))
    assert (step.phase, step.until, step.acted) == (phase, until, "") and not place.events


def test_why_no_round_follows_is_said():
    step = Opening(over="the privacy budget is spent").unit.act(turn_at(80, entry_with()))
    assert step.waiting == "nobody: the privacy budget is spent"


# --- The seed is fixed once, draws are waited for, and the order is sealed when its block is confirmed ----------------


SEED = object()


class TwoTickets(RoundRecords):
    """A round whose draws have these tickets."""

    tickets = (5, 6)


def sealing(block, draws=(), seed=SEED, left=()):
    events = Events()
    rounds = SimpleNamespace(members=dict.fromkeys((1, 2, 3, 4)), left=lambda client: client in left)
    current = TwoTickets(SimpleNamespace(round=1), once={SeedFixed: seed} if seed else {})
    current.draws.update(dict.fromkeys(draws))
    return SealOrder(context_with(events, view_at(block, rounds=rounds))).act(turn_at(block, current)), events


def test_it_waits_for_the_seed_block():
    step, events = sealing(DEADLINES.seed_block - 1, seed=None)
    assert (step.phase, step.until) == ("seeding", DEADLINES.seed_block) and not events


@pytest.mark.parametrize("block", [DEADLINES.seed_block, DEADLINES.draw_end - 1])
def test_the_seed_is_fixed_once(block):
    step, events = sealing(block, seed=None)
    assert step.acted == "fixed the seed" and events == [("fix_seed", 1)]
    assert not sealing(block)[1]


def test_it_waits_for_members_that_have_not_left():
    step, _ = sealing(15, draws=(1,), left=(3,))
    assert (step.phase, step.waiting, step.until) == ("draw", "clients 2, 4 to draw", DEADLINES.draw_end)


def test_a_round_below_the_quorum_is_skipped():
    step, events = sealing(DEADLINES.draw_end, draws=(1, 2))
    assert step.acted == "skipped the round: 2 drawn" and events == [("skip", 1)]


def test_the_order_is_sealed_only_after_its_block():
    step, events = sealing(DEADLINES.order_block - 1, draws=(1, 2, 3))
    assert (step.phase, step.until) == ("seal", DEADLINES.order_block) and not events
    step, events = sealing(DEADLINES.order_block, draws=(1, 2, 3))
    assert step.acted == "sealed the order of 3" and events == [("seal", 1, (5, 6), DEADLINES.order_block)]
