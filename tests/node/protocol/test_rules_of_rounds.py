"""What a round's records must hold, and in which order they come."""

from dataclasses import replace

import pytest

from fedgrove.chain.crypto import tree
from fedgrove.chain.records import (
    DrawEnded,
    Failed,
    FailureReason,
    ShareEnded,
    Skipped,
    Withdrawn,
)
from tests.node.protocol.ledger_story import (
    ACCOUNTS,
    DELAY,
    NEXT_MODEL,
    Story,
    draw_ended,
)


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("opened", {"round": 2}),
        ("opened.model", {"model_digest": NEXT_MODEL}),
        ("opened.config", {"config_digest": bytes(32)}),
        ("opened.block", {"opened_at": 19}),
        ("opened.seed block", {"seed_block": 23}),
        ("opened.sampling rate", {"sampling_rate": tree.EVERYONE - 1}),
        ("opened.barred", {"barred": 1}),
    ],
)
def test_what_a_round_is_opened_with_follows_from_the_terms(field, changes):
    story = Story().joined()
    good = story.opened(20)
    assert story.bad(replace(good, **changes)).field == field
    assert story.bad(good) is None


def test_no_more_may_be_named_as_barred_than_are():
    story = Story().joined()
    story.add(story.registered(5, 19))
    assert story.bad(story.opened(20, barred=1)) is None
    assert story.bad(story.opened(20, barred=2)).field == "opened.barred"


def test_rounds_end_with_the_terms():
    one = Story(rounds=1).to_closed()
    assert one.bad(one.opened(90)).reason == "1 of 1 rounds had closed, of 1 opened"
    vain = Story(rounds=1, repeats=0).joined().to_opened()
    vain.add(Failed(vain.at(vain.deadlines.seal_end + 1), 1, FailureReason.DEADLINE, b""))
    assert vain.bad(vain.opened(90)).reason == "0 of 1 rounds had closed, of 1 opened"
    again = Story(rounds=1, repeats=1).joined().to_opened()
    assert again.bad(again.opened(90)).reason == "round 1 had not ended"
    again.add(Failed(again.at(again.deadlines.seal_end + 1), 1, FailureReason.DEADLINE, b""))
    assert again.bad(again.opened(90)) is None


def test_a_round_that_is_not_open_or_has_ended_takes_no_record():
    story = Story().to_shared()
    assert story.bad(replace(story.shared(3), round=2)).reason == "the round was not open"
    ended = Story().to_closed()
    assert ended.bad(ended.released(1)).reason == "the round had ended"
    assert Story().joined().bad(replace(story.shared(3), round=1)).reason == "the round was not open"


def test_the_seed_follows_from_its_block_and_is_fixed_once():
    story = Story().joined().to_opened()
    good = story.seeded()
    assert story.bad(replace(good, block_hash=bytes(32))).field == "seed.block hash"
    assert "does not follow" in story.bad(replace(good, seed=bytes(32))).reason
    story.add(good)
    assert story.bad(good).reason.startswith("fixed twice")


def test_the_seed_of_a_later_round_holds_the_order_of_the_one_before():
    story = Story().to_closed()
    story.add(story.opened(90))
    assert story.bad(story.seeded()) is None
    found = story.seeded().block_hash
    assert story.bad(replace(story.seeded(), seed=tree.seed(found, bytes(32)))).field == "seed"


def test_a_draw_is_one_of_each_active_member_with_its_own_proof_and_a_lawful_count():
    story = Story().to_seeded()
    assert story.bad(story.drawn(1, samples=0)).field == "draw.samples"
    assert story.bad(story.drawn(1, samples=101)).field == "draw.samples"
    assert story.bad(story.drawn(1, samples=100)) is None
    assert story.bad(story.drawn(1, samples=1)) is None
    assert story.bad(replace(story.drawn(1), proof=story.drawn(2).proof)).field == "draw.proof"
    story.add(story.drawn(1))
    assert story.bad(story.drawn(1)).reason == "the client drew twice, or the round was full"
    unseeded = Story().joined().to_opened()
    assert unseeded.bad(replace(story.drawn(2), at=story.at(23, ACCOUNTS[2]))).reason == "the seed was not fixed"


def test_a_draw_above_the_threshold_is_bad():
    story = Story(rate=1).to_seeded()
    assert "above the sampling threshold" in story.bad(story.drawn(1)).reason


def test_a_full_round_takes_no_draw_and_its_draws_end_with_the_last():
    story = Story(max_clients=2).to_seeded()
    last = story.drawn(2)
    story.add(story.drawn(1), last)
    assert story.bad(story.drawn(3)).field == "phase end"
    assert story.bad(replace(draw_ended(story, last), at=story.at(23))).field == "phase end"
    story.add(draw_ended(story, last))
    assert story.bad(story.drawn(3)).reason == "the client drew twice, or the round was full"


def test_a_phase_does_not_end_before_everybody_has_acted():
    story = Story().to_drawn()
    assert story.bad(DrawEnded(story.at(23), 1)).field == "phase end"
    last = story.drawn(4)
    story.add(last)
    assert story.bad(ShareEnded(last.at, 1)).field == "phase end"
    assert story.bad(draw_ended(story, last)) is None


def test_who_is_not_active_at_the_opening_does_not_draw():
    story = Story().joined()
    story.add(story.registered(5, 20 - DELAY + 1)).to_opened()
    story.add(story.seeded())
    assert story.bad(story.drawn(5)).reason == "the client was not active yet"
    early = Story().joined()
    early.add(early.registered(5, 20 - DELAY)).to_opened()
    early.add(early.seeded())
    assert early.bad(early.drawn(5)) is None


def test_who_took_back_all_its_data_does_not_draw_and_who_took_back_some_does():
    story = Story().joined()
    story.add(
        Withdrawn(story.at(9), ACCOUNTS[1], 1, 0, bytes(32)), Withdrawn(story.at(9), ACCOUNTS[2], 2, 3, bytes(32))
    )
    story.to_opened().add(story.seeded())
    assert story.bad(story.drawn(1)).reason == "the client had withdrawn all its data"
    assert story.bad(story.drawn(2)) is None


@pytest.mark.parametrize("randao", [False, True])
def test_the_order_follows_from_the_randomness_of_its_block(randao):
    story = Story(randao=randao).to_drawn()
    good = story.sealed()
    assert (
        story.bad(replace(good, order_seed=Story(randao=not randao).to_drawn().sealed().order_seed)).field
        == "order.seed"
    )
    assert story.bad(replace(good, order_root=bytes(32))).field == "order.root"
    assert story.bad(replace(good, drawn=4)).field == "order.count"
    story.add(good)
    assert story.bad(good).field == "order"


def test_fewer_than_the_quorum_are_skipped_and_not_sealed():
    story = Story().to_drawn(1)
    late = story.deadlines.draw_end + 1
    assert story.bad(story.sealed()).field == "order.count"
    assert story.bad(Skipped(story.at(late), 1, 1)) is None
    assert story.bad(Skipped(story.at(late), 1, 2)).field == "skipped.count"
    assert Story().to_drawn(1, 2).bad(Skipped(story.at(late), 1, 2)).field == "skipped"
    two = Story().to_drawn(1, 2)
    assert two.bad(two.sealed()) is None


@pytest.mark.parametrize(
    ("stage", "name", "absent"),
    [("to_sealed", "shared", 4), ("to_shared", "committed", 3), ("to_committed", "released", 4)],
)
def test_a_phase_takes_one_record_of_each_who_took_part_in_the_one_before(stage, name, absent):
    story = getattr(Story(), stage)()
    record = getattr(story, name)
    assert story.bad(record(absent)).reason == "the client took no part in the previous phase"
    story.add(record(1) if name != "committed" else story.committed(2))
    again = 1 if name != "committed" else 2
    assert story.bad(record(again)).reason == "recorded twice"


def test_a_recovery_is_one_and_counts_those_who_committed():
    story = Story().to_committed()
    good = story.recovered()
    for beside in (-1, 1):
        assert story.bad(replace(good, survivors=good.survivors + beside)).field == "recovery.survivors"
    story.add(good)
    assert story.bad(story.recovered()).field == "recovery"


def test_a_recovery_is_of_a_sealed_round():
    story = Story().to_drawn()
    assert story.bad(story.recovered(story.deadlines.commit_end + 1)).reason.endswith("before the order was sealed")


def test_a_round_closes_after_its_recovery_and_with_a_model():
    story = Story().to_committed()
    assert story.bad(story.closed(story.deadlines.commit_end + 1)).field == "closed"
    recovered = Story().to_recovered()
    assert recovered.bad(recovered.closed(model=bytes(32))).field == "closed"
