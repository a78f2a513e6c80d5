"""What those that committed in a round say of it, and what follows where most of them say the same."""

from dataclasses import replace

import pytest

from fedgrove.chain.records import Failed, Judged, Phase, Replaced, RoundRecord, Voided
from tests.node.protocol.ledger_story import (
    ACCOUNTS,
    COORDINATOR,
    FIRST_MODEL,
    METRICS,
    NEXT_MODEL,
    NOTHING,
    RIGHT_MODEL,
    Story,
    follows,
)

BEFORE, AFTER = Phase.RECOVER, Phase.CLOSED
OTHER_MODEL = b"\x0c" * 32


def judge(story: Story, model: bytes, clients=(1, 2), asked: Phase = AFTER, number: int = 1) -> Judged:
    """All but the last of these clients judge round 1; the judgement of the last."""
    *others, last = (story.judged(client, model, asked, number=number) for client in clients)
    story.add(*others)
    return last


# --- who judges what --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stage", "asked"), [("to_committed", BEFORE), ("to_closed", AFTER)])
def test_each_that_committed_judges_once(stage, asked):
    story = getattr(Story(), stage)()
    block = story.deadlines.commit_end + 2
    assert "did not commit" in story.bad(story.judged(3, NOTHING, asked, block)).reason
    assert story.bad(replace(story.judged(1, NOTHING, asked, block), round=2)).field == "judgement"
    story.add(story.judged(1, NOTHING, asked, block))
    assert story.bad(story.judged(1, NOTHING, asked, block)).reason == "the client had already judged the round"


@pytest.mark.parametrize("first", [NOTHING, OTHER_MODEL])
def test_a_judgement_is_taken_back_only_for_a_result_that_another_says(first):
    story = Story(quorum=3, judges=3).to_committed(1, 2, 3).to_closed()
    story.add(story.judged(1, first))
    assert story.bad(story.judged(1, RIGHT_MODEL)).reason == "the client had already judged the round"
    story.add(story.judged(2, RIGHT_MODEL), story.judged(1, RIGHT_MODEL))
    for model in (NOTHING, OTHER_MODEL, NEXT_MODEL, RIGHT_MODEL):
        assert story.bad(story.judged(1, model)).reason == "the client had already judged the round"
    # Its first judgement counts no more, its second does.
    assert followed_by_nothing(story, story.judged(3, first))
    last = story.judged(3, RIGHT_MODEL)
    story.add(last)
    assert story.bad(follows(Replaced, last, RIGHT_MODEL, METRICS)) is None


def test_before_the_closing_only_nothing_is_said_and_each_may_judge_again_after_it():
    story = Story().to_committed()
    assert story.bad(story.judged(1, NEXT_MODEL, BEFORE)).field == "judgement"
    assert story.bad(story.judged(1, NOTHING, AFTER)).reason == "it is not of the closing that stands"
    story.add(story.judged(1, NOTHING, BEFORE)).to_closed()
    assert story.bad(story.judged(2, NOTHING, BEFORE)).field == "judgement"
    assert story.bad(story.judged(1, RIGHT_MODEL, AFTER)) is None


@pytest.mark.parametrize("asked", sorted(set(Phase) - {BEFORE, AFTER}))
def test_nothing_else_is_asked(asked):
    story = Story().to_closed()
    assert story.bad(story.judged(1, NOTHING, asked)).reason == "it is not of the closing that stands"


@pytest.mark.parametrize("releases", [1, 2])
def test_nobody_says_that_nothing_may_be_summed_once_enough_have_released_shares(releases):
    story = Story(releases=2).to_released(*range(1, releases + 1))
    assert (story.bad(story.judged(1, NOTHING, BEFORE)) is None) == (releases < 2)


@pytest.mark.parametrize("asked", [BEFORE, AFTER])
@pytest.mark.parametrize(("model", "metrics"), [(NEXT_MODEL, NOTHING), (NOTHING, METRICS)])
def test_a_model_and_its_metrics_are_named_together(asked, model, metrics):
    story = Story().to_committed() if asked is BEFORE else Story().to_closed()
    half = replace(story.judged(1, NOTHING, asked), model_digest=model, metrics_digest=metrics)
    assert "without m" in story.bad(half).reason or "metrics without" in story.bad(half).reason


def test_a_closing_is_judged_until_another_stands_also_by_who_drew_since():
    story = Story().to_closed().to_drawn()
    assert story.bad(story.judged(1, NOTHING, number=1)) is None
    story.to_released()
    assert story.bad(story.judged(1, NOTHING, block=story.deadlines.commit_end + 2, number=1)) is None
    story.to_closed()
    assert story.bad(story.judged(1, NOTHING, number=1)).reason == "it is not of the closing that stands"
    assert story.bad(story.judged(1, NOTHING, number=2)) is None


def test_after_a_closing_was_voided_there_is_none_to_judge():
    first = Story().to_closed()
    story = first.to_drawn().to_closed()
    last = judge(story, NOTHING, number=2)
    story.add(last, follows(Voided, last, NEXT_MODEL))
    assert story.bad(story.judged(1, NOTHING, number=1)).reason == "it is not of the closing that stands"
    assert story.bad(story.judged(1, NOTHING, number=2)).field == "judgement"


# --- what follows -----------------------------------------------------------------------------------------------------

CONSEQUENCES = {
    "failed": (Story.to_committed, BEFORE, NOTHING, Failed, ()),
    "replaced": (Story.to_closed, AFTER, RIGHT_MODEL, Replaced, (RIGHT_MODEL, METRICS)),
    "voided": (Story.to_closed, AFTER, NOTHING, Voided, (FIRST_MODEL,)),
}


def followed_by_nothing(story: Story, judgement: Judged) -> bool:
    """Whether another record comes next, after the judgement."""
    story.add(judgement)
    return story.bad(story.registered(5)) is None


@pytest.mark.parametrize("name", CONSEQUENCES)
@pytest.mark.parametrize(
    ("judges", "committed", "alike", "follow"),
    [(1, 3, 1, False), (1, 3, 2, True), (1, 2, 1, False), (1, 2, 2, True), (3, 3, 2, False), (3, 3, 3, True)],
)
def test_more_than_half_of_those_that_committed_decide_and_no_fewer_than_the_judges(
    name, judges, committed, alike, follow
):
    stage, asked, model, kind, content = CONSEQUENCES[name]
    story = stage(Story(quorum=committed, judges=judges).to_committed(*range(1, committed + 1)))
    last = judge(story, model, range(1, alike + 1), asked)
    assert story.bad(follows(kind, last, *content)) is not None
    assert followed_by_nothing(story, last) != follow
    assert (story.bad(follows(kind, last, *content)) is None) == follow


@pytest.mark.parametrize("name", CONSEQUENCES)
def test_what_follows_comes_next_in_the_same_transaction_and_as_it_is(name):
    stage, asked, model, kind, content = CONSEQUENCES[name]
    story = stage(Story())
    last = judge(story, model, asked=asked)
    right = follows(kind, last, *content)
    story.add(last)
    wrong: list[RoundRecord] = [replace(right, at=story.at(right.at.block)), replace(right, round=2), last]
    wrong += [replace(right, **{field: b"\x09" * 32}) for field in ("model_digest", "metrics_digest")[: len(content)]]
    assert {story.bad(each).field for each in wrong} == {name}
    story.add(right)
    assert story.bad(right) is not None


def test_different_results_are_not_counted_together():
    story = Story().to_committed(1, 2, 3).to_closed()
    story.add(story.judged(1, RIGHT_MODEL), replace(story.judged(2, RIGHT_MODEL), metrics_digest=NEXT_MODEL))
    assert followed_by_nothing(story, story.judged(3, NOTHING))


def test_what_was_said_before_the_closing_does_not_count_after_it():
    story = Story().to_committed(1, 2, 3)
    story.add(story.judged(1, NOTHING, BEFORE)).to_closed()
    assert followed_by_nothing(story, story.judged(2, NOTHING))


def test_from_a_confirmation_by_most_nothing_follows():
    story = Story().to_closed()
    last = judge(story, NEXT_MODEL)
    assert followed_by_nothing(story, last) and not story.rules.is_struck(COORDINATOR)
    assert not any(map(story.current.overruled, (1, 2)))


def test_a_result_that_took_the_place_stands_until_most_say_something_else():
    story = Story().to_committed(1, 2, 3).to_closed()
    last = judge(story, RIGHT_MODEL)
    story.add(last, follows(Replaced, last, RIGHT_MODEL, METRICS))
    assert story.rounds.model_digest == RIGHT_MODEL and story.current.result.model_digest == RIGHT_MODEL
    assert story.bad(story.opened(900)).field == "opened.author"  # the closer's
    assert story.bad(story.opened(900, ACCOUNTS[1])) is None
    assert story.bad(replace(story.opened(900, ACCOUNTS[1]), model_digest=NEXT_MODEL)).field == "opened.model"
    assert story.bad(story.released(3)) is None
    assert followed_by_nothing(story, story.judged(3, RIGHT_MODEL))


def test_a_voided_closing_gives_back_the_model_that_it_trained_from():
    story = Story().to_closed()
    last = judge(story, NOTHING)
    story.add(last, follows(Voided, last, FIRST_MODEL))
    assert story.rounds.model_digest == FIRST_MODEL and not story.current.stands and story.rounds.closed == 0
    assert story.rules.is_struck(COORDINATOR)
    assert story.bad(story.released(3)).field == "release"
    story.add(story.opened(900, ACCOUNTS[1]))


@pytest.mark.parametrize(
    ("model", "metrics", "falls"),
    [(NOTHING, NOTHING, True), (RIGHT_MODEL, METRICS, True), (NEXT_MODEL, b"m" * 32, False)],
)
def test_a_round_that_runs_on_a_model_that_fell_ends_with_it(model, metrics, falls):
    story = Story().to_closed().to_drawn()
    judgements = [replace(story.judged(client, model, number=1), metrics_digest=metrics) for client in (1, 2)]
    story.add(*judgements)
    stands = FIRST_MODEL if model == NOTHING else model
    first = (Voided, FIRST_MODEL) if model == NOTHING else (Replaced, model, metrics)
    story.add(follows(first[0], judgements[1], *first[1:]))
    if falls:
        assert story.bad(story.sealed()).field == "voided"
        end = replace(follows(Voided, judgements[1], stands), round=2)
        assert story.bad(replace(end, model_digest=b"\x09" * 32)).field == "voided"
        story.add(end)
        assert story.bad(story.sealed()).reason == "the round had ended"
        story.add(story.opened(900, ACCOUNTS[1]))
    else:
        story.add(story.sealed())


def test_a_round_that_ended_before_is_not_ended_again():
    story = Story().to_closed().to_failed()
    last = judge(story, NOTHING, number=1)
    story.add(last, follows(Voided, last, FIRST_MODEL))
    assert story.bad(story.registered(5)) is None
