"""What a round's records must hold, and in which order they come."""

from dataclasses import replace

import pytest

from fedgrove.chain.crypto import tree
from fedgrove.chain.records import (
    AccountRecord,
    AdminRecord,
    Committed,
    DrawEnded,
    DrawRejected,
    MemberRecord,
    Position,
    Record,
    Released,
    Replaced,
    RoundRecord,
    SealChunk,
    Shared,
    ShareEnded,
    Voided,
    Withdrawn,
)
from tests.node.protocol.ledger_story import (
    ACCOUNTS,
    ADMIN,
    ALL,
    COORDINATOR,
    DELAY,
    FIRST_MODEL,
    METRICS,
    NEXT_MODEL,
    NOTHING,
    OPENED,
    SAMPLE,
    STRANGER,
    WINDOWS,
    Story,
    follows,
)

WINDOW_END = OPENED + WINDOWS.seed_delay + WINDOWS.draw_window


# --- openings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("opened", {"round": 2}),
        ("opened.model", {"model_digest": NEXT_MODEL}),
        ("opened.config", {"config_digest": NOTHING}),
        ("opened.block", {"opened_at": OPENED - 1}),
        ("opened.seed block", {"seed_block": OPENED + 3}),
        ("opened.sampling rate", {"sampling_rate": tree.EVERYONE - 1}),
        ("opened.barred", {"barred": (ACCOUNTS[1],)}),
        ("opened.barred", {"barred": (STRANGER,)}),
    ],
)
def test_what_a_round_is_opened_with_follows_from_the_terms(field, changes):
    story = Story().joined()
    good = story.opened(OPENED)
    assert story.bad(replace(good, **changes)).field == field
    assert story.bad(good) is None


def test_a_round_opens_after_the_one_before_has_ended_and_with_the_model_in_force():
    story = Story().to_released()
    assert story.bad(story.opened(90)).reason == "round 1 had not ended"
    story.add(story.closed())
    assert story.bad(replace(story.opened(90), model_digest=FIRST_MODEL)).field == "opened.model"
    assert story.bad(replace(story.opened(90), round=1)).field == "opened"
    assert story.bad(story.opened(90)) is None


def skipped(story: Story) -> None:
    story.to_drawn(1).add(story.skipped(story.deadlines.opened_at + 13))


def overdue(story: Story) -> None:
    story.to_drawn().add(story.failed(story.deadlines.seal_end + 1))


def voided(story: Story) -> None:
    story.to_closed().add(story.judged(1, NOTHING), last := story.judged(2, NOTHING))
    story.add(follows(Voided, last, story.current.opened.model_digest))


@pytest.mark.parametrize(
    ("rounds", "repeats", "ends", "closed", "failed"),
    [
        (1, 9, [Story.to_closed], 1, 0),
        (2, 9, [Story.to_closed, Story.to_failed, skipped, Story.to_closed], 2, 1),
        (2, 0, [Story.to_failed], 0, 1),
        (2, 1, [Story.to_failed, overdue, skipped, Story.to_closed, Story.to_failed], 1, 2),
        (1, 0, [skipped, overdue, voided], 0, 0),
    ],
)
def test_rounds_end_with_the_terms_and_only_sealed_ones_that_failed_are_repeats(rounds, repeats, ends, closed, failed):
    """Nor does a voided closing count."""
    story, last = Story(rounds=rounds, repeats=repeats), ends[-1]
    for end in ends[:-1]:
        end(story)
        assert story.bad(story.opened(9_000)) is None
    last(story)
    bad = story.bad(story.opened(9_000, ACCOUNTS[1]))
    if last is voided:
        assert bad is None
    else:
        assert bad.reason == f"{closed} of {rounds} rounds had closed, {failed} had failed"
        assert story.rounds.all_held(rounds, repeats)


# --- who is listed as barred ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rates", [ALL, SAMPLE])
def test_who_may_not_draw_may_be_listed_at_any_rate_in_the_order_of_accounts(rates):
    story = Story(rates=rates).joined()
    story.add(story.registered(5, OPENED - DELAY + 1))
    story.add(Withdrawn(story.at(9, ACCOUNTS[1]), ACCOUNTS[1], 1, 0, NOTHING))
    assert set(story.rules.barred_from(1, OPENED)) == {ACCOUNTS[1], ACCOUNTS[5]}
    for right in ((), (1,), (5, 1)):
        assert story.bad(story.opened(OPENED, barred=right)) is None
    for wrong in ((1, 5), (1, 1), (2,), (5, 2, 1)):
        assert story.bad(story.opened(OPENED, barred=wrong)).field == "opened.barred"
    assert story.bad(story.opened(OPENED + 1, barred=(5,))).field == "opened.barred"


@pytest.mark.parametrize(
    ("draws", "idle"),
    [
        ([(1, 2)], ()),  # too few rounds
        ([(1, 2), (1, 2)], (3, 4)),
        ([(1, 2, 3), (1, 2)], (4,)),
        ([(1, 2), (1, 2), (1, 3)], (4,)),
        ([(1, 2, 3), (1, 2), (1, 2)], (3, 4)),
        ([(1, 2), (), (1, 2)], (3, 4)),  # the second round was skipped
        ([(1, 2), ()], ()),
    ],
)
def test_idle_is_who_drew_in_none_of_the_last_sealed_rounds_of_all_members(draws, idle):
    assert WINDOWS.absence_limit == 2
    story = Story(repeats=99)
    for clients in draws:
        if clients:
            story.to_drawn(*clients).to_failed()
        else:
            story.to_opened().add(story.skipped(story.deadlines.opened_at + 13))
    story.add(story.registered(5, 8_000))
    assert story.rules.barred_from(len(draws) + 1, 9_000) == [ACCOUNTS[client] for client in idle]
    assert story.bad(story.opened(9_000, barred=sorted(idle, reverse=True))) is None


@pytest.mark.parametrize(("block", "idle"), [(OPENED - DELAY, True), (OPENED - DELAY + 1, False)])
@pytest.mark.parametrize("change", ["registered", "resumed"])
def test_idle_is_who_was_active_when_the_first_of_these_rounds_opened(change, block, idle):
    story = Story().joined()
    story.add(story.registered(5, block) if change == "registered" else story.resumed(4, block))
    story.to_failed().to_failed()
    assert (ACCOUNTS[5 if change == "registered" else 4] in story.rules.barred_from(3, 900)) == idle


@pytest.mark.parametrize("rate", [tree.EVERYONE, tree.EVERYONE - 1])
def test_the_idle_are_listed_only_where_all_draw_and_then_may_not_until_the_next_round(rate):
    story = Story(rates=((1, tree.EVERYONE), (3, rate))).to_failed().to_failed()
    if rate < tree.EVERYONE:
        assert story.bad(story.opened(900, barred=(4,))).field == "opened.barred"
        return
    story.to_opened(900, barred=(4,)).to_seeded()
    assert story.bad(story.drawn(4)).reason == "the client was idle when the round opened"
    assert [member.client for member in story.rounds.members_at(story.current.opened)] == [1, 2, 3]
    story.to_drawn(1, 2, 3)
    assert story.current.draw_end is not None  # nobody waits for it
    story.to_failed().to_opened().add(story.seeded())
    assert story.bad(story.drawn(4)) is None


def test_rounds_of_a_sample_make_nobody_idle():
    story = Story(rates=((1, tree.EVERYONE - 1), (3, tree.EVERYONE))).to_failed().to_failed()
    assert story.rules.barred_from(3, 900) == []


# --- seeds and draws --------------------------------------------------------------------------------------------------


def test_a_round_that_is_not_open_or_has_ended_takes_no_record():
    story = Story().to_sealed()
    assert story.bad(replace(story.shared(3), round=2)).reason == "the round was not open"
    assert Story().joined().bad(replace(story.shared(3), round=1)).reason == "the round was not open"
    ended = Story().to_closed()
    assert ended.bad(ended.committed(3)).reason == "the round had ended"
    assert ended.bad(ended.closed()).reason == "the round had ended"
    assert ended.bad(ended.failed(9_000)).reason == "the round had ended"


@pytest.mark.parametrize("kind", [Voided, Replaced])
def test_nothing_is_voided_or_replaced_without_a_judgement(kind):
    story = Story().to_released()
    record = follows(kind, story.closed(), NEXT_MODEL, *[METRICS] * (kind is Replaced))
    assert story.bad(record).reason == "no rule allows this record"


def test_the_seed_follows_from_its_block_and_is_fixed_once():
    story = Story().to_opened()
    good = story.seeded()
    assert story.bad(replace(good, block_hash=NOTHING)).field == "seed.block hash"
    assert "does not follow" in story.bad(replace(good, seed=NOTHING)).reason
    story.add(good)
    assert story.bad(good).reason.startswith("fixed twice")


def test_the_seed_of_a_later_round_holds_the_order_of_the_last_sealed_one():
    story = Story().to_closed()
    skipped(story)
    story.to_opened()
    assert story.bad(story.seeded()) is None
    assert story.seeded().seed == tree.seed(story.seeded().block_hash, story.rounds.rounds[1].sealing.order_root)
    assert story.bad(replace(story.seeded(), seed=tree.seed(story.seeded().block_hash, NOTHING))).field == "seed"


def test_a_draw_is_one_of_each_member_with_its_own_proof_and_a_lawful_count():
    story = Story().to_seeded()
    for samples, lawful in ((0, False), (1, True), (100, True), (101, False)):
        bad = story.bad(story.drawn(1, samples=samples))
        assert (bad is None) == lawful and (lawful or bad.field == "draw.samples")
    assert story.bad(replace(story.drawn(1), proof=story.drawn(2).proof)).field == "draw.proof"
    story.add(story.drawn(1))
    assert story.bad(story.drawn(1)).reason == "the client drew twice, or the round was full"
    unseeded = Story().to_opened()
    assert unseeded.bad(replace(story.drawn(2), at=story.at(23, ACCOUNTS[2]))).reason == "the seed was not fixed"


def test_a_draw_above_the_threshold_is_bad():
    story = Story(rates=SAMPLE).to_seeded()
    assert "above the sampling threshold" in story.bad(story.drawn(1)).reason


@pytest.mark.parametrize(
    ("block", "bar"), [(OPENED - DELAY, ""), (OPENED - DELAY + 1, "the client was not active yet")]
)
@pytest.mark.parametrize("change", ["registered", "resumed"])
def test_who_is_not_active_at_the_opening_does_not_draw(change, block, bar):
    story = Story(max_clients=5).joined()
    client = 5 if change == "registered" else 4
    story.add(getattr(story, change)(client, block)).to_seeded()
    told = story.bad(story.drawn(client))
    assert (told.reason if told else "") == bar == story.rules.barred(story.rounds.members[client], story.current)


@pytest.mark.parametrize(("points", "bar"), [(0, "the client had withdrawn all its data"), (3, "")])
@pytest.mark.parametrize("block", [9, OPENED + 1])
def test_who_took_back_all_its_data_does_not_draw_and_who_took_back_some_does(points, bar, block):
    """Also in a round that runs."""
    story, took = Story().joined(), []
    took = [Withdrawn(story.at(block, ACCOUNTS[1]), ACCOUNTS[1], 1, points, NOTHING)]
    story.add(*took) if block < OPENED else story.to_opened().add(*took)
    told = story.to_seeded().bad(story.drawn(1))
    assert (told.reason if told else "") == bar


def ends_with(story: Story, client: int, block: int) -> bool:
    """Whether the draws end with this client's."""
    story.add(last := story.drawn(client, block))
    ending = follows(DrawEnded, last)
    if story.bad(story.registered(5)) is None:
        assert story.bad(ending) is not None
        return False
    assert story.bad(replace(ending, at=story.at(block))).field == "phase end"
    assert story.bad(follows(ShareEnded, last)).field == "phase end"
    story.add(ending)
    return True


@pytest.mark.parametrize(
    ("settings", "draws", "lasts"),
    [
        ({}, [(1, 0), (2, 0), (3, 0), (4, 0)], 4),  # all that may
        ({"max_clients": 3}, [(1, 0), (2, 0), (3, 0)], 3),  # a full round
        ({}, [(1, 0), (2, 1)], 2),  # late draws reach the quorum
        ({"quorum": 3}, [(1, 0), (2, 1), (3, 9)], 3),
        ({"quorum": 3}, [(1, 1), (2, 1), (3, 1)], 3),
        ({"quorum": 3}, [(1, 0), (2, 0), (3, 0)], 0),
        ({"rates": ((1, tree.EVERYONE - 1),)}, [(1, 0), (2, 0), (3, 0), (4, 0)], 0),  # nobody knows who is in a sample
    ],
)
def test_draws_end_with_the_last_that_may_or_late_with_the_quorum(settings, draws, lasts):
    """Each draw is by a client, in the window's last block or so many blocks behind it."""
    story = Story(**settings).to_seeded()
    ended = [ends_with(story, client, WINDOW_END + late) for client, late in draws]
    assert ended == [place == lasts for place in range(1, len(draws) + 1)]
    assert story.deadlines.draw_end == WINDOW_END + (draws[-1][1] if lasts else 0)
    late = {client for client, _ in draws} ^ {1, 2, 3, 4}
    assert all(story.bad(story.drawn(client, WINDOW_END + 10)) for client in late)


def test_a_full_round_of_a_sample_takes_no_draw():
    story = Story(rates=((1, tree.EVERYONE - 1),), max_clients=2).to_seeded()
    story.add(story.drawn(1))
    assert story.bad(story.drawn(2)) is None
    story.add(story.drawn(2))
    assert story.bad(story.drawn(3)).reason == "the client drew twice, or the round was full"


def test_a_round_whose_draws_ended_below_the_quorum_can_only_be_skipped():
    story = Story(quorum=4, max_clients=9).joined(1, 2, 3)
    story.to_seeded().to_drawn(1, 2, 3)
    assert story.current.draw_end is not None
    assert story.bad(story.sealed()).field == "order.count"
    assert story.bad(story.skipped(WINDOW_END)).field == "skipped"
    assert story.bad(story.skipped(WINDOW_END + 1)) is None


# --- order, and what members leave ------------------------------------------------------------------------------------


@pytest.mark.parametrize("randao", [False, True])
def test_the_order_follows_from_the_randomness_of_its_block(randao):
    story = Story(randao=randao).to_drawn()
    good = story.sealed()
    other = Story(randao=not randao).to_drawn().sealed().order_seed
    for field, change in {
        "seed": {"order_seed": other},
        "root": {"order_root": NOTHING},
        "count": {"drawn": 4},
    }.items():
        assert story.bad(replace(good, **change)).field == f"order.{field}"
    story.add(good)
    assert story.bad(good).field == "order"


def test_fewer_than_the_quorum_are_skipped_and_not_sealed():
    one, two = Story().to_drawn(1), Story().to_drawn(1, 2)
    assert one.bad(one.sealed(WINDOW_END + 3)).field == "order"  # it waits
    assert one.bad(one.sealed()).field == "order.count"
    assert one.bad(replace(one.skipped(WINDOW_END + 1), drawn=2)).field == "skipped.count"
    assert one.bad(one.skipped(WINDOW_END + 1)) is None
    assert two.bad(two.skipped(WINDOW_END + 1)).field == "skipped"
    assert two.bad(two.sealed()) is None
    sealed = Story().to_sealed()
    assert sealed.bad(replace(sealed.skipped(WINDOW_END + 1), drawn=1)).field == "skipped"
    sampled = Story(rates=((1, tree.EVERYONE - 1),)).to_drawn(1)
    assert sampled.bad(sampled.sealed()).field == "order.count"


PHASES = [
    (Story.to_sealed, Story.shared, Shared, 4),
    (Story.to_shared, Story.committed, Committed, 4),
    (Story.to_committed, Story.released, Released, 4),
]


@pytest.mark.parametrize(("stage", "record", "kind", "absent"), PHASES)
def test_a_phase_takes_one_record_of_each_who_took_part_in_the_one_before(stage, record, kind, absent):
    story = stage(Story())
    absent_told = {Released: "the client did not draw in the round, or drew later"}
    assert story.bad(record(story, absent)).reason == absent_told.get(
        kind, "the client took no part in the previous phase"
    )
    story.add(record(story, 1))
    assert story.bad(record(story, 1)).reason == {Released: "the client had released"}.get(kind, "recorded twice")
    assert story.bad(record(story, 2)) is None


def test_who_did_not_share_does_not_commit():
    story = Story().to_sealed()
    story.add(story.shared(1), story.shared(2))
    assert story.bad(story.committed(3)).reason == "the client took no part in the previous phase"


@pytest.mark.parametrize("stage", [Story.to_drawn, Story.to_shared, Story.to_committed])
def test_a_phase_ends_in_no_other_way(stage):
    story = stage(Story())
    for kind in (DrawEnded, ShareEnded):
        assert story.bad(kind(story.at(90), 1)).reason == "no rule allows this record"


def test_the_share_and_the_commit_phase_end_with_the_last():
    story = Story().to_shared()
    assert story.deadlines.share_end == story.current.sealing.at.block
    assert story.deadlines.commit_end == story.deadlines.share_end + WINDOWS.commit_window
    story.to_committed(1, 2, 3)
    assert story.deadlines.commit_end == story.deadlines.share_end + 1


def test_draws_are_rejected_only_while_draws_are_taken():
    def is_lawful(story: Story, at: Position) -> bool:
        told = story.bad(DrawRejected(at, 1, ACCOUNTS[4], b"\1\2\3\4"))
        assert told is None or told.field == "draw.block"
        return told is None

    some, everybody, unseeded = Story().to_drawn(), Story().to_drawn(1, 2, 3, 4), Story().to_opened()
    blocks = (OPENED + 2, OPENED + 3, WINDOW_END, WINDOW_END + 1)
    assert [is_lawful(some, some.at(block)) for block in blocks] == [False, True, True, False]
    assert not is_lawful(unseeded, unseeded.at(OPENED + 3))
    last = everybody.current.draw_end.at
    assert is_lawful(everybody, last) and not is_lawful(everybody, everybody.at(last.block))


def test_an_order_is_placed_in_chunks_in_its_window_and_of_those_that_drew():
    story, one = Story().to_drawn(), Story(rates=((1, tree.EVERYONE - 1),)).to_drawn(1)

    def told(story: Story, block: int, placed: int) -> str:
        found = story.bad(SealChunk(story.at(block), 1, placed))
        return found.field if found else ""

    first, last = story.deadlines.order_block + 1, story.deadlines.seal_end
    blocks = (first - 1, first, last, last + 1)
    assert [told(story, block, 2) for block in blocks] == ["order", "", "", "order"]
    assert [told(story, first, placed) for placed in (0, 1, 3, 4)] == ["order.count", "", "", "order.count"]
    assert told(one, first, 1) == "order.count"


def test_each_places_an_order_of_its_own_and_the_last_piece_seals_the_round():
    def chunk(author: int, placed: int) -> SealChunk:
        return SealChunk(story.at(story.deadlines.order_block + 1, ACCOUNTS[author]), 1, placed)

    story = Story().to_drawn(1, 2, 3)
    story.add(chunk(1, 2), chunk(2, 1))
    assert [story.bad(chunk(1, placed)) is None for placed in (1, 2, 3)] == [False, False, True]
    assert [story.bad(chunk(2, placed)) is None for placed in (1, 2, 3)] == [False, True, True]
    story.add(last := chunk(1, 3))
    sealed = replace(story.sealed(), at=last.at)
    for other in (chunk(2, 2), story.sealed(), replace(sealed, order_root=NOTHING), replace(sealed, drawn=2)):
        assert "that follows from the one before" in story.bad(other).reason
    story.add(sealed)
    assert story.current.order


# --- releases and closings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "lawful"), [(None, True), (Story.to_closed, True), (Story.to_failed, False), (voided, False)]
)
def test_shares_are_released_in_a_round_that_runs_or_stands(end, lawful):
    story = Story().to_released() if end is not Story.to_failed else Story()
    if end:
        end(story)
    told = story.bad(story.released(3))
    assert (told is None) == lawful and (lawful or "not one in which shares are released" in told.reason)


def test_shares_are_not_released_by_who_drew_in_a_later_round():
    story = Story().to_closed()
    late = replace(story.released(3), at=story.at(story.deadlines.recover_end, ACCOUNTS[3]))
    story.to_drawn(1, 2)
    assert story.bad(late) is None
    story.add(story.drawn(3))
    assert story.bad(late).reason.endswith("or drew later")
    assert story.bad(replace(late, round=2)).field == "release"
    assert story.bad(replace(late, round=3)).field == "release"


@pytest.mark.parametrize(("releases", "needed"), [(1, 2), (2, 2), (1, 1)])
def test_a_round_closes_once_enough_have_released_shares(releases, needed):
    story = Story(releases=needed).to_released(*range(1, releases + 1))
    bad = story.bad(story.closed())
    assert (bad is None) == (releases >= needed)
    assert bad is None or bad.reason == f"only {releases} clients had released shares"


@pytest.mark.parametrize("field", ["model_digest", "metrics_digest"])
def test_a_round_closes_with_a_model_and_metrics(field):
    story = Story().to_released()
    assert story.bad(replace(story.closed(author=COORDINATOR), **{field: NOTHING})).field == "closed"


UNKNOWN = {
    Record: (),
    AccountRecord: (ACCOUNTS[1], 1),
    AdminRecord: (ACCOUNTS[1],),
    RoundRecord: (1,),
    MemberRecord: (1, 1),
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_a_kind_of_record_without_a_rule_is_bad(kind):
    class Unknown(kind):
        FIELD = "unknown"

    story = Story("approved").to_opened()
    assert story.bad(Unknown(story.at(30, ADMIN), *UNKNOWN[kind])).reason == "no rule allows this record"
