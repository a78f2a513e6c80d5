"""Data that took part elsewhere: the member hears of it, once at each start, from whatever place it can be read."""

import json
import os

import pytest

from fedgrove.node.base.files import MARK
from fedgrove.node.roles.data_marks import DataMark, DataMarks

ALICE = DataMark(1, "0x" + "a" * 40, "0x" + "1" * 40, "client")
OTHER_ACCOUNT = DataMark(1, "0x" + "a" * 40, "0x" + "2" * 40, "client")
OTHER_FEDERATION = DataMark(1, "0x" + "b" * 40, "0x" + "1" * 40, "local")
BARE = DataMark(1, "0x" + "c" * 40, "0x" + "1" * 40, "none")


@pytest.fixture
def enter(tmp_path):
    """``enter(mark, directory, data)``: what a client that starts is told."""

    def start(mark, directory="client", data="alice.npz"):
        (tmp_path / directory).mkdir(exist_ok=True)
        return DataMarks(tmp_path / data, tmp_path / directory).enter(mark)

    return start


def test_a_client_that_starts_again_hears_nothing(enter):
    assert enter(ALICE) == enter(ALICE) == []


@pytest.mark.parametrize("other", [OTHER_ACCOUNT, OTHER_FEDERATION])
def test_the_same_data_under_another_account_or_in_another_federation_are_named(enter, other):
    enter(other, directory="other")
    (sentence,) = enter(ALICE)
    assert str(other) in sentence and "adds up" in sentence
    assert enter(ALICE) == [sentence]  # at each start
    assert str(ALICE) in enter(other, directory="other")[0]


def test_data_that_were_moved_are_known_by_the_clients_directory(enter):
    enter(OTHER_FEDERATION)
    assert str(OTHER_FEDERATION) in enter(ALICE, data="moved.npz")[0]


def test_other_data_are_nobodys_business(enter):
    enter(OTHER_ACCOUNT, directory="other", data="bob.npz")
    assert enter(ALICE) == []


def test_rounds_without_noise_void_a_budget_and_two_without_budgets_are_not_worth_a_word(enter):
    enter(BARE, directory="bare")
    assert "without differential privacy" in enter(ALICE)[0]
    assert "that budget no longer holds" in enter(BARE, directory="bare")[0]
    assert enter(DataMark(2, *("0x" + "d" * 40,) * 2, "none"), directory="third", data="bob.npz") == []


# --- a model that is continued ----------------------------------------------------------------------------------------

NEXT = DataMark(2, "0x" + "e" * 40, ALICE.account, "client", ALICE.federation)
LAST = DataMark(3, "0x" + "f" * 40, ALICE.account, "client", NEXT.federation)


@pytest.fixture
def taking_part(tmp_path):
    """``taking_part(mark, answered, epsilon)``: what a client is told that then uploads and spends so much."""

    def start(mark, answered, epsilon=0.0, directory="client"):
        (tmp_path / directory).mkdir(exist_ok=True)
        marks = DataMarks(tmp_path / "alice.npz", tmp_path / directory)
        said = marks.enter(mark)
        marks.note(answered, answered, lambda: epsilon)
        return said

    return start


def test_a_member_hears_how_often_its_data_answered_the_model_and_what_they_spent(enter, taking_part):
    assert taking_part(ALICE, 12, 3.25) == []
    (sentence,) = taking_part(NEXT, 1, 0.5)
    assert f"answered this model in 12 rounds before, {ALICE}" in sentence and "spent ε = 3.25 there" in sentence
    both = enter(LAST)
    assert len(both) == 2 and f"in 1 round before, {NEXT}" in both[0] and f"in 12 rounds before, {ALICE}" in both[1]


def test_a_federation_with_a_model_of_its_own_is_told_of_budgets_only(enter, taking_part):
    taking_part(ALICE, 12, 3.25)
    (sentence,) = enter(OTHER_FEDERATION)
    assert "answered" not in sentence and "adds up" in sentence


def test_uploads_without_noise_are_worth_a_word_where_the_model_is_continued(enter, taking_part):
    taking_part(BARE, 3)
    (sentence,) = enter(DataMark(9, BARE.ledger, BARE.account, "none", BARE.federation))
    assert "in 3 rounds before" in sentence and "without differential privacy" in sentence


def test_every_account_that_answered_with_these_data_is_named(enter, taking_part):
    taking_part(ALICE, 2, 1.0)
    taking_part(OTHER_ACCOUNT, 5, float("inf"), directory="other")
    said = enter(NEXT)
    assert len(said) == 2 and "2 rounds" in said[0] and "5 rounds" in said[1] and "unbounded ε" in said[1]


def test_what_was_counted_stays_when_a_client_starts_again(enter, taking_part, tmp_path):
    taking_part(ALICE, 12, 3.25)
    enter(ALICE)
    (sentence,) = enter(NEXT)
    assert "in 12 rounds" in sentence
    marks = [DataMark(**mark) for mark in json.loads((tmp_path / "alice.npz.budgets.json").read_text())]
    assert [(mark.place, mark.answered) for mark in marks] == [(ALICE.place, 12), (NEXT.place, 0)]


def test_spending_is_reckoned_only_when_something_happened(tmp_path):
    asked = []
    marks = DataMarks(tmp_path / "alice.npz", tmp_path)
    marks.enter(ALICE)
    for answered, ended in ((0, 0), (1, 0), (1, 0), (1, 1), (1, 1)):
        marks.note(answered, ended, lambda: asked.append(1) or 0.5)
    assert len(asked) == 2


def test_marks_that_continue_each_other_in_a_circle_end(enter, taking_part):
    taking_part(ALICE.replace(continues=NEXT.federation), 1, 0.5)
    taking_part(NEXT, 1, 0.5)
    assert len(enter(LAST)) == 2


# --- files that are not as they should be -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{}",
        b"[1]",
        b'[{"chain": 1}]',
        b"[" * 50_000,
        b"x" * 2_000_000,
        b'[{"chain":"1","ledger":2,"account":3,"mechanism":4}]',
    ],
    ids=["empty", "a table", "a number", "a part", "deep", "large", "types"],
)
def test_a_damaged_mark_is_said_and_left_as_it_is(enter, tmp_path, damage):
    place = tmp_path / "alice.npz.budgets.json"
    place.write_bytes(damage)
    (sentence,) = enter(ALICE)
    assert str(place) in sentence and "cannot be read" in sentence
    assert place.read_bytes() == damage
    assert not [said for said in enter(OTHER_ACCOUNT) if str(ALICE) not in said and "cannot be read" not in said]


def test_data_that_cannot_be_written_beside_are_marked_in_the_directory_alone(enter, tmp_path, monkeypatch):
    def refuse(place, *arguments, **options):
        if place.parent == tmp_path:
            raise OSError(30, "Read-only file system")
        return write(place, *arguments, **options)

    from fedgrove.node.roles.data_marks import write_atomically as write

    monkeypatch.setattr("fedgrove.node.roles.data_marks.write_atomically", refuse)
    assert enter(ALICE) == [] and not (tmp_path / "alice.npz.budgets.json").exists()
    assert str(ALICE) in enter(OTHER_ACCOUNT)[0]


def test_marks_are_for_their_owner_alone(enter, tmp_path):
    enter(ALICE)
    for place in (tmp_path / "alice.npz.budgets.json", tmp_path / "client" / "budgets.json"):
        assert os.stat(place).st_mode & 0o777 == 0o600


def test_a_file_keeps_the_last_thousand_marks(enter, tmp_path):
    enter(BARE)
    place = tmp_path / f"alice.npz.{MARK}"
    older = [OTHER_FEDERATION.replace(chain=chain).to_table() for chain in range(1000)]
    place.write_text(json.dumps(older))
    enter(ALICE)
    assert json.loads(place.read_text()) == [*older[1:], ALICE.to_table()]
