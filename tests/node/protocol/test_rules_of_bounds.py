"""The rules of rounds with bounds, each at its limit: vouchers, affirmations, reveals, and stages of releases."""

from dataclasses import replace
from operator import attrgetter

import pytest

from fedgrove.chain.records import MOST_REVEALS, AffirmEnded, Phase, VouchEnded
from fedgrove.chain.records.phases import NEVER
from fedgrove.node.protocol.clock import phase_of
from tests.node.protocol.ledger_story import BOUNDS, NOTHING, WINDOWS, Story, block_hash

ALL = (1, 2, 3, 4)
OTHER_BRANCH = b"\x0b" * 32


def after(stage: str, *clients: int):
    """Brings a story in which all commit to a stage, with these clients."""
    return lambda story: getattr(story.to_committed(*ALL), stage)(*clients)


def of(record, client: int):
    """The record of a client in a block."""
    return lambda story, block: record(story, client, block)


# Stage, record, the last block before its window, the last one in it; a name is that of a deadline.
WINDOWED = {
    "voucher.block": (after("to_committed"), of(Story.vouched, 1), "sketch_block", "vouch_end"),
    "affirmation.block": (after("to_vouched", 1, 2, 3), of(Story.affirmed, 1), "vouch_end", "affirm_end"),
    "reveal.block": (after("to_vouched", 1, 2, 3), of(Story.revealed, 1), "vouch_end", None),
    "release.block": (after("to_affirmed", 1, 2, 3), of(Story.released, 4), "affirm_end", "recover_end"),
    "release.block, closed": (after("to_closed"), of(Story.released, 4), "affirm_end", "recover_end"),
    "closed": (after("to_released"), Story.closed, "affirm_end", None),
    "failed, nobody shared": (Story.to_sealed, Story.failed, "commit_end", None),
    "failed, few committed": (lambda story: story.to_committed(1, 2), Story.failed, "commit_end", None),
    "failed, few vouched": (after("to_vouched", 1, 2), Story.failed, "vouch_end", None),
    "failed, few released": (after("to_released", 1), Story.failed, "recover_end", None),
}


def bounded(**settings) -> Story:
    """Four members draw, and commit unless a test says otherwise; two releases are enough."""
    story = Story(**{**BOUNDS, **settings})
    return story.to_drawn(*ALL)


def all_committed(**settings) -> Story:
    return bounded(**settings).to_committed(*ALL)


@pytest.mark.parametrize("name", WINDOWED)
def test_a_record_outside_its_window_is_bad(name):
    stage, record, *limits = WINDOWED[name]
    story = stage(bounded())
    before, last = (attrgetter(each)(story.deadlines) if each else 0 for each in limits)
    field, _, _ = name.partition(", ")
    assert story.bad(record(story, before)).field == field
    assert story.bad(record(story, before + 1)) is None
    if last:
        assert story.bad(record(story, last)) is None
        assert story.bad(record(story, last + 1)).field == field
    else:
        assert story.bad(record(story, before + 100_000)) is None


@pytest.mark.parametrize("record", [Story.vouched, Story.affirmed, Story.revealed])
def test_who_did_not_commit_says_nothing_of_the_updates(record):
    story = bounded().to_committed(1, 2, 3)
    if record is not Story.vouched:
        story.to_vouched()
    assert story.bad(record(story, 1)) is None
    reasons = ("the client took no part in the previous phase", "the client did not commit in the round")
    assert story.bad(record(story, 4)).reason in reasons


@pytest.mark.parametrize("record", [Story.vouched, Story.affirmed])
def test_each_vouches_and_affirms_once(record):
    story = all_committed()
    if record is Story.affirmed:
        story.to_vouched()
    story.add(record(story, 1))
    assert story.bad(record(story, 1)).reason == "recorded twice"
    assert story.bad(record(story, 2)) is None


def test_who_did_not_vouch_can_affirm():
    story = all_committed().to_vouched(1, 2, 3)
    assert story.bad(story.affirmed(4)) is None


@pytest.mark.parametrize(
    ("stage", "record"),
    [
        (Story.to_committed, Story.vouched),
        (Story.to_vouched, Story.vouched),
        (Story.to_vouched, Story.affirmed),
        (Story.to_vouched, Story.revealed),
        (Story.to_affirmed, Story.released),
    ],
)
def test_a_record_of_another_sketch_is_bad(stage, record):
    story = all_committed()
    if stage is not Story.to_committed:
        story.add(story.vouched(1), story.vouched(2), story.vouched(3))
    if record is not Story.vouched:
        stage(story)
    own = record(story, 4)
    assert own.block_hash == block_hash(story.deadlines.sketch_block) and story.bad(own) is None
    for other in (OTHER_BRANCH, NOTHING):
        assert story.bad(replace(own, block_hash=other)).field == f"{own.FIELD}.block hash"


@pytest.mark.parametrize("record", [Story.affirmed, Story.revealed, Story.released])
def test_where_nobody_vouched_records_name_no_sketch(record):
    story = all_committed()
    after = story.deadlines.affirm_end if record is Story.released else story.deadlines.vouch_end
    own = record(story, 1, after + 1)
    assert own.block_hash == NOTHING and story.bad(own) is None
    assert story.bad(replace(own, block_hash=block_hash(story.deadlines.sketch_block))) is not None


def test_a_record_is_signed_by_its_client():
    story = all_committed().to_vouched()
    for record in (story.affirmed(1), story.revealed(1)):
        of_another = replace(record, at=record.at._replace(author=story.affirmed(2).at.author))
        assert story.bad(record) is None and story.bad(of_another).field == f"{record.FIELD}.author"


@pytest.mark.parametrize(("record", "ending"), [(Story.vouched, VouchEnded), (Story.affirmed, AffirmEnded)])
def test_a_phase_ends_with_the_last_who_committed(record, ending):
    story = all_committed()
    if record is Story.affirmed:
        story.to_vouched()
    last = {1: record(story, 1), 2: record(story, 2), 3: record(story, 3), 4: record(story, 4)}
    for client in (1, 2, 3):
        story.add(last[client])
        assert story.bad(ending(story.at(90), 1)).reason == "no rule allows this record"
    story.add(last[4])
    assert "there is another" in story.bad(story.failed(90)).reason
    story.add(ending(last[4].at, 1))
    end = story.deadlines.affirm_end if ending is AffirmEnded else story.deadlines.vouch_end
    assert end == last[4].at.block


def test_vouchers_and_affirmations_are_not_there_without_bounds():
    story = Story().to_committed()
    for record in (story.vouched(1), story.affirmed(1), story.revealed(1)):
        assert story.bad(record) is not None
    assert story.deadlines.vouch_end == story.deadlines.affirm_end == story.deadlines.commit_end


# --- reveals ----------------------------------------------------------------------------------------------------------


def test_a_client_reveals_a_few_times_whatever_others_do():
    story = all_committed().to_vouched()
    for _ in range(MOST_REVEALS):
        story.add(story.revealed(1))
    assert story.bad(story.revealed(1)).reason == f"the client had revealed {MOST_REVEALS} times"
    assert story.bad(story.revealed(2)) is None
    assert [each.client for each in story.current.reveals[1]] == [1] * MOST_REVEALS


def test_points_are_revealed_until_the_round_ends():
    story = all_committed().to_released(1)
    assert story.bad(story.revealed(2, story.deadlines.recover_end + 1)) is None
    closed = all_committed().to_closed()
    assert closed.bad(closed.revealed(2)).reason == "the round had ended"


# --- stages -----------------------------------------------------------------------------------------------------------


def in_stage_one() -> Story:
    """Two have released in stage 0, and one of them in stage 1."""
    story = all_committed().to_released(1, 2)
    return story.add(story.released(1, stage=1))


def test_the_next_stage_begins_once_enough_have_released_in_the_one_before():
    story = all_committed().to_released(1)
    assert story.bad(story.released(1, stage=1)).field == "release.stage"
    story.add(story.released(2))
    assert story.bad(story.released(1, stage=1)) is None
    assert story.bad(story.released(1, stage=2)).field == "release.stage"
    story.add(story.released(1, stage=1))
    assert story.bad(story.released(1, stage=2)).field == "release.stage"
    story.add(story.released(2, stage=1))
    assert story.bad(story.released(1, stage=2)) is None


def test_there_are_as_many_stages_as_the_settings_say():
    story = all_committed(stages=1).to_released(1, 2)
    story.add(story.released(1, stage=1), story.released(2, stage=1))
    assert story.bad(story.released(1, stage=2)).field == "release.stage"


def test_a_client_releases_once_in_each_stage_and_in_stage_0_first():
    story = in_stage_one()
    assert story.bad(story.released(1, stage=1)).reason == "the client had released"
    assert story.bad(story.released(3, stage=1)).field == "release.stage"
    story.add(story.released(3), story.released(3, stage=1))
    assert [*story.current.releases] == [1, 2, 3] and [*story.current.releases_in(1)] == [1, 3]


def test_a_stage_that_began_takes_releases_after_the_next_one_began():
    story = in_stage_one()
    story.add(story.released(2, stage=1), story.released(1, stage=2), story.released(3))
    assert story.current.stage == 2
    assert story.bad(story.released(3, stage=1)) is None and story.bad(story.released(3, stage=2)) is None


def test_a_stage_has_a_window_from_its_first_release():
    story = all_committed().to_released(1, 2)
    late = story.deadlines.recover_end + 50
    story.add(story.released(1, late, stage=1), story.released(2, late + 5, stage=1))
    assert story.deadlines.recover_end == late + WINDOWS.recover_window


def test_no_stage_begins_in_a_round_that_ended():
    story = in_stage_one()
    story.add(story.closed())
    assert story.bad(story.released(3)) is None
    assert story.bad(story.released(2, stage=1)).field == "release.stage"


# --- how a round ends -------------------------------------------------------------------------------------------------


def test_the_clock_does_not_fail_a_round_whose_sum_may_be_open():
    story = all_committed().to_released(1)
    assert story.deadlines.close_end == story.deadlines.recover_end
    story.add(story.released(2))
    late = story.deadlines.recover_end + 100_000
    assert story.deadlines.close_end == NEVER
    assert phase_of(story.current, story.deadlines, late) is Phase.RECOVER
    assert story.bad(story.failed(late)).field == "failed"
    assert story.bad(story.closed(late)) is None and story.bad(story.released(3, late)) is None


def test_members_judge_that_nothing_may_be_summed_once_the_latest_stage_is_over():
    story = all_committed().to_released(1, 2)
    end = story.deadlines.recover_end
    assert story.bad(story.judged(3, NOTHING, Phase.RECOVER, end)).field == "judgement"
    assert story.bad(story.judged(3, NOTHING, Phase.RECOVER, end + 1)) is None
    story.add(story.released(1, end, stage=1))
    assert story.bad(story.judged(3, NOTHING, Phase.RECOVER, end + 1)).field == "judgement"
    assert story.bad(story.judged(3, NOTHING, Phase.RECOVER, story.deadlines.recover_end + 1)) is None


def test_without_bounds_enough_releases_end_the_judgements_before_a_closing():
    story = Story().to_released(1, 2)
    assert story.bad(story.judged(1, NOTHING, Phase.RECOVER, story.deadlines.recover_end)).field == "judgement"


@pytest.mark.parametrize(("vouched", "hopeless"), [((1, 2), True), ((1, 2, 3), False)])
def test_a_round_is_hopeless_once_too_few_vouched(vouched, hopeless):
    story = all_committed().to_vouched(*vouched)
    before, after = story.deadlines.vouch_end, story.deadlines.vouch_end + 1
    assert not story.rules.is_hopeless(story.current, before)
    assert story.rules.is_hopeless(story.current, after) == hopeless
    assert (story.bad(story.failed(after)) is None) == hopeless
    story.add(story.released(1, story.deadlines.affirm_end + 1), story.released(2, story.deadlines.affirm_end + 1))
    assert (story.bad(story.closed()) is None) != hopeless


def test_the_coordinators_turn_begins_with_the_recovery():
    story = all_committed().to_released(1, 2)
    grace = story.deadlines.affirm_end + WINDOWS.coordinator_grace
    author = story.affirmed(3).at.author
    lot = story.rules.closing_lot(story.current, author)
    assert story.bad(story.closed(grace + lot, author)).field == "closed.author"
    assert story.bad(story.closed(grace + lot + 1, author)) is None
