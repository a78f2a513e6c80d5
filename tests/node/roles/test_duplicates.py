"""Which of two processes with one keystore ends, by what the ledger has and what the journal made."""

from types import SimpleNamespace

import pytest

from fedgrove.node.base.files import AlreadyInUse
from fedgrove.node.protocol.journal import Journal
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.roles.duplicates import Duplicates

ME = 1


def rounds_with(*draws):
    """A ledger on which client ``ME`` drew in these rounds, at these blocks."""
    found = {}
    for number, block in draws:
        found[number] = RoundRecords(SimpleNamespace(round=number))
        found[number].draws[ME] = SimpleNamespace(mask_key=bytes(32), at=SimpleNamespace(block=block))
    return SimpleNamespace(rounds=found, latest=found[max(found)] if found else None)


def watching(tmp_path, begun, rounds):
    """A watch since block 10, of a process whose journal drew first in round ``begun``."""
    journal = Journal(tmp_path, bytes(32))
    if begun:
        journal.keep("begun", str(begun).encode())
    duplicates = Duplicates(journal)
    duplicates.look(rounds, ME, 10)
    return duplicates


@pytest.mark.parametrize("begun", [0, 2])
def test_a_process_that_was_not_there_at_the_first_draw_ends_when_another_one_acts(tmp_path, begun):
    duplicates = watching(tmp_path, begun, rounds_with((1, 5)))
    with pytest.raises(AlreadyInUse, match=r"the draw of client 1 in round 3 .* the other process was first"):
        duplicates.look(rounds_with((1, 5), (3, 20)), ME, 20)
    assert not duplicates.alarm


def test_the_process_that_made_the_first_draw_says_so_and_ends_when_a_second_round_shows_another_one(tmp_path):
    duplicates = watching(tmp_path, 1, rounds_with((1, 5)))
    duplicates.look(rounds_with((1, 5), (3, 20)), ME, 20)
    assert duplicates.alarm.startswith("another process uses this keystore: the draw of client 1 in round 3")
    with pytest.raises(AlreadyInUse, match="it continues"):
        duplicates.look(rounds_with((1, 5), (3, 20), (4, 30)), ME, 30)


def test_records_from_before_the_watch_are_nobody_elses(tmp_path):
    duplicates = watching(tmp_path, 0, rounds_with())
    duplicates.look(rounds_with((1, 10)), ME, 20)
    assert not duplicates.alarm


@pytest.mark.parametrize("kept", [{"releases": (1, 2, 3)}, {"file": 4}])
def test_what_an_endpoint_that_was_behind_shows_later_is_its_own(tmp_path, kept):
    """At its start the client was shown block 10; its journal has destroyed what it made since."""
    journal = Journal(tmp_path, bytes(32))
    journal.keep("begun", b"1")
    for number in kept.get("releases", ()):
        journal.count_release(number)
    if "file" in kept:
        journal.write(kept["file"], "state", b"its strategy's")
    behind, later = rounds_with((1, 5)), rounds_with((1, 5), (2, 15), (3, 25))
    duplicates = Duplicates(journal)
    duplicates.look(behind, ME, 10)
    duplicates.look(later, ME, 30)
    assert not duplicates.alarm
    duplicates.look(rounds_with((1, 5), (2, 15), (3, 25), (5, 35)), ME, 40)
    assert "in round 5" in duplicates.alarm
