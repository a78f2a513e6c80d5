"""Rounds that do not close are counted, and who was missing in them is named with the round since when."""

import dataclasses

import pytest

from fedgrove.chain.records import Closed, Failed, Skipped
from fedgrove.chain.records.deployment import Terms
from fedgrove.node.protocol.rounds import Member, Rounds
from fedgrove.node.status.setbacks import MOST_NAMED, Absentee, setbacks
from tests.node.roles.fakes import entry_with

TERMS = Terms(64 * "1", 64 * "1", rounds=10, repeats=4)


CLOSED, SKIPPED, FAILED = (kind.__new__(kind) for kind in (Closed, Skipped, Failed))


def rounds_of(*courses, members=3, rate=1_000_000):
    """Rounds with their ends, and who did what in them."""
    history = Rounds(members={n: Member(n, f"0x{n}", 0, 0, b"", 0) for n in range(1, members + 1)})
    for number, (end, parts) in enumerate(courses, 1):
        current = entry_with(number, end=end, sealed=None if end is SKIPPED else object(), **parts)
        current.opened.opened_at, current.opened.sampling_rate = 100 * number, rate
        history.rounds[number] = current
    return history


ALL = {"draws": (1, 2, 3), "shares": (1, 2, 3), "commits": (1, 2, 3)}
WITHOUT_3 = {"draws": (1, 2, 3), "shares": (1, 2, 3), "commits": (1, 2)}
TWO = {"draws": (1, 2)}


def test_while_rounds_close_nobody_is_warned():
    found = setbacks(rounds_of((CLOSED, ALL), (SKIPPED, TWO), (CLOSED, ALL)), TERMS)
    assert (found.closed, found.in_vain, found.in_a_row, found.missing, found.warnings) == (2, 1, 0, (), ())


def test_rounds_skipped_in_a_row_name_who_is_missing_since_when():
    found = setbacks(rounds_of((CLOSED, ALL), (CLOSED, WITHOUT_3), (SKIPPED, TWO), (SKIPPED, TWO)), TERMS)
    assert found.in_a_row == 2 and found.missing == (Absentee(3, 2, 200),)
    assert found.warnings[0] == ("the last 2 rounds did not close; missing: client 3 since round 2 (block 200)")


def test_half_of_the_repeats_gone_is_a_warning_of_its_own_also_when_rounds_close_again():
    found = setbacks(rounds_of((SKIPPED, TWO), (CLOSED, ALL), (SKIPPED, TWO), (CLOSED, WITHOUT_3)), TERMS)
    assert found.warnings == (
        "2 rounds did not close, and the terms allow for 4 (federation.repeats): after 2 more the federation closes "
        "fewer than its 10 rounds; missing: client 3 since round 3 (block 300)",
    )


@pytest.mark.parametrize(
    ("course", "missing"),
    [
        ((FAILED, {"draws": (1, 2), "shares": (1,)}), {2, 3}),  # it ended before anybody could commit
        ((FAILED, {"draws": (1, 2, 3)}), set()),  # nobody shared: the chain or the windows are at fault, not one
        ((FAILED, ALL | {"releases": (1,)}), {2, 3}),
    ],
)
def test_missing_is_who_did_not_do_the_part_of_the_last_phase(course, missing):
    assert {each.client for each in setbacks(rounds_of(course), TERMS).missing} == missing


def test_of_a_sample_only_who_drew_can_be_missing():
    found = setbacks(rounds_of((SKIPPED, TWO), (FAILED, WITHOUT_3), rate=500_000), TERMS)
    assert {each.client for each in found.missing} == {3}
    assert setbacks(rounds_of((SKIPPED, TWO), rate=500_000), TERMS).missing == ()


def test_an_end_without_a_closed_round_is_no_result():
    terms = dataclasses.replace(TERMS, rounds=1, repeats=1)
    found = setbacks(rounds_of((SKIPPED, TWO), (SKIPPED, TWO)), terms)
    assert found.without_result
    (sentence,) = found.warnings
    assert "none closed, so that there is no result" in sentence and "client 3 since round 1 (block 100)" in sentence


def test_an_end_with_fewer_rounds_than_wanted_says_how_many():
    terms = dataclasses.replace(TERMS, rounds=2, repeats=1)
    found = setbacks(rounds_of((SKIPPED, TWO), (SKIPPED, TWO), (CLOSED, ALL)), terms)
    assert not found.without_result and "only 1 of 2 closed" in found.warnings[0]


def test_a_sentence_names_few_of_many():
    found = setbacks(rounds_of((SKIPPED, TWO), (SKIPPED, TWO), members=100), TERMS)
    assert len(found.missing) == 98 and f"and {98 - MOST_NAMED} more" in found.warnings[0]
