"""A run at rest: not one byte of its directory changes unnoticed, and the CAR file says the same without a network."""

import json
import shutil

import numpy as np
import pytest

from fedgrove.common.errors import InvalidInput
from fedgrove.node.audit.archive import (
    LEDGER,
    MANIFEST,
    REPORT,
    STORE,
    audit_car,
    audit_directory,
    export_car,
    seal_archive,
)


@pytest.fixture
def kept(run, tmp_path):
    """A private copy of the run's directory."""
    shutil.copytree(run.directory, tmp_path / "kept")
    return tmp_path / "kept"


def change_byte(path, index):
    data = bytearray(path.read_bytes())
    data[index] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)


def test_the_kept_run_is_verified(run):
    verdict = audit_directory(run.directory)
    assert verdict.verdict == "verified" and verdict.exit_code == 0, verdict.reason
    assert verdict.rounds == 2


def test_an_audit_changes_nothing(run):
    before = {path: path.read_bytes() for path in run.directory.rglob("*") if path.is_file()}
    audit_directory(run.directory)
    assert {path: path.read_bytes() for path in run.directory.rglob("*") if path.is_file()} == before


def test_one_changed_byte_in_any_file_is_found(kept):
    chooser = np.random.default_rng(7)
    for path in sorted(path for path in kept.rglob("*") if path.is_file() and path.stat().st_size):
        data = path.read_bytes()
        change_byte(path, int(chooser.integers(len(data))))
        verdict = audit_directory(kept)
        assert verdict.exit_code == 1 and verdict.first_bad_record, path
        path.write_bytes(data)


@pytest.mark.parametrize("name", [REPORT, LEDGER, MANIFEST])
def test_every_region_of_the_written_files_is_covered(kept, name):
    data = (kept / name).read_bytes()
    for index in np.linspace(0, len(data) - 1, 25).astype(int):
        change_byte(kept / name, int(index))
        assert audit_directory(kept).exit_code == 1, f"byte {index} of {name}"
        (kept / name).write_bytes(data)


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("rounds", lambda report: report["rounds"][0].update(accuracy=0.99)),
        ("rounds", lambda report: report["rounds"][1].update(model_cid=report["rounds"][0]["model_cid"])),
        ("rounds", lambda report: report["rounds"][0].update(gas_used=1)),
        ("rounds", lambda report: report["rounds"][0].update(dropped=[])),
        ("rounds", lambda report: report["rounds"].pop()),
        ("gas", lambda report: report["gas"]["draw"].update(mean=1)),
        ("bytes", lambda report: report["bytes"]["1"].update({"1": 1})),
        ("config", lambda report: report["config"]["federation"].update(seed=9)),
        ("ledger", lambda report: report["ledger"].update(head_hash="0x00")),
        ("audit", lambda report: report["audit"].update(verdict="never better")),
        ("praise", lambda report: report.update(praise="best model ever")),
        ("options", lambda report: report.update(options={"federation": {"clients": 1_000}})),
        ("ledger", lambda report: report["ledger"].update(chain_id=float(report["ledger"]["chain_id"]))),  # equal
    ],
)
def test_a_prettier_report_is_found_although_the_manifest_was_made_to_fit(kept, key, change):
    report = json.loads((kept / REPORT).read_text())
    change(report)
    (kept / REPORT).write_text(json.dumps(report, indent=2, sort_keys=True) + "\n")
    seal_archive(kept)
    verdict = audit_directory(kept)
    assert verdict.exit_code == 1 and verdict.first_bad_record.field == f"{REPORT}: {key}", verdict.reason


def test_a_report_that_says_two_things_under_one_key_is_none(kept):
    report = (kept / REPORT).read_text()
    (kept / REPORT).write_text(report.replace("{", '{"rounds": [], ', 1))
    seal_archive(kept)
    assert audit_directory(kept).first_bad_record.field == REPORT


def test_files_that_come_and_go_are_found(kept):
    (kept / "extra").write_text("x")
    assert audit_directory(kept).first_bad_record.field == "file extra"
    (kept / "extra").unlink()
    (kept / MANIFEST).unlink()
    assert audit_directory(kept).first_bad_record.field == MANIFEST


def test_a_missing_report_is_found(kept):
    (kept / REPORT).unlink()
    assert audit_directory(kept).first_bad_record.field == REPORT


def test_a_directory_without_a_run_is_no_archive(tmp_path):
    with pytest.raises(InvalidInput, match="not hold a run"):
        audit_directory(tmp_path)


def test_the_car_file_is_verified_and_names_what_changed(run, tmp_path):
    target = tmp_path / "run.car"
    export_car(run.directory, target)
    assert audit_car(target).verdict == "verified"
    data = target.read_bytes()
    for index in np.linspace(0, len(data) - 1, 12).astype(int):
        target.write_bytes(data)
        change_byte(target, int(index))
        assert audit_car(target).exit_code == 1, f"byte {index}"
    target.write_bytes(data[:-100])
    assert audit_car(target).exit_code == 1


def test_a_car_file_without_a_blob_is_found(run, tmp_path):
    shutil.copytree(run.directory, tmp_path / "kept")
    committed = max((tmp_path / "kept" / STORE / "blocks").iterdir(), key=lambda path: path.stat().st_size)
    committed.unlink()
    export_car(tmp_path / "kept", tmp_path / "run.car")
    verdict = audit_car(tmp_path / "run.car")
    assert verdict.exit_code == 1 and "not in the store" in verdict.reason
