"""The journal: encrypted, atomic, gone after the round, and never silently wrong."""

import os
import signal
import subprocess
import sys

import pytest

from fedgrove.node.base.key_slots import ID_BYTES, PAGE_BYTES, SLOT_BYTES, keeps_overwritten
from fedgrove.node.protocol.journal import Journal, JournalDamaged, RoundNote

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
    (path,) = (tmp_path / "journal").glob("*.sealed")
    sealed = path.read_bytes()
    for index in range(len(sealed)):
        path.write_bytes(sealed[:index] + bytes([sealed[index] ^ 1]) + sealed[index + 1 :])
        with pytest.raises(JournalDamaged):
            journal.read(1, "update")


@pytest.mark.parametrize("length", [0, 5, 20])
def test_a_truncated_file_is_noticed(journal, tmp_path, length):
    journal.write(1, "update", b"weights")
    (path,) = (tmp_path / "journal").glob("*.sealed")
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(JournalDamaged):
        journal.read(1, "update")


def test_a_file_moved_to_another_round_is_noticed(journal, tmp_path):
    journal.write(1, "note", b"{}")
    (path,) = (tmp_path / "journal").glob("*.sealed")
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
from fedgrove.node.protocol.journal import Journal
journal = Journal(Path(sys.argv[1]), bytes(range(32)))
print("ready", flush=True)
while True:
    for value in (b"a" * 100_000, b"b" * 100_000):
        journal.write(1, "update", value)
"""


@pytest.mark.parametrize(("name", "count"), [("uploads", Journal.count_upload), ("releases", Journal.count_release)])
def test_rounds_with_an_upload_or_a_release_are_remembered_for_good(journal, tmp_path, name, count):
    assert getattr(journal, name)() == ()
    for number in (2, 1, 2):
        count(journal, number)
    journal.destroy(before=9)
    again = Journal(tmp_path / "journal", KEY)
    assert getattr(again, name)() == (1, 2)
    path = tmp_path / "journal" / f"{name}.sealed"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(JournalDamaged, match="remove it"):
        getattr(again, name)()


def test_a_killed_writer_leaves_the_old_or_the_new_bytes(tmp_path):
    for _ in range(5):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE)
        process.stdout.readline()
        while not list(tmp_path.glob("*.sealed")):
            os.sched_yield()
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert Journal(tmp_path, KEY).read(1, "update") in (b"a" * 100_000, b"b" * 100_000)


def test_a_changed_byte_of_its_key_is_noticed(journal, tmp_path):
    journal.write(1, "update", b"weights")
    path = tmp_path / "journal" / "keys"
    slots = path.read_bytes()
    for index in range(SLOT_BYTES):
        path.write_bytes(slots[:index] + bytes([slots[index] ^ 1]) + slots[index + 1 :])
        with pytest.raises(JournalDamaged):
            journal.read(1, "update")


def test_the_slot_file_keeps_its_place_and_is_used_again(journal, tmp_path):
    path = tmp_path / "journal" / "keys"
    journal.write(1, "update", b"weights")
    before = path.stat()
    for number in range(2, 200):
        journal.write(number, "update", b"weights")
        journal.keep("points", b"%d" % number)
        journal.destroy(before=number - 1)
    after = path.stat()
    assert (after.st_ino, after.st_size) == (before.st_ino, before.st_size) == (before.st_ino, PAGE_BYTES)
    assert after.st_mode & 0o777 == 0o600


def test_it_grows_by_a_page_when_much_is_kept(journal, tmp_path):
    names = [f"request-{number}" for number in range(PAGE_BYTES // SLOT_BYTES + 1)]
    for name in names:
        journal.keep(name, name.encode())
    assert [Journal(tmp_path / "journal", KEY).kept(name) for name in names] == [name.encode() for name in names]
    assert (tmp_path / "journal" / "keys").stat().st_size == 2 * PAGE_BYTES


@pytest.mark.parametrize("plant", [lambda path: os.mkfifo(path), lambda path: path.symlink_to("/dev/zero")])
def test_something_else_in_place_of_the_keys_is_damage(tmp_path, plant):
    (tmp_path / "00000001-note.sealed").write_bytes(bytes(100))
    plant(tmp_path / "keys")
    with pytest.raises(JournalDamaged, match="not a regular file"):
        Journal(tmp_path, KEY)


# What a client does with its journal, ended after any write to the disk, or in the middle of one. ``kept`` may be the
# old bytes or the new ones; what is destroyed is destroyed by the next process if not by this one.
STORY = [
    lambda journal: journal.write(1, "note", b"first note"),
    lambda journal: journal.write(1, "state", b"state"),
    lambda journal: journal.keep("points", b"old points"),
    lambda journal: journal.write(1, "note", b"second note"),
    lambda journal: journal.keep("points", b"new points"),
    lambda journal: journal.write(2, "state", b"state"),
    lambda journal: journal.destroy(before=1),
]
CALLS = ("pwrite", "fdatasync", "fsync", "unlink", "replace", "open", "close")


def tell(directory, last, torn):
    """The story in a process that is killed at its ``last``-th call to the system; whether it came to its end."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    made = 0

    def counted(name, call):
        def counting(*arguments, **options):
            nonlocal made
            made += 1
            if made == last:
                if torn and name == "pwrite":
                    call(arguments[0], arguments[1][: len(arguments[1]) // 2], *arguments[2:])
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        return counting

    try:
        for name in CALLS:
            setattr(os, name, counted(name, getattr(os, name)))
        journal = Journal(directory, KEY)
        for act in STORY:
            act(journal)
        os._exit(0)
    finally:
        os._exit(1)


@pytest.mark.parametrize("torn", [False, True])
def test_killed_between_any_two_calls_it_goes_on_and_no_key_outlives_what_it_was_for(tmp_path, torn):
    for last in range(1, 500):
        directory = tmp_path / str(last)
        ended = tell(directory, last, torn)
        journal = Journal(directory, KEY)
        note, points, state = journal.read(1, "note"), journal.kept("points"), journal.state(before=3)
        assert note in (None, b"first note", b"second note") and points in (None, b"old points", b"new points")
        assert state in (None, b"state") and (points is None or note or state)
        named = {path.read_bytes()[:ID_BYTES] for path in directory.glob("*.sealed")}
        slots = (directory / "keys").read_bytes() if (directory / "keys").exists() else b""
        taken = {slots[at + 4 : at + 4 + ID_BYTES] for at in range(0, len(slots), SLOT_BYTES)} - {bytes(ID_BYTES)}
        assert taken == named and not list(directory.glob("*.tmp"))
        for act in STORY:
            act(journal)
        assert (journal.read(1, "note"), journal.kept("points"), journal.state(before=3)) == (
            None,
            b"new points",
            b"state",
        )
        if ended:
            break
    assert ended and last > 40


def test_file_systems_that_keep_what_is_overwritten_are_named(tmp_path, monkeypatch):
    mounts = tmp_path / "mountinfo"
    monkeypatch.setattr("fedgrove.node.base.key_slots._MOUNTS", mounts)
    line = "{0} 1 0:{0} / {1} rw,relatime shared:1 - {2} /dev/x rw\n"
    lines = [line.format(1, "/", "ext4"), line.format(2, tmp_path, "btrfs")]
    mounts.write_text("".join(lines))
    assert keeps_overwritten(tmp_path) == "btrfs"
    assert keeps_overwritten(tmp_path.parent) == ""
    mounts.write_text("".join([*lines, line.format(3, tmp_path, "ext4")]))
    assert keeps_overwritten(tmp_path) == ""
    mounts.write_text("".join([*lines, line.format(3, tmp_path, "ext4").replace(" rw\n", " rw,data=journal\n")]))
    assert keeps_overwritten(tmp_path) == "ext4 with data=journal"
    mounts.unlink()
    assert keeps_overwritten(tmp_path) == ""


def test_a_journal_belongs_to_the_federation_that_it_was_begun_in(journal, tmp_path):
    journal.bind(31337, "0xAb")
    again = Journal(tmp_path / "journal", KEY)
    again.bind(31337, "0xAb")
    with pytest.raises(JournalDamaged, match=r"federation.sealed was not written with this keystore.*--directory"):
        Journal(tmp_path / "journal", bytes(32)).bind(31337, "0xAb")
    for chain_id, ledger in ((1, "0xAb"), (31337, "0xCd")):
        with pytest.raises(JournalDamaged, match=r"journal of another federation.*--directory"):
            again.bind(chain_id, ledger)
    again.bind(31337, "0xAb")
