"""Rounds that come to nothing are counted, and who was missing in them is named with the round since when."""

import dataclasses
from types import SimpleNamespace

import pytest

from fedgrove.chain.records import Closed, Failed, Skipped
from fedgrove.chain.records.deployment import Terms
from fedgrove.node.protocol.rounds import Member, Rounds
from fedgrove.node.status.setbacks import MOST_NAMED, Absentee, setbacks
from tests.node.roles.fakes import entry_with

TERMS = Terms(64 * "1", 64 * "1", rounds=10, repeats=4)


WINDOW = 10


class At:
    """Makes the end of a round in the 50th block after its opening."""

    def __init__(self, kind):
        self.kind = kind

    def __call__(self, opened_at):
        end = self.kind.__new__(self.kind)
        object.__setattr__(end, "at", SimpleNamespace(block=opened_at + 50))
        return end


CLOSED, SKIPPED, FAILED = At(Closed), At(Skipped), At(Failed)


def rounds_of(*courses, members=3, rate=1_000_000):
    """Rounds with their ends, and who did what in them."""
    history = Rounds(quorum=3, members={n: Member(n, f"0x{n}", 0, 0, b"", 0) for n in range(1, members + 1)})
    for number, (end, parts) in enumerate(courses, 1):
        sealed, able = None if end is SKIPPED else object(), tuple(history.members)
        current = entry_with(number, end=end(100 * number), sealed=sealed, able=able, **parts)
        current.opened.opened_at, current.opened.sampling_rate = 100 * number, rate
        history.rounds[number] = current
    return history


def looked_at(*courses, terms=TERMS, **options):
    return setbacks(rounds_of(*courses, **options), terms, WINDOW)


ALL = {"draws": (1, 2, 3), "shares": (1, 2, 3), "commits": (1, 2, 3)}
WITHOUT_3 = {"draws": (1, 2, 3), "shares": (1, 2, 3), "commits": (1, 2)}
TWO = {"draws": (1, 2)}


def test_while_rounds_close_nobody_is_warned():
    found = looked_at((CLOSED, ALL), (SKIPPED, TWO), (CLOSED, ALL))
    assert (found.closed, found.in_vain, found.in_a_row, found.missing, found.warnings) == (2, 1, 0, (), ())


def test_rounds_in_a_row_that_came_to_nothing_name_who_is_missing_since_when_and_use_up_no_repeat():
    found = looked_at((CLOSED, ALL), (CLOSED, WITHOUT_3), (SKIPPED, TWO), (SKIPPED, TWO))
    assert (found.in_a_row, found.failed, found.left) == (2, 0, 4) and found.missing == (Absentee(3, 2, 200),)
    assert found.warnings == (
        "the last 2 rounds left no model, so the next one is not opened before block 460; missing: client 3 since "
        "round 2 (block 200)",
    )


def test_the_wait_doubles_with_each_further_round():
    waits = [looked_at(*n * [(SKIPPED, TWO)]).opens_after - (100 * n + 50) for n in range(2, 5)]
    assert waits == [WINDOW, 2 * WINDOW, 4 * WINDOW]
    assert looked_at((SKIPPED, TWO)).opens_after == 0


def test_a_round_that_runs_waits_for_nothing():
    history = rounds_of((SKIPPED, TWO), (SKIPPED, TWO), (CLOSED, ALL))
    history.rounds[3].end = None
    assert setbacks(history, TERMS, WINDOW).opens_after == 0


FAILURE = (FAILED, WITHOUT_3)


@pytest.mark.parametrize(
    ("failures", "begins", "urgent"),
    [
        (1, "", False),
        (2, "half of federation.repeats is used up: 2 sealed rounds failed, and 2 repeats are left of 4", False),
        (3, "half of federation.repeats is used up: 3 sealed rounds failed, and 1 repeat is left of 4", False),
        (4, "most of federation.repeats is used up: 4 sealed rounds failed, and 0 repeats are left of 4", True),
    ],
)
def test_repeats_that_are_used_up_are_warned_of_also_when_rounds_close_again(failures, begins, urgent):
    found = looked_at(*failures * [FAILURE, (SKIPPED, TWO), (CLOSED, WITHOUT_3)])
    assert (found.failed, found.left, found.in_a_row, found.is_urgent) == (failures, 4 - failures, 0, urgent)
    if not begins:
        assert found.warnings == ()
        return
    end = f"; one failure more than that ends it with {failures} of 10 rounds; missing: client 3 since round 1"
    assert found.warnings == (f"{begins}{end} (block 100)",)


@pytest.mark.parametrize(
    ("course", "missing"),
    [
        ((FAILED, {"draws": (1, 2), "shares": (1,)}), {2, 3}),  # it ended before anybody could commit
        ((FAILED, {"draws": (1, 2, 3)}), set()),  # nobody shared: the chain or the windows are at fault, not one
        ((FAILED, ALL | {"releases": (1,)}), {2, 3}),
        ((FAILED, ALL), set()),  # nobody released: nothing may be summed
    ],
)
def test_missing_is_who_did_not_do_the_part_of_the_last_phase(course, missing):
    assert {each.client for each in looked_at(course).missing} == missing


def test_of_a_sample_only_who_drew_can_be_missing():
    found = looked_at((SKIPPED, TWO), (FAILED, WITHOUT_3), rate=500_000)
    assert {each.client for each in found.missing} == {3}
    assert looked_at((SKIPPED, TWO), rate=500_000).missing == ()


def test_an_end_without_a_closed_round_is_no_result():
    found = looked_at(FAILURE, FAILURE, terms=dataclasses.replace(TERMS, rounds=1, repeats=1))
    assert found.without_result and found.is_urgent and found.opens_after == 0
    (sentence,) = found.warnings
    assert "none closed, so that there is no result" in sentence and "client 3 since round 1 (block 100)" in sentence


def test_skipped_rounds_end_nothing():
    terms = dataclasses.replace(TERMS, rounds=1, repeats=1)
    assert not looked_at(*5 * [(SKIPPED, TWO)], terms=terms).ended


def test_an_end_with_fewer_rounds_than_wanted_says_how_many():
    found = looked_at((CLOSED, ALL), FAILURE, FAILURE, terms=dataclasses.replace(TERMS, rounds=2, repeats=1))
    assert not found.without_result and "only 1 of 2 closed" in found.warnings[0]


def test_a_sentence_names_few_of_many():
    found = looked_at((SKIPPED, TWO), (SKIPPED, TWO), members=100)
    assert len(found.missing) == 98 and f"and {98 - MOST_NAMED} more" in found.warnings[0]
