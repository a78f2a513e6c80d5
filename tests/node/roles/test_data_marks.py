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
