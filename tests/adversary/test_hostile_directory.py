"""A run's directory made by somebody who wants its auditor to hang, to run out of memory, or to overlook something.

Who attacks: whoever hands out a directory of ``fedgrove demo --out`` or ``fedgrove kmeans``. It wants the audit to wait
for ever (a pipe in place of a block), to read without end (a link to a device), to say "verified" of a directory that
holds more than a run, or to write where it only reads.

What stops it: before anything is read, everything in the directory is accounted for: names that a run writes, regular
files, sizes within bounds; files are opened without following links or waiting. Blocks nobody refers to are named.
"""

import hashlib
import json
import os
import shutil
import socket
import stat

import pytest

from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.audit.archive import LEDGER, MANIFEST, REPORT, STORE, audit_car, audit_directory, export_car
from fedgrove.node.audit.verdict import Verdict
from tests.adversary.bounded import HANGS, TOO_MUCH, bounded
from tests.adversary.media import read_only

BLOCKS, PINS = f"{STORE}/blocks", f"{STORE}/pins"


@pytest.fixture
def kept(run, tmp_path):
    """A private copy of a run's directory."""
    shutil.copytree(run.directory, tmp_path / "kept")
    return tmp_path / "kept"


def audit(directory) -> Verdict:
    return bounded(lambda: audit_directory(directory))


def needed(directory):
    """Name of a block without which the run cannot be checked."""
    return f"{BLOCKS}/{max((directory / BLOCKS).iterdir(), key=lambda path: path.stat().st_size).name}"


def pipe(path):
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def endless(path):
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def device(path):
    path.unlink(missing_ok=True)
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("device nodes can be made by root only")


def listener(path):
    path.unlink(missing_ok=True)
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


def elsewhere(path):
    """The same bytes in another place, where they may change while they are audited."""
    place = path.with_name(f"{path.name}-elsewhere")
    place.write_bytes(path.read_bytes() if path.exists() else b"")
    path.unlink(missing_ok=True)
    place = place.rename(next(parent for parent in path.parents if parent.name == "kept").parent / place.name)
    path.symlink_to(place)


def folder(path):
    path.unlink(missing_ok=True)
    path.mkdir()


def huge(path):
    """A terabyte that takes no room on the disk."""
    with path.open("ab") as file:
        file.truncate(1 << 40)


PLANTS = [pipe, endless, device, listener, elsewhere, folder, huge]


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("name", [LEDGER, REPORT, MANIFEST, needed])
def test_what_is_no_plain_file_of_a_fitting_size_is_a_bad_record_that_is_named(kept, name, plant):
    name = name(kept) if callable(name) else name
    plant(kept / name)
    verdict = audit(kept)
    assert verdict.exit_code == 1 and verdict.first_bad_record.field == f"file {name}", verdict


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("name", ["extra", f"{STORE}/extra", f"{BLOCKS}/{'ab' * 32}", f"{PINS}/{'cd' * 32}"])
def test_so_is_one_that_no_record_needs(kept, name, plant):
    plant(kept / name)
    verdict = audit(kept)
    assert verdict.exit_code == 1 and verdict.first_bad_record.field == f"file {name}", verdict


def listed(directory):
    """Make the manifest fit whatever is there: nobody signs it."""
    files = {
        path.relative_to(directory).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file() and path.name != MANIFEST
    }
    (directory / MANIFEST).write_text(json.dumps({"files": files}, indent=1, sort_keys=True) + "\n")


def test_what_nothing_refers_to_is_named_although_the_manifest_lists_it(kept, tmp_path):
    assert not audit(kept).remarks
    planted = DiskStore(kept / STORE).put(b"the model that we would rather have")
    listed(kept)
    verdict = audit(kept)
    named = f"store: it holds 1 block that nothing refers to, as {planted.digest.hex()}"
    assert verdict.verdict == "verified" and [str(each) for each in verdict.remarks] == [named]
    export_car(kept, tmp_path / "run.car")
    assert [str(each) for each in audit_car(tmp_path / "run.car").remarks] == [named]


def test_so_is_a_pin_without_a_block(kept):
    (kept / PINS / ("ab" * 32)).touch()
    listed(kept)
    assert "ab" * 32 in str(audit(kept).remarks)


def test_what_a_killed_process_was_writing_is_no_part_of_a_run(kept):
    name = f"{STORE}/temp/{'ab' * 32}"
    (kept / name).write_bytes(b"half of a block")
    listed(kept)
    assert audit(kept).first_bad_record.field == f"file {name}"
    DiskStore(kept / STORE).discard_unfinished()
    listed(kept)
    assert audit(kept).verdict == "verified"


@pytest.mark.parametrize(
    "name", ["index.html", f"{STORE}/notes.txt", f"{BLOCKS}/{'AB' * 32}", f"{PINS}/x", f"{STORE}/blocks2/{'ab' * 32}"]
)
def test_a_stranger_is_found_although_the_manifest_lists_it(kept, name):
    (kept / name).parent.mkdir(exist_ok=True)
    (kept / name).write_bytes(b"not of this run")
    listed(kept)
    field = audit(kept).first_bad_record.field
    assert f"file {name}".startswith(field) and field != f"file {STORE}"


def test_a_block_that_is_not_what_its_name_says_is_found_although_nobody_needs_it(kept):
    name = f"{BLOCKS}/{'ab' * 32}"
    (kept / name).write_bytes(b"not of this digest")
    listed(kept)
    assert audit(kept).first_bad_record.field == f"file {name}"


def test_names_that_would_write_to_a_terminal_are_shown_harmless(kept):
    for name in (b"\x1b[2Jgone\nverified", b"\xff\xfe"):
        os.close(os.open(os.fsencode(kept) + b"/" + name, os.O_CREAT | os.O_WRONLY))
        verdict = audit(kept)
        assert verdict.exit_code == 1 and verdict.first_bad_record.field.isprintable()
        str(verdict.first_bad_record).encode()
        os.unlink(os.fsencode(kept) + b"/" + name)


def test_more_files_than_any_run_has_are_refused(kept, monkeypatch):
    monkeypatch.setattr("fedgrove.node.audit.run_files.MAX_FILES", 10)
    assert "more than 10 files" in audit(kept).reason


def test_more_bytes_than_any_run_has_are_refused(kept, monkeypatch):
    monkeypatch.setattr("fedgrove.node.audit.run_files.MAX_RUN_BYTES", 10_000)
    assert "more than 10000 bytes" in audit(kept).reason


def test_a_medium_that_takes_no_writes_is_audited_and_exported(kept, tmp_path):
    shutil.rmtree(kept / STORE / "temp")  # an empty folder that archives and version control leave out
    with read_only(kept) as medium:
        assert audit_directory(medium).verdict == "verified"
        export_car(medium, tmp_path / "run.car")


def test_a_reader_makes_nothing(kept):
    shutil.rmtree(kept / STORE)
    audit_directory(kept)
    assert not (kept / STORE).exists()


# --- the attack wins where the mend is taken out ----------------------------------------------------------------------


def believing(monkeypatch):
    """Every file is taken for one of a run, and opened as it is."""

    def found(directory):
        files = (path for path in directory.rglob("*") if path.is_file())
        return {path.relative_to(directory).as_posix(): path.stat().st_size for path in files}

    monkeypatch.setattr("fedgrove.node.audit.archive.run_files", found)


def opening_anything(monkeypatch):
    believing(monkeypatch)
    monkeypatch.setattr("fedgrove.ipfs.disk.open_regular", lambda path, follow: path.open("rb"))
    monkeypatch.setattr("fedgrove.node.audit.archive.read_regular", lambda path, limit, follow: path.read_bytes())


@pytest.mark.mutants
@pytest.mark.parametrize(("name", "plant", "fate"), [(needed, pipe, HANGS), (REPORT, endless, TOO_MUCH)])
def test_without_the_mend_the_audit_never_ends(kept, monkeypatch, name, plant, fate):
    opening_anything(monkeypatch)
    plant(kept / (name(kept) if callable(name) else name))
    # Memory runs out in seconds, on a machine with nothing else to do.
    assert bounded(lambda: audit_directory(kept), seconds=10 if fate == HANGS else 60) == fate


@pytest.mark.mutants
def test_without_the_mend_a_stranger_is_verified(kept, monkeypatch):
    believing(monkeypatch)
    (kept / "index.html").write_bytes(b"not of this run")
    listed(kept)
    assert audit(kept).verdict == "verified"


@pytest.mark.mutants
def test_without_the_mend_nobody_hears_of_a_foreign_blob(kept, monkeypatch):
    monkeypatch.setattr("fedgrove.node.audit.archive.unaccounted", lambda *_: None)
    DiskStore(kept / STORE).put(b"the model that we would rather have")
    listed(kept)
    assert not audit(kept).remarks


@pytest.mark.mutants
def test_without_the_mend_a_reader_writes(kept, monkeypatch):
    monkeypatch.setattr("fedgrove.node.audit.archive.DiskReader", DiskStore)
    shutil.rmtree(kept / STORE)
    audit_directory(kept)
    assert (kept / STORE).exists()
