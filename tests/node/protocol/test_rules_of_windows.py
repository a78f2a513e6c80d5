"""Each rule of the ledger at the limits of its window: the last lawful block, and the first that is not."""

from operator import attrgetter

import pytest

from fedgrove.chain.records import Phase
from tests.node.protocol.ledger_story import NOTHING, OPENED, WINDOWS, Story

WINDOW_END = OPENED + WINDOWS.seed_delay + WINDOWS.draw_window
ALWAYS = 0

# Stage, record, the last block before its window, the last one in it; a name is that of a deadline.
WINDOWED = {
    "seed": (Story.to_opened, Story.seeded, "seed_block", "draw_end"),
    "draw.block": (Story.to_drawn, lambda story, block: story.drawn(4, block), "seed_block", "draw_end"),
    "draw.block, waiting": (Story.to_seeded, lambda story, block: story.drawn(4, block), "seed_block", "draw_end"),
    "order": (Story.to_drawn, Story.sealed, "order_block", "seal_end"),
    "share.block": (Story.to_sealed, lambda story, block: story.shared(1, block), ALWAYS, "share_end"),
    "commit.block": (Story.to_shared, lambda story, block: story.committed(1, block), "share_end", "commit_end"),
    "release.block": (Story.to_committed, lambda story, block: story.released(3, block), "commit_end", "recover_end"),
    "release.block, closed": (
        *(Story.to_closed, lambda story, block: story.released(3, block)),
        *("commit_end", "recover_end"),
    ),
    "closed": (Story.to_released, Story.closed, "commit_end", "recover_end"),
    "judgement": (
        *(Story.to_committed, lambda story, block: story.judged(1, NOTHING, Phase.RECOVER, block)),
        *("commit_end", "recover_end"),
    ),
    "skipped": (lambda story: story.to_drawn(1), Story.skipped, WINDOW_END, None),
    "failed, nobody drew": (Story.to_opened, Story.failed, "seal_end", None),
    "failed, not sealed": (Story.to_drawn, Story.failed, "seal_end", None),
    "failed, nobody shared": (Story.to_sealed, Story.failed, "commit_end", None),
    "failed, not closed": (Story.to_released, Story.failed, "recover_end", None),
    "failed, few committed": (lambda story: story.to_committed(1), Story.failed, "commit_end", None),
}


@pytest.mark.parametrize("name", WINDOWED)
def test_a_record_outside_its_window_is_bad(name):
    stage, record, *limits = WINDOWED[name]
    story = stage(Story())
    before, last = (attrgetter(each)(story.deadlines) if isinstance(each, str) else each for each in limits)
    field, _, _ = name.partition(", ")
    if before:
        assert story.bad(record(story, before)).field == field
        assert story.bad(record(story, before + 1)) is None
    if last:
        assert story.bad(record(story, last)) is None
        assert story.bad(record(story, last + 1)).field == field


def test_draws_wait_for_the_quorum_and_no_longer_than_their_end_has_bits():
    story = Story().to_drawn(1)
    assert story.deadlines.draw_end == OPENED + 2**19 - 1
    assert story.add(story.drawn(2)).deadlines.draw_end == WINDOW_END
    sampled = Story(rates=((1, 999_999),)).to_opened()
    assert sampled.deadlines.draw_end == WINDOW_END


@pytest.mark.parametrize(
    ("quorum", "drawn", "committed", "hopeless"),
    [(2, 3, 1, True), (2, 3, 2, False), (3, 3, 2, True), (1, 3, 1, True), (1, 2, 1, True), (1, 1, 1, False)],
)
def test_a_round_is_hopeless_below_the_quorum_and_up_to_half_of_the_drawn(quorum, drawn, committed, hopeless):
    story = Story(quorum=quorum, releases=1, judges=1).to_drawn(*range(1, drawn + 1))
    story.to_committed(*range(1, committed + 1)).to_released(1)
    assert (story.bad(story.failed(story.deadlines.commit_end + 1)) is None) == hopeless
    assert (story.bad(story.closed()) is None) != hopeless
    assert story.rules.is_hopeless(story.current, story.deadlines.commit_end + 1) == hopeless
