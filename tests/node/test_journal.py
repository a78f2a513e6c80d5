"""The journal: encrypted, atomic, gone after the round, and never silently wrong."""

import os
import signal
import subprocess
import sys

import pytest

from node.journal import Journal, JournalDamaged, RoundNote

KEY = bytes(range(32))


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "journal", KEY)


def test_what_was_saved_is_read_by_a_new_process_object(journal, tmp_path):
    journal.save(RoundNote(3, secrets="ab" * 96, committed=True))
    journal.write(3, "update", b"weights")
    again = Journal(tmp_path / "journal", KEY)
    assert again.note(3) == RoundNote(3, secrets="ab" * 96, committed=True)
    assert again.read(3, "update") == b"weights"
    assert again.note(4) is None and again.read(3, "masked") is None


def test_nothing_on_disk_shows_the_secret_and_nobody_else_may_read(journal, tmp_path):
    journal.save(RoundNote(1, secrets="5ec2e7" * 16))
    files = list((tmp_path / "journal").iterdir())
    assert files
    for path in files:
        assert b"5ec2e7" not in path.read_bytes()
        assert path.stat().st_mode & 0o077 == 0
    assert "5ec2e7" not in repr(journal.note(1))


def test_every_changed_byte_is_noticed(journal, tmp_path):
    journal.write(1, "update", b"weights")
    (path,) = (tmp_path / "journal").iterdir()
    sealed = path.read_bytes()
    for index in range(len(sealed)):
        path.write_bytes(sealed[:index] + bytes([sealed[index] ^ 1]) + sealed[index + 1 :])
        with pytest.raises(JournalDamaged):
            journal.read(1, "update")


@pytest.mark.parametrize("length", [0, 5, 20])
def test_a_truncated_file_is_noticed(journal, tmp_path, length):
    journal.write(1, "update", b"weights")
    (path,) = (tmp_path / "journal").iterdir()
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(JournalDamaged):
        journal.read(1, "update")


def test_a_file_moved_to_another_round_is_noticed(journal, tmp_path):
    journal.write(1, "note", b"{}")
    (path,) = (tmp_path / "journal").iterdir()
    path.rename(path.with_name(path.name.replace("00000001", "00000002")))
    with pytest.raises(JournalDamaged):
        journal.note(2)


def test_another_key_reads_nothing(journal, tmp_path):
    journal.save(RoundNote(1, secrets="00"))
    with pytest.raises(JournalDamaged):
        Journal(tmp_path / "journal", bytes(32)).note(1)


def test_destroy_removes_ended_rounds_only(journal, tmp_path):
    leftover = tmp_path / "journal" / "00000001-update.sealed.tmp"
    leftover.write_bytes(b"of a killed writer")
    for number in (1, 2, 3):
        journal.save(RoundNote(number, secrets="00"))
        journal.write(number, "update", b"weights")
    journal.destroy(before=2)
    assert journal.note(1) is None and journal.read(2, "update") is None
    assert journal.note(3) is not None and not leftover.exists()


WRITER = """
import sys
from pathlib import Path
from node.journal import Journal
journal = Journal(Path(sys.argv[1]), bytes(range(32)))
print("ready", flush=True)
while True:
    for value in (b"a" * 100_000, b"b" * 100_000):
        journal.write(1, "update", value)
"""


def test_rounds_with_an_upload_are_remembered_for_good(journal, tmp_path):
    assert journal.uploads() == ()
    for number in (2, 1, 2):
        journal.count_upload(number)
    journal.destroy(before=9)
    assert Journal(tmp_path / "journal", KEY).uploads() == (1, 2)
    path = tmp_path / "journal" / "uploads.sealed"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(JournalDamaged, match="remove it"):
        journal.uploads()


def test_a_killed_writer_leaves_the_old_or_the_new_bytes(tmp_path):
    for _ in range(5):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE)
        process.stdout.readline()
        while not list(tmp_path.glob("*.sealed")):
            os.sched_yield()
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert Journal(tmp_path, KEY).read(1, "update") in (b"a" * 100_000, b"b" * 100_000)
