"""A disk that takes no more: every command ends with one sentence and a code that is not zero, and nothing is lost.

Nobody need attack for this to happen, but whoever can fill a disk (a member's large blobs, a log) could otherwise break
what a node has, or make it forget what it has promised. What stops it: nothing is replaced before what replaces it is
whole and durable; the command ends, says what is full, and goes on where it was when it is run again.
"""

import errno
import io
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TextIO

import pytest

from fedgrove.chain.crypto.keys import Keys, save
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Committed
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.store import DiskFull
from fedgrove.node.audit.archive import export_car
from fedgrove.node.cli.main import BROKEN
from fedgrove.node.cli.main import run as main
from fedgrove.node.cli.output import fault_of_disk
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.protocol.journal import Journal, JournalDamaged
from fedgrove.node.protocol.step import attempt
from fedgrove.node.roles.logs import ServiceLog
from fedgrove.node.roles.metrics import ServiceMetrics
from fedgrove.node.roles.service import Service
from tests import warm
from tests.adversary.media import fill, small_disk
from tests.node.federation import Federation

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)
FULL = "No space left on device"


@pytest.fixture
def disk(tmp_path):
    """Four MiB, empty."""
    with small_disk(tmp_path / "small", 4096) as point:
        yield point


def fedgrove(*arguments, stdout=None, temporary=None):
    """The command, with so much room for what it writes; a process from its start if its output goes elsewhere."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "FEDGROVE_PASSWORD": "of a test"}
    if temporary is not None:
        variables["TMPDIR"] = str(temporary)
    words = [sys.executable, "-m", "fedgrove.node.cli"] if stdout else warm.command()
    command, stdout = [*words, *map(str, arguments)], stdout or subprocess.PIPE
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=240, env=variables)


def one_sentence(result) -> str:
    """The sentence that a command ended with; nothing else than progress and this may be in its output."""
    assert result.returncode not in (0, 1), result.stderr
    assert "Traceback" not in result.stderr, result.stderr
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("fedgrove: ") and ("disk" in last or FULL in last), result.stderr
    return last


def test_keys_are_made_whole_or_not_at_all(disk):
    ballast = fill(disk)
    one_sentence(fedgrove("keys", "new", disk / "alice.json"))
    assert list(disk.iterdir()) == [ballast]
    ballast.unlink()
    save(disk / "alice.json", Keys.generate(), "of a test", cost=2)
    before = (disk / "alice.json").read_bytes()
    fill(disk)
    one_sentence(fedgrove("keys", "backup", disk / "alice.json", disk / "copy.json"))
    assert not (disk / "copy.json").exists() and (disk / "alice.json").read_bytes() == before


def test_an_archive_is_exported_whole_or_not_at_all(run, disk):
    target = disk / "run.car"
    target.write_bytes(b"an older archive")
    fill(disk, leave=1 << 17)
    one_sentence(fedgrove("audit", "export", run.directory, target))
    assert target.read_bytes() == b"an older archive"
    assert sorted(path.name for path in disk.iterdir()) == ["ballast", "run.car"]


def test_an_archive_that_cannot_be_unpacked_is_no_bad_record(run, disk, tmp_path):
    """Exit code 1 would say that the history is false."""
    export_car(run.directory, tmp_path / "run.car")
    fill(disk, leave=1 << 14)
    one_sentence(fedgrove("audit", "verify", tmp_path / "run.car", temporary=disk))


@pytest.mark.parametrize("full", ["pages", "index"])
def test_pages_are_exported_all_or_none(run, disk, tmp_path, full):
    pages, index = (disk / "site", tmp_path / "index") if full == "pages" else (tmp_path / "site", disk / "index")
    ballast = fill(disk, leave=1 << 17)
    command = ("explorer", run.directory, "--export", pages, "--index", index)
    one_sentence(fedgrove(*command, temporary=disk if full == "index" else None))
    assert not pages.exists() or not list(pages.iterdir())
    ballast.unlink()
    assert fedgrove(*command).returncode == 0


@pytest.mark.parametrize(("room", "resumed"), [(1 << 14, False), (1 << 20, True)])
def test_a_demonstration_ends_and_goes_on_where_it_was(disk, room, resumed):
    """With little room its contracts are not deployed, and nothing is left; with more it is in a round by then."""
    ballast = fill(disk, leave=room)
    command = ("demo", "--clients", 3, "--rounds", 2, "--strategy", "fedavg", "--out", disk / "run")
    sentence = one_sentence(fedgrove(*command))
    assert ("--resume" in sentence) == resumed, sentence
    ballast.unlink()
    again = fedgrove(*command, *["--resume"] * resumed)
    assert again.returncode == 0 and "audit: verified" in again.stdout, again.stderr


def test_a_demonstration_ends_whose_journals_find_no_room(disk):
    fill(disk, leave=1 << 14)
    one_sentence(fedgrove("demo", "--clients", 3, "--rounds", 1, "--strategy", "fedavg", temporary=disk))


def test_a_simulation_ends_and_goes_on_where_it_was(disk, tmp_path):
    options = ["--clients", 4, "--rounds", 2, "--executor", "inline"]
    options += ["--set", "federation.sampling_rate=0.5", "--set", "scenario.test_samples=50"]
    assert fedgrove("simulate", *options, "--out", tmp_path / "undisturbed").returncode == 0
    ballast = fill(disk, leave=1 << 16)
    command = ["simulate", *options, "--out", disk / "run"]
    sentence = one_sentence(fedgrove(*command))
    ballast.unlink()
    resumed = fedgrove(*command, *(["--resume"] if "--resume" in sentence else []))
    assert resumed.returncode == 0, resumed.stderr
    found = [next(place.rglob("record.json")) for place in (disk / "run", tmp_path / "undisturbed")]
    records = [json.loads(path.read_text()) for path in found]
    assert records[0]["rounds"] == records[1]["rounds"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", [("--help",), ("audit", "--help"), ("privacy", "--help")])
def test_output_that_cannot_be_written_is_said(arguments):
    with open("/dev/full", "w") as full:
        one_sentence(fedgrove(*arguments, stdout=full))


def test_a_reader_who_has_seen_enough_is_no_fault():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        result = fedgrove("--help", stdout=gone)
    assert result.stderr == "" and result.returncode


# --- a client whose disk is full at any moment ------------------------------------------------------------------------

MOMENTS = ["", "drew", "shared", "committed"]


def through_a_full_disk(federation: Federation, disk, moment: str) -> Exception:
    """Run to the end; from a moment of client 1 on the disk is full, until somebody ends for it and all begin anew."""
    coordinator, clients = federation.coordinator(), federation.clients()
    ballast, met = None, None
    for _ in range(1000):
        if met is None and ballast is None and moment in ["", *federation.said("client 1")]:
            ballast = fill(disk)
        try:
            if not federation.turn(coordinator, clients):
                return met
        except (OSError, DiskFull) as fault:
            met = fault
            ballast.unlink()
            coordinator, clients = federation.coordinator(), federation.clients()
    raise AssertionError(f"the federation did not end: {federation.log[-5:]}")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("where", ["journals", "store"])
def test_a_client_ends_and_goes_on_where_it_was(disk, tmp_path, where, moment):
    with embedded() as network:
        federation = Federation.found(network, tmp_path / "public", clients=3, rounds=1, training=QUICK)
        if where == "journals":
            federation.directory = disk
        else:
            federation.store = DiskStore(disk / "store")
        federation.register()
        met = through_a_full_disk(federation, disk, moment)
        assert isinstance(met, DiskFull) if where == "store" else FULL in fault_of_disk(met)
        records = federation.history().records()
        assert [record.round for record in records if isinstance(record, Closed)] == [1]
        assert {record.client for record in records if isinstance(record, Committed)} == {1, 2, 3}
        assert federation.audit().verdict == "verified"


class Waited(Exception):
    """A service has looked once, and waits for the next block."""


class Waiting:
    """New blocks that do not come."""

    def wait(self, seconds):
        raise Waited


def looked_once(fault: Exception, log: TextIO) -> None:
    """A service with a role that meets a fault, until it waits for the next block."""

    class Role:
        account, finished, view = "", False, SimpleNamespace(block=0)

        def step(self):
            raise fault

    with pytest.raises(Waited):
        Service({"client": Role()}, Waiting(), ServiceLog("client", log), ServiceMetrics(), patience=0).run()


@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, FULL), OSError(errno.EDQUOT, "quota"), DiskFull("full")])
def test_a_service_says_that_its_disk_is_full_and_goes_on(fault):
    log = io.StringIO()
    looked_once(fault, log)
    assert json.loads(log.getvalue())["event"].startswith("the disk is full: make room")


@pytest.mark.parametrize(("number", "raises"), [(errno.ENOSPC, False), (errno.EDQUOT, False), (errno.EPIPE, True)])
def test_a_full_disk_of_the_log_ends_no_service_and_any_other_fault_is_not_hidden(number, raises):
    class Failing(io.StringIO):
        def write(self, text):
            raise OSError(number, os.strerror(number))

    with pytest.raises(OSError, match=os.strerror(number)) if raises else nullcontext():
        ServiceLog("client", Failing()).fault("chain", "Timeout", "one sentence")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_log_that_cannot_be_written_ends_no_service():
    with open("/dev/full", "w") as full:
        looked_once(OSError(errno.ENOSPC, FULL), full)
        with pytest.raises(OSError, match=FULL):
            full.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())


def replaced_on_a_full_disk(disk) -> Journal:
    """A journal that could not replace what it kept, as the next process finds it."""
    journal = Journal(disk / "journal", bytes(32))
    journal.keep("points", b"old points")
    journal.write(1, "note", b"a note")
    fill(disk)
    with pytest.raises(OSError, match=FULL):
        journal.keep("points", bytes(1 << 20))
    return Journal(disk / "journal", bytes(32))


def test_what_could_not_be_replaced_is_as_it_was_and_can_be_destroyed(disk):
    """Keys are overwritten in place, so that no full disk keeps a secret from being destroyed."""
    journal = replaced_on_a_full_disk(disk)
    assert journal.kept("points") == b"old points" and journal.read(1, "note") == b"a note"
    journal.destroy(before=1)
    assert journal.read(1, "note") is None


# --- the fault wins where the mend is taken out -----------------------------------------------------------------------


@pytest.mark.mutants
def test_without_the_mend_what_could_not_be_replaced_is_lost(disk, monkeypatch):
    def in_place(path, pieces, mode):
        data = b"".join(pieces)
        with path.open("wb", buffering=0) as file:
            while data:
                data = data[file.write(data) :]

    monkeypatch.setattr("fedgrove.node.protocol.journal.write_atomically", in_place)
    with pytest.raises(JournalDamaged):
        replaced_on_a_full_disk(disk).kept("points")


@pytest.mark.mutants
def test_without_the_mend_a_full_disk_is_a_traceback(run, disk, tmp_path, monkeypatch, capsys):
    export_car(run.directory, tmp_path / "run.car")
    fill(disk, leave=1 << 14)
    monkeypatch.setattr("fedgrove.node.cli.output.fault_of_disk", lambda mistake: "")
    monkeypatch.setattr("tempfile.tempdir", str(disk))
    monkeypatch.setattr(sys, "argv", ["fedgrove", "audit", "verify", str(tmp_path / "run.car")])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == BROKEN and "Traceback" in capsys.readouterr().err


@pytest.mark.mutants
def test_without_the_mend_a_demonstration_goes_on_as_if_the_disk_could_recover(tmp_path, monkeypatch):
    """A store on a full disk was tried again with every block, for ever."""

    def full(*_):
        raise DiskFull("the disk is full")

    with pytest.raises(DiskFull):
        attempt(full, 1)
    monkeypatch.setattr("fedgrove.node.protocol.step.DiskFull", type("Nothing", (Exception,), {}))
    assert attempt(full, 1).phase == "store"
