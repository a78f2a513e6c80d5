"""A round is opened from the model that stands, when it is due and one can follow."""

from types import SimpleNamespace

import pytest

from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.roles.coordinator.opening import Open
from tests.node.roles.fakes import Events, context_with, entry_with, turn_at, view_at

FIRST, STANDING = b"first model", b"d" * 32


class Place:
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
    place = Place()
    assert place.unit.first().acted == "opened a round"
    assert place.events == [
        ("put", FIRST),
        ("put", b"terms"),
        ("open", cid_of(FIRST).digest, ["account barred from round 7"]),
    ]


def test_the_first_round_waits_for_members_that_are_active_when_it_opens():
    assert Place(active_from=(0, 0, 81)).unit.first().acted
    place = Place(active_from=(0, 0, 82))
    assert place.unit.first().waiting == "members to register: 2 of the 3 needed are active" and not place.events


def test_the_next_round_starts_from_the_model_that_stands():
    place = Place(due=80)
    assert place.unit.act(turn_at(80, entry_with())).acted == "opened a round"
    assert place.events[-1] == ("open", STANDING, ["account barred from round 7"])


@pytest.mark.parametrize(
    ("place", "phase", "until"),
    [({"due": 81}, "open", 81), ({"due": None}, "idle", 0), ({"over": "all rounds have ended"}, "done", 0)],
)
def test_no_round_is_opened_that_is_not_due_or_cannot_follow(place, phase, until):
    place = Place(**place)
    step = place.unit.act(turn_at(80, entry_with()))
    assert (step.phase, step.until, step.acted) == (phase, until, "") and not place.events


def test_why_no_round_follows_is_said():
    step = Place(over="the privacy budget is spent").unit.act(turn_at(80, entry_with()))
    assert step.waiting == "nobody: the privacy budget is spent"
