"""A finished run at rest: a directory, or one CAR file, that anybody can audit without a running process.

``DIR/`` holds ``report.json``, ``ledger.jsonl`` (headers, transactions and receipts), ``store/`` (every blob) and
``manifest.json`` (a sha2-256 digest for every other file), so that not one byte can change unnoticed. The CAR file
holds the ledger's history as its root and every blob.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from chain.history import BadHistory, History
from chain.strict_json import parse_json
from ipfs import car
from ipfs.cid import CID
from ipfs.disk import DiskStore
from ipfs.store import StoreError
from node.auditing.pins import Pins
from node.auditing.verdict import Verdict
from node.auditor import Auditor
from node.files import write_atomically
from node.ledger_rules import BadRecord, ChainFacts
from node.report import build_report

REPORT, LEDGER, STORE, MANIFEST = "report.json", "ledger.jsonl", "store", "manifest.json"
VERIFIED = {"verdict": "verified", "first_bad_record": None}
MAX_REPORT_BYTES = 1 << 26
MAX_CAR_BYTES = 1 << 34

Progress = Callable[[int], None]


class NoArchive(ValueError):
    """The path is not a run that can be audited."""


def chain_facts(history: History) -> ChainFacts:
    """The fixed terms and block hashes of a verified history."""
    return ChainFacts(history.deployment, history.head_block, history.block_hash, history.randomness)


def write_archive(directory: Path, history: History, report: dict) -> None:
    """Complete a run's directory (its ``store/`` is there already): history, report, manifest."""
    history.save(directory / LEDGER)
    write_atomically(directory / REPORT, (json.dumps(report, indent=2, sort_keys=True) + "\n").encode())
    seal_archive(directory)


def seal_archive(directory: Path) -> None:
    """Write the manifest over all other files of the directory."""
    write_atomically(directory / MANIFEST, _manifest_bytes(_digests(directory)))


def audit_directory(directory: Path, progress: Progress | None = None, pins: Pins | None = None) -> Verdict:
    """Audit a run's directory: ledger, store, report and manifest, in this order.

    Raises
    ------
    NoArchive
        The directory is not there or holds no run.
    """
    if not (directory / LEDGER).is_file():
        raise NoArchive(f"{directory} holds no run: it has no {LEDGER}; give the directory of `fedgrove demo --out`")
    verdict = _audit_ledger(directory / LEDGER, DiskStore(directory / STORE), progress, pins)
    if verdict.verdict != "verified":
        return verdict
    fault = _check_report(directory) or _check_manifest(directory)
    if fault is None:
        return verdict
    return Verdict(
        "bad record", fault, str(fault), verdict.rounds, verdict.records, verdict.head_block, verdict.head_hash
    )


def export_car(directory: Path, target: Path) -> CID:
    """Write one CAR file with the history (as its root) and every blob of a run's directory."""
    if not (directory / LEDGER).is_file():
        raise NoArchive(f"{directory} holds no run: it has no {LEDGER}")
    with tempfile.TemporaryDirectory(dir=target.resolve().parent) as scratch:
        root_store = DiskStore(Path(scratch) / STORE)
        root = root_store.put((directory / LEDGER).read_bytes())
        part = Path(scratch) / "export.car"
        with part.open("wb") as file:
            for piece in car.write(root, chain(root_store.export(), DiskStore(directory / STORE).export())):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    return root


def audit_car(path: Path, progress: Progress | None = None, pins: Pins | None = None) -> Verdict:
    """Audit a CAR file written by ``export_car``; needs no network."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            unpack_car(path, Path(scratch))
        except (car.InvalidArchive, StoreError) as fault:
            return _bad("archive", str(fault))
        return _audit_ledger(Path(scratch) / LEDGER, DiskStore(Path(scratch) / STORE), progress, pins)


def unpack_car(path: Path, directory: Path) -> None:
    """Lay out what a CAR file of ``export_car`` holds as in a run's directory: the ledger's history and the store.

    Raises
    ------
    NoArchive
        The file cannot be read.
    ipfs.car.InvalidArchive, ipfs.store.StoreError
        It is no archive, or not whole.
    """
    store = DiskStore(directory / STORE)
    try:
        with path.open("rb") as stream:
            archive = car.read(stream, MAX_CAR_BYTES)
            store.add_blocks(archive.blocks)
        (directory / LEDGER).write_bytes(store.get(archive.root, MAX_CAR_BYTES))
    except OSError as fault:
        raise NoArchive(f"cannot read {path}: {fault.strerror}") from None


def _audit_ledger(path: Path, store: DiskStore, progress: Progress | None, pins: Pins | None) -> Verdict:
    try:
        history = History.load(path)
        history.verify()
        records = history.records()
    except BadHistory as fault:
        return _bad("ledger", str(fault))
    return Auditor(chain_facts(history), records, store, progress, pins).run()


def _check_report(directory: Path) -> BadRecord | None:
    """Everything in the report but the wall times must follow from ledger and store."""
    path = directory / REPORT
    try:
        if path.stat().st_size > MAX_REPORT_BYTES:
            return BadRecord(None, None, REPORT, "it is too large")
        report = parse_json(path.read_bytes())
        seconds = {entry["round"]: float(entry["seconds"]) for entry in report["rounds"]}
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return BadRecord(None, None, REPORT, "it is missing or cannot be read")
    expected = build_report(History.load(directory / LEDGER), DiskStore(directory / STORE), seconds)
    for key, value in json.loads(json.dumps(expected)).items():
        if report.pop(key, None) != value:
            return BadRecord(None, None, f"{REPORT}: {key}", "it does not follow from the ledger and the store")
    if report.pop("audit", None) != VERIFIED:
        return BadRecord(None, None, f"{REPORT}: audit", "it is not the verdict of this audit")
    report.pop("options", None)
    if report:
        return BadRecord(None, None, f"{REPORT}: {min(report)}", "no run writes such a key")
    return None


def _check_manifest(directory: Path) -> BadRecord | None:
    try:
        data = (directory / MANIFEST).read_bytes()
        listed = parse_json(data)["files"]
        canonical = _manifest_bytes(listed) == data
    except (OSError, ValueError, KeyError, TypeError):
        return BadRecord(None, None, MANIFEST, "it is missing or cannot be read")
    if not canonical or not isinstance(listed, dict):
        return BadRecord(None, None, MANIFEST, "it is not in canonical form")
    found = _digests(directory)
    for name in sorted({*listed, *found}):
        if listed.get(name) != found.get(name):
            state = "is not listed" if name not in listed else "is missing" if name not in found else "has changed"
            return BadRecord(None, None, f"file {name}", f"it {state}, by the manifest")
    return None


def _digests(directory: Path) -> dict[str, str]:
    files = (path for path in sorted(directory.rglob("*")) if path.is_file())
    names = {path.relative_to(directory).as_posix(): path for path in files}
    return {name: _sha256(path) for name, path in names.items() if name != MANIFEST}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _manifest_bytes(digests: dict[str, str]) -> bytes:
    return (json.dumps({"files": digests}, indent=1, sort_keys=True) + "\n").encode()


def _bad(field: str, reason: str) -> Verdict:
    return Verdict("bad record", BadRecord(None, None, field, reason), f"{field}: {reason}")
