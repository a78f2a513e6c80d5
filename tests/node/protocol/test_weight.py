"""A member's weight: its own number, kept in its journal, and the same in all rounds from one model."""

import pytest

from fedgrove.common.errors import InvalidInput
from fedgrove.node.protocol.journal import Journal, JournalDamaged
from fedgrove.node.protocol.weight import OwnWeight

FIRST, SECOND = b"1" * 32, b"2" * 32


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path, bytes(32))


def never() -> int:
    raise AssertionError("nobody counts")


def test_a_member_begins_with_what_it_says_or_with_what_is_counted(journal, tmp_path):
    assert OwnWeight(journal).own == 0
    assert OwnWeight(journal).begin(7, never) == 7
    other = Journal(tmp_path / "other", bytes(32))
    assert OwnWeight(other).begin(None, lambda: 60) == 60


def test_what_it_began_with_stays_whatever_is_counted_later(journal):
    OwnWeight(journal).begin(None, lambda: 60)
    assert OwnWeight(journal).begin(None, never) == 60 and OwnWeight(journal).begin(60, never) == 60


def test_another_number_on_the_command_line_is_refused_with_what_to_do(journal):
    OwnWeight(journal).begin(7, never)
    sentence = "weight is 7: leave --weight out, or change it with `fedgrove keys weigh 9`"
    with pytest.raises(InvalidInput, match=sentence):
        OwnWeight(journal).begin(9, never)


def test_a_change_holds_from_the_next_model_on(journal):
    weight = OwnWeight(journal)
    weight.begin(7, never)
    assert weight.of(FIRST) == 7
    OwnWeight(journal).change(9)
    assert [weight.of(model) for model in (FIRST, SECOND, FIRST)] == [7, 9, 7]


def test_the_weights_of_the_latest_models_are_remembered(journal):
    weight = OwnWeight(journal)
    weight.begin(1, never)
    for number in range(1, 40):
        weight.change(number)
        assert weight.of(bytes([number]) * 32) == number
    assert [weight.of(bytes([number]) * 32) for number in (24, 39, 1)] == [24, 39, 39]


def test_what_is_no_weight_is_a_sentence(journal):
    with pytest.raises(JournalDamaged, match="lost this member's weight"):
        OwnWeight(journal).of(FIRST)
    journal.keep("weight", b"{}")
    with pytest.raises(JournalDamaged, match="weight cannot be read"):
        OwnWeight(journal).begin(None, never)
