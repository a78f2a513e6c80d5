"""Who may write which record, and when somebody else may."""

from dataclasses import replace

import pytest

from fedgrove.chain.records import (
    Failed,
    FailureReason,
)
from tests.node.protocol.ledger_story import (
    ACCOUNTS,
    COORDINATOR,
    DELAY,
    STRANGER,
    WINDOWS,
    Story,
)


@pytest.mark.parametrize(
    ("stage", "name", "field"),
    [("to_committed", "recovered", "recovery.author"), ("to_recovered", "closed", "closed.author")],
)
def test_a_member_acts_for_the_coordinator_after_its_grace_and_a_stranger_never(stage, name, field):
    story = getattr(Story(), stage)()
    since = story.deadlines.commit_end if name == "recovered" else story.current.recovery.at.block
    record, last = getattr(story, name), since + WINDOWS.coordinator_grace
    assert story.bad(record(last, COORDINATOR)) is None
    assert story.bad(record(last, ACCOUNTS[4])).reason.endswith("within the coordinator's grace")
    assert story.bad(record(last + 1, STRANGER)).field == field
    assert story.bad(record(last + 1, ACCOUNTS[4])) is None


def test_the_grace_of_an_early_failure_counts_from_the_recovery():
    story = Story().to_recovered()
    last = story.current.recovery.at.block + WINDOWS.coordinator_grace
    assert story.bad(Failed(story.at(last, ACCOUNTS[4]), 1, FailureReason.TOO_FEW_SHARES, b"")).field == "failed.author"
    assert story.bad(Failed(story.at(last + 1, ACCOUNTS[4]), 1, FailureReason.TOO_FEW_SHARES, b"")) is None


def test_only_the_coordinator_opens_the_first_round():
    assert Story().joined().bad(Story().opened(900, author=ACCOUNTS[1])).field == "opened.author"


def test_a_member_opens_a_later_round_after_the_grace():
    story = Story().to_closed()
    last = story.current.ending.at.block + WINDOWS.coordinator_grace
    assert story.bad(story.opened(last, author=ACCOUNTS[4])).field == "opened.author"
    assert story.bad(story.opened(last + 1, author=ACCOUNTS[4])) is None


def test_a_member_acts_once_it_is_active_and_approved():
    story = Story(open_membership=False).joined(1)
    assert not story.rules.is_active(ACCOUNTS[1], 2 + DELAY - 1) and story.rules.is_active(ACCOUNTS[1], 2 + DELAY)
    story.add(story.registered(2, 9), story.approved(2, 10))
    assert not story.rules.is_active(ACCOUNTS[2], 10 + DELAY - 1) and story.rules.is_active(ACCOUNTS[2], 10 + DELAY)
    story.add(story.registered(3, 9))
    assert not story.rules.is_active(ACCOUNTS[3], 900) and not story.rules.is_active(STRANGER, 900)


@pytest.mark.parametrize("name", ["shared", "committed", "released", "drawn"])
def test_a_record_of_somebody_else_is_bad(name):
    stages = {"shared": "to_sealed", "committed": "to_shared", "released": "to_committed", "drawn": "to_seeded"}
    story = getattr(Story(), stages[name])()
    record = getattr(story, name)(1)
    assert story.bad(record) is None
    forged = replace(record, at=record.at._replace(author=ACCOUNTS[2]))
    assert story.bad(forged).reason == f"it is signed by {ACCOUNTS[2]}, not by the client"
    assert story.bad(replace(record, client=9)).reason == "the client is not registered"
