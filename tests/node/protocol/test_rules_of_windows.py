"""Each rule of the ledger at the limits of its window: the last lawful block, and the first that is not."""

from dataclasses import replace

import pytest

from fedgrove.chain.records import (
    Failed,
    FailureReason,
    Skipped,
)
from tests.node.protocol.ledger_story import (
    STRANGER,
    Story,
)

WINDOWED = {
    "seed": ("to_opened_alone", "seeded", ("seed_block", 1), None),
    "draw.block": ("to_seeded", "draw_of_four", ("seed_block", 1), ("draw_end", 0)),
    "order": ("to_drawn", "sealed", ("order_block", 1), ("seal_end", 0)),
    "share.block": ("to_sealed", "share_of_one", None, ("share_end", 0)),
    "commit.block": ("to_shared", "commit_of_one", ("share_end", 1), ("commit_end", 0)),
    "release.block": ("to_committed", "release_of_one", ("commit_end", 1), ("recover_end", 0)),
    "recovery": ("to_committed", "recovered", ("commit_end", 1), ("recover_end", 0)),
    "closed": ("to_recovered", "closed", None, ("close_end", 0)),
    "skipped": ("to_one_draw", "skipped", ("draw_end", 1), None),
    "failed": ("to_shared", "failed_for_few", ("commit_end", 1), ("recover_end", 0)),
}
"""By field: the stage, the record, and its first and last lawful block as a deadline and blocks after it."""


class Windowed(Story):
    """The records that the table names."""

    def to_opened_alone(self):
        return self.joined().to_opened()

    def to_one_draw(self):
        return self.to_drawn(1)

    def draw_of_four(self, block):
        return self.drawn(4, block)

    def share_of_one(self, block):
        return self.shared(1, block)

    def commit_of_one(self, block):
        return self.committed(1, block)

    def release_of_one(self, block):
        return self.released(3, block)

    def skipped(self, block):
        return Skipped(self.at(block, STRANGER), 1, len(self.current.draws))

    def failed_for_few(self, block):
        return Failed(self.at(block), 1, FailureReason.TOO_FEW_SHARES, b"")


def at_limit(name: str, limit: int, beside: int):
    """What the rules say of a record at a limit of its window, or ``beside`` blocks from it."""
    stage, record, *limits = WINDOWED[name]
    story = Windowed()
    getattr(story, stage)()
    deadline, after = limits[limit]
    return story.bad(getattr(story, record)(getattr(story.deadlines, deadline) + after + beside))


@pytest.mark.parametrize("name", [name for name, row in WINDOWED.items() if row[2]])
def test_a_record_before_its_window_is_bad(name):
    assert at_limit(name, 0, 0) is None
    assert at_limit(name, 0, -1).field == name


@pytest.mark.parametrize("name", [name for name, row in WINDOWED.items() if row[3]])
def test_a_record_after_its_window_is_bad(name):
    assert at_limit(name, 1, 0) is None
    assert at_limit(name, 1, 1).field == name


@pytest.mark.parametrize(
    ("stage", "deadline"), [("to_drawn", "seal_end"), ("to_shared", "recover_end"), ("to_recovered", "close_end")]
)
def test_a_round_fails_for_its_deadline_when_that_has_passed_and_not_before(stage, deadline):
    story = getattr(Story(), stage)()
    last = getattr(story.deadlines, deadline)
    late = Failed(story.at(last + 1, STRANGER), 1, FailureReason.DEADLINE, b"")
    assert story.bad(late) is None
    assert story.bad(replace(late, at=story.at(last))).reason.startswith("its reason and the passed deadlines")
    assert story.bad(replace(late, reason=FailureReason.TOO_FEW_SHARES)).field == "failed"


@pytest.mark.parametrize(
    ("stage", "reason", "said"),
    [
        ("to_drawn", FailureReason.TOO_FEW_SHARES, "before the commit phase was over"),
        ("to_committed", FailureReason.NONE, "without a reason"),
    ],
)
def test_a_round_fails_early_only_once_sealed_and_with_a_reason(stage, reason, said):
    story = getattr(Story(), stage)()
    block = story.deadlines.commit_end + 1 if stage == "to_committed" else story.deadlines.seal_end
    assert said in story.bad(Failed(story.at(block), 1, reason, b"")).reason
