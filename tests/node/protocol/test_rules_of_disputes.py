"""Who was absent, who disputes a closed round, and what a majority voids."""

from dataclasses import replace

from fedgrove.chain.records import (
    AbsenceRecorded,
    CommitEnded,
    Disputed,
    Failed,
    FailureReason,
    Voided,
)
from tests.node.protocol.ledger_story import (
    ACCOUNTS,
    FIRST_MODEL,
    NEXT_MODEL,
    STRANGER,
    Story,
)


def absent(story: Story, client: int, absences: int = 1, block: int = 80) -> AbsenceRecorded:
    return AbsenceRecorded(story.at(block, STRANGER), client, absences)


def test_all_that_did_not_commit_are_absent_in_the_order_of_their_accounts():
    story = Story().to_closed()
    assert Story().to_closed().bad(absent(story, 2)).field == "absence"
    assert Story().to_closed().bad(absent(story, 1)).field == "absence"
    assert Story().to_closed().bad(absent(story, 3, absences=2)).field == "absence.count"
    story.add(absent(story, 3))
    assert story.bad(story.opened(90)).reason == "the client was left out of the report"
    story.add(absent(story, 2))
    assert story.bad(absent(story, 2)).reason.startswith("the round did not close, was already reported on")


def test_absences_are_recorded_of_a_round_that_closed_and_before_the_next_takes_draws_no_longer():
    early = Story().joined()
    assert early.bad(absent(early, 3)).reason == "no round has ended"
    failed = Story().to_shared()
    failed.add(Failed(failed.at(failed.deadlines.recover_end + 1), 1, FailureReason.DEADLINE, b""))
    assert failed.bad(absent(failed, 3)).field == "absence"
    story = Story().to_closed()
    story.add(story.opened(90))
    assert story.bad(absent(story, 3, block=story.deadlines.draw_end)).field == "absence"
    assert story.bad(absent(story, 3, block=story.deadlines.draw_end + 1)) is None


def test_who_was_absent_as_often_as_the_limit_sits_out():
    story = Story(absence_limit=1).to_closed()
    story.add(absent(story, 3), absent(story, 2))
    assert sorted(story.rules.barred_from(2, 90)) == sorted((ACCOUNTS[2], ACCOUNTS[3]))
    assert story.rules.barred_from(3, 90) == []
    story.add(story.opened(90))
    assert "sits out until round 2" in story.rules.barred(story.rounds.members[3], story.current)
    twice = Story(absence_limit=2).to_closed()
    twice.add(absent(twice, 3), absent(twice, 2))
    assert twice.rules.barred_from(2, 90) == []


def closed_by_two() -> Story:
    """Round 1, closed over the updates of clients 1 and 2."""
    story = Story().to_shared()
    story.add(story.committed(1))
    last = story.committed(2)
    story.add(last, CommitEnded(last.at, 1))
    story.add(story.recovered())
    return story.add(story.closed())


def disputed(story: Story, client: int, number: int = 1) -> Disputed:
    return Disputed(story.at(85, ACCOUNTS[client]), number, client, bytes(32))


def test_a_dispute_is_one_of_each_who_committed_in_the_latest_closed_round():
    story = closed_by_two()
    assert story.bad(disputed(story, 3)).reason.startswith("the client took no part")
    assert story.bad(replace(disputed(story, 1), at=story.at(85, ACCOUNTS[2]))).field == "dispute.author"
    assert story.bad(disputed(story, 1, 0)).field == "dispute"
    assert story.bad(disputed(story, 1, 2)).field == "dispute"
    story.add(disputed(story, 1))
    assert story.bad(disputed(story, 1)).reason.endswith("had already disputed it")


def test_a_round_that_has_not_closed_is_not_disputed():
    story = Story().to_recovered()
    assert story.bad(disputed(story, 1)).reason.startswith("it is not the latest closed round")


def test_half_of_the_members_void_nothing_and_a_majority_does():
    story = closed_by_two()
    story.add(disputed(story, 1))
    assert story.bad(Voided(story.at(86), 1, FIRST_MODEL, 1)).field == "voided"
    story.add(disputed(story, 2))
    assert (story.bad(story.opened(90)).field, story.bad(story.opened(90)).round) == ("disputes", 1)
    story.add(Voided(story.at(86), 1, FIRST_MODEL, 2))
    assert story.bad(disputed(story, 2)).reason.startswith("it is not the latest closed round")
    assert story.bad(story.opened(90)) is None


def test_a_voided_round_gives_back_the_model_that_it_trained_from_and_names_its_disputes():
    for wrong in ({"model_digest": NEXT_MODEL}, {"disputes": 1}, {"round": 2}):
        story = closed_by_two()
        story.add(disputed(story, 1), disputed(story, 2))
        assert story.bad(replace(Voided(story.at(86), 1, FIRST_MODEL, 2), **wrong)).field.startswith("voided")


def test_the_round_that_runs_on_a_voided_one_falls_with_it():
    story = closed_by_two()
    story.add(story.opened(84), disputed(story, 1), disputed(story, 2))
    story.add(Voided(story.at(86), 1, FIRST_MODEL, 2))
    assert story.bad(story.seeded()).field == "disputes"
    story.add(Voided(story.at(86), 2, FIRST_MODEL, 0))
    assert story.current.end is not None
