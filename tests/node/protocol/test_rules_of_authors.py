"""Who may write which record, and when somebody else may."""

from dataclasses import replace

import pytest
from eth_utils import keccak

from fedgrove.chain.records import MailboxKeyRotated, Replaced, VrfKeyRotated, Withdrawn
from tests.node.protocol.ledger_story import (
    ACCOUNTS,
    COORDINATOR,
    DELAY,
    FOUNDER,
    METRICS,
    NOTHING,
    OPENED,
    RIGHT_MODEL,
    SAMPLE,
    STRANGER,
    WINDOWS,
    Story,
    follows,
)

GRACE = WINDOWS.coordinator_grace
WINDOW_END = OPENED + WINDOWS.seed_delay + WINDOWS.draw_window


def lot(story: Story, client: int) -> int:
    drawn = keccak(story.current.sealing.order_root + bytes(12) + bytes.fromhex(ACCOUNTS[client][2:]))
    return int.from_bytes(drawn, "big") % (GRACE + 1)


# Stage, record, and the block from which the coordinator's grace counts.
GRACES = {
    "closed": (Story.to_released, Story.closed, lambda story: story.deadlines.commit_end + lot(story, 1)),
    "opened": (Story.to_closed, Story.opened, lambda story: story.current.ending.at.block),
    "skipped": (lambda story: story.to_opened(), Story.skipped, lambda story: WINDOW_END),
}


@pytest.mark.parametrize("name", GRACES)
def test_a_member_acts_for_the_coordinator_after_its_grace_and_a_stranger_never(name):
    stage, record, since = GRACES[name]
    story = stage(Story(rates=SAMPLE) if name == "skipped" else Story())
    last = since(story) + GRACE
    assert story.bad(record(story, last, COORDINATOR)) is None
    assert story.bad(record(story, last, ACCOUNTS[1])).reason.endswith("within the coordinator's grace")
    assert story.bad(record(story, last + 1, STRANGER)).field == f"{name}.author"
    assert story.bad(record(story, last + 1, FOUNDER)).field == f"{name}.author"
    assert story.bad(record(story, last + 1, ACCOUNTS[1])) is None


def test_only_the_coordinator_opens_the_first_round():
    story = Story().joined()
    assert story.bad(story.opened(900, ACCOUNTS[1])).field == "opened.author"
    assert story.bad(story.opened(900, FOUNDER)).field == "opened.author"


def test_who_did_not_commit_does_not_close_and_who_did_may_although_it_left():
    story = Story().to_released()
    late = story.deadlines.commit_end + 2 * GRACE + 1
    story.add(Withdrawn(story.at(late - 1, ACCOUNTS[1]), ACCOUNTS[1], 1, 0, NOTHING))
    assert (
        story.bad(story.closed(late, ACCOUNTS[3])).reason == f"{ACCOUNTS[3]} is neither the coordinator nor committed"
    )
    assert story.bad(story.closed(late, ACCOUNTS[1])) is None


def test_lots_differ_and_the_coordinator_has_none():
    story = Story().to_released()
    assert len({story.rules.closing_lot(story.current, account) for account in ACCOUNTS.values()}) > 1
    assert story.rules.closing_lot(story.current, COORDINATOR) == 0
    for client, account in ACCOUNTS.items():
        assert story.rules.closing_lot(story.current, account) == lot(story, client)


def fallen(closer: int = 0) -> Story:
    """A closing of the coordinator, or of a member, was replaced."""
    story = Story().to_released()
    block = story.deadlines.commit_end + 1 + 2 * GRACE
    story.add(story.closed(block, ACCOUNTS[closer] if closer else COORDINATOR))
    story.add(story.judged(1, RIGHT_MODEL, block=block), last := story.judged(2, RIGHT_MODEL, block=block))
    return story.add(follows(Replaced, last, RIGHT_MODEL, METRICS))


@pytest.mark.parametrize(("closer", "grace"), [(0, GRACE // 4), (1, GRACE)])
def test_whose_closing_fell_acts_no_more_and_the_grace_of_such_a_coordinator_is_short(closer, grace):
    """It opens, skips and closes nothing."""
    struck = ACCOUNTS[closer] if closer else COORDINATOR
    story = fallen(closer)
    ended = story.current.ending.at.block
    assert story.rules.is_struck(struck) and not story.rules.is_struck(ACCOUNTS[2]) and story.rules.grace() == grace
    assert not story.rules.is_active(struck, 900) and story.rules.is_active(ACCOUNTS[2], 900)
    told = f"a closing of {struck} was replaced or voided"
    assert story.bad(story.opened(900, struck)).reason == told
    assert story.bad(story.opened(ended + grace, ACCOUNTS[2])).field == "opened.author"
    story.add(story.opened(ended + grace + 1, ACCOUNTS[2]))
    over = story.deadlines.seed_block + WINDOWS.draw_window + grace
    story.add(Withdrawn(story.at(over, ACCOUNTS[4]), ACCOUNTS[4], 4, 0, NOTHING))
    assert story.bad(story.skipped(900, struck)).reason == told
    assert story.bad(story.skipped(over, ACCOUNTS[2])).field == "skipped.author"
    assert story.bad(story.skipped(over + 1, ACCOUNTS[2])) is None
    story.to_released()
    last = story.deadlines.commit_end + lot(story, 2) + grace
    assert story.bad(story.closed(last + GRACE, struck)).reason == told
    assert story.bad(story.closed(last, ACCOUNTS[2])).field == "closed.author"
    assert story.bad(story.closed(last + 1, ACCOUNTS[2])) is None


def test_a_member_acts_while_it_is_active_approved_and_has_not_left():
    story = Story("approved").joined(1, 2)
    active = story.rules.is_active
    assert not active(ACCOUNTS[1], 2 + DELAY - 1) and active(ACCOUNTS[1], 2 + DELAY) and not active(STRANGER, 900)
    story.add(story.revoked(1, 9), Withdrawn(story.at(9, ACCOUNTS[2]), ACCOUNTS[2], 2, 0, NOTHING))
    assert not active(ACCOUNTS[1], 900) and not active(ACCOUNTS[2], 900)
    story.add(story.approved(1, 10, active_from=2 + DELAY))
    assert active(ACCOUNTS[1], 10)


STAGES = {"drawn": "to_seeded", "shared": "to_sealed", "committed": "to_shared", "released": "to_committed"}


@pytest.mark.parametrize("name", [*STAGES, "judged"])
def test_a_record_of_somebody_else_is_bad(name):
    story = getattr(Story(), STAGES.get(name, "to_closed"))()
    record = story.judged(1, NOTHING) if name == "judged" else getattr(story, name)(1)
    assert story.bad(record) is None
    forged = replace(record, at=record.at._replace(author=ACCOUNTS[2]))
    assert story.bad(forged).reason == f"it is signed by {ACCOUNTS[2]}, not by the client"
    assert story.bad(replace(record, client=9)).reason == "the client is not registered"


# --- why a member may skip a round of all members ---------------------------------------------------------------------


def rotated(story: Story, client: int, block: int) -> VrfKeyRotated:
    key = story.registered(client, block, key=9)
    return VrfKeyRotated(key.at, key.account, client, key.vrf_x, key.vrf_y, key.active_from, key.proof)


def left(story: Story, client: int, block: int, points: int = 0) -> Withdrawn:
    return Withdrawn(story.at(block, ACCOUNTS[client]), ACCOUNTS[client], client, points, NOTHING)


CHANGES = {
    "registered": (True, lambda story, block: [story.approved(5, block), story.registered(5, block)]),
    "resumed": (True, lambda story, block: [story.resumed(4, block)]),
    "rotated": (True, lambda story, block: [rotated(story, 4, block)]),
    "left": (True, lambda story, block: [left(story, 4, block)]),
    "revoked": (True, lambda story, block: [story.revoked(4, block)]),
    "approved": (True, lambda story, block: [story.revoked(4, 9), story.approved(4, block, active_from=2 + DELAY)]),
    "approved, unregistered": (False, lambda story, block: [story.approved(5, block)]),
    "revoked, unregistered": (False, lambda story, block: [story.approved(5, block), story.revoked(5, block)]),
    "another mailbox": (
        False,
        lambda story, block: [MailboxKeyRotated(story.at(block), ACCOUNTS[4], 4, b"\5" * 32)],
    ),
    "fewer points": (False, lambda story, block: [left(story, 4, block, points=3)]),
    "left twice": (False, lambda story, block: [left(story, 4, 9), left(story, 4, block)]),
    "resumed, gone": (False, lambda story, block: [left(story, 4, 9), story.resumed(4, block)]),
    "rotated, revoked": (False, lambda story, block: [story.revoked(4, 9), rotated(story, 4, block)]),
    "revoked, gone": (False, lambda story, block: [left(story, 4, 9), story.revoked(4, block)]),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("block", [OPENED - 1, OPENED])
def test_a_member_may_skip_where_who_is_a_member_changed_since_the_opening(name, block):
    counts, change = CHANGES[name]
    story = Story("approved").joined()
    opening = story.opened(OPENED)
    if block == OPENED - 1 or name == "approved":
        story.add(*change(story, block))
    story.add(opening)
    if block == OPENED and name != "approved":
        story.add(*change(story, block))
    may = counts and block == OPENED
    skipping = story.skipped(WINDOW_END + GRACE + 1, ACCOUNTS[1])
    assert (story.bad(skipping) is None) == story.rules.members_changed_since(OPENED) == may
    assert may or "nothing had changed" in story.bad(skipping).reason


@pytest.mark.parametrize(
    ("seeded", "rates", "block", "may"),
    [
        (False, None, OPENED + 2 + 256, False),
        (False, None, OPENED + 2 + 257, True),
        (True, None, OPENED + 2 + 257, False),
        (True, None, OPENED + 2**16 - 1, False),
        (True, None, OPENED + 2**16, True),
        (True, SAMPLE, WINDOW_END + GRACE + 1, True),
    ],
)
def test_a_member_may_skip_where_the_seed_is_lost_or_after_long_or_where_not_all_draw(seeded, rates, block, may):
    story = (Story(rates=rates) if rates else Story()).to_opened()
    story.add(*[story.seeded()] * seeded)
    assert (story.bad(story.skipped(block, ACCOUNTS[1])) is None) == may
    assert story.bad(story.skipped(block, COORDINATOR)) is None
