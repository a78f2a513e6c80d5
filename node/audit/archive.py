"""A finished run at rest: a directory, or one CAR file, that anybody can audit without a running process.

``DIR/`` holds ``report.json``, ``ledger.jsonl`` (headers, transactions and receipts), ``store/`` (every blob) and
``manifest.json`` (a sha2-256 digest for every other file), so that not one byte can change unnoticed. The CAR file
holds the ledger's history as its root and every blob.
"""

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import ClassVar

import msgspec

from fedgrove.chain.errors import BadHistory
from fedgrove.chain.network.history import LedgerHistory
from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.common.regular_file import open_regular, read_regular
from fedgrove.common.wire import Count, Digest, Malformed, Table, canonical_json, convert, parse_json
from fedgrove.ipfs import car
from fedgrove.ipfs.car_reader import CarReader
from fedgrove.ipfs.cid import CID
from fedgrove.ipfs.disk import BLOCKS, DiskReader, DiskStore
from fedgrove.ipfs.store import ContentReader, StoreError
from fedgrove.node.audit.auditor import Auditor, Progress
from fedgrove.node.audit.inventory import unaccounted
from fedgrove.node.audit.pins import Pins
from fedgrove.node.audit.run_files import (
    LEDGER,
    MANIFEST,
    MAX_MANIFEST_BYTES,
    MAX_REPORT_BYTES,
    REPORT,
    STORE,
    files_to_seal,
    run_files,
    shown,
)
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.base.files import write_atomically
from fedgrove.node.protocol.bad_record import BadRecord, RuleBroken
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.status.report import build_report

MAX_CAR_BYTES = 1 << 34


class _Manifest(Table, frozen=True):
    """The files of a run, and the SHA-256 of each."""

    max_bytes: ClassVar[int] = MAX_MANIFEST_BYTES
    files: dict[str, Digest]

    def to_bytes(self) -> bytes:
        return (json.dumps(self.to_table(), indent=1, sort_keys=True) + "\n").encode()


class _Timing(msgspec.Struct):
    """A round of the report: how long it took is the one thing there that follows from nothing."""

    round: Count
    seconds: float


class _Timings(msgspec.Struct):
    rounds: list[_Timing]


def chain_facts(history: LedgerHistory) -> ChainFacts:
    """The fixed terms and block hashes of a verified history."""
    return ChainFacts(history.deployment, history.head_block, history.block_hash, history.randomness)


def write_archive(directory: Path, history: LedgerHistory, report: dict) -> None:
    """Complete a run's directory (its ``store/`` is there already): history, report, manifest."""
    history.save(directory / LEDGER)
    write_atomically(directory / REPORT, (json.dumps(report, indent=2, sort_keys=True) + "\n").encode())
    seal_archive(directory)


def seal_archive(directory: Path) -> None:
    """Write the manifest over all other files of the directory that a run writes."""
    write_atomically(directory / MANIFEST, _Manifest(_digests(directory, files_to_seal(directory))).to_bytes())


def no_run(directory: Path) -> InvalidInput:
    """Why there is no run in a directory without a ledger, and what to give."""
    found = f"{directory} does not hold a run: it has no {LEDGER}" if directory.is_dir() else f"there is no {directory}"
    return InvalidInput(
        f"{found}; give the directory of `fedgrove demo --out`, `history` in that of `fedgrove kmeans`, or a CAR file "
        "of `fedgrove audit export`"
    )


def audit_directory(directory: Path, progress: Progress | None = None, pins: Pins | None = None) -> Verdict:
    """Audit a run's directory: what lies there, ledger, store, report and manifest, in this order.

    Whoever audits while somebody else may write to the directory audits a copy of it instead.

    Raises
    ------
    InvalidInput
        The directory is not there, cannot be read, or holds no run.
    """
    if not os.path.lexists(directory / LEDGER):
        raise no_run(directory)
    try:
        files = run_files(directory)
        store = DiskReader(directory / STORE)
        verdict, history = _audit_ledger(directory / LEDGER, store, progress, pins)
        if not verdict.holds or history is None:
            return verdict
        fault = _check_report(directory, history, verdict) or _check_manifest(directory, files)
    except RuleBroken as failure:
        return Verdict("bad record", failure.record, str(failure.record))
    except OSError as fault:
        raise InvalidInput(f"{fault.filename or directory} cannot be read: {fault.strerror}") from None
    if fault is None:
        return _remarking(verdict, unaccounted(store, history.deployment, history.records()))
    return Verdict(
        "bad record", fault, str(fault), verdict.rounds, verdict.records, verdict.head_block, verdict.head_hash
    )


def export_car(directory: Path, target: Path) -> CID:
    """Write one CAR file with the history (as its root) and every blob of a run's directory.

    Raises
    ------
    InvalidInput
        The directory holds no run, or something that no run writes.
    OSError
        The file cannot be written; there is none then, or the one that was there.
    """
    if not os.path.lexists(directory / LEDGER):
        raise no_run(directory)
    try:
        run_files(directory)
    except RuleBroken as failure:
        raise InvalidInput(f"{directory} holds more files than a run: {failure.record}") from None
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.realpath(target))) as scratch:
        root_store = DiskStore(Path(scratch) / STORE)
        with open_regular(directory / LEDGER, follow=False) as file:
            root = root_store.put(file.read())
        part = Path(scratch) / "export.car"
        with part.open("wb") as file:
            for chunk in car.write(root, chain(root_store.export(), DiskReader(directory / STORE).export())):
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    return root


def audit_car(path: Path, progress: Progress | None = None, pins: Pins | None = None) -> Verdict:
    """Audit a CAR file written by ``export_car``; needs no network.

    Raises
    ------
    InvalidInput
        The file cannot be read.
    """
    try:
        with opened_car(path) as (ledger, store):
            verdict, history = _audit_ledger(ledger, store, progress, pins)
            if not verdict.holds or history is None:
                return verdict
            own = store.root_cid.digest
            return _remarking(verdict, unaccounted(store, history.deployment, history.records(), own))
    except (InvalidContent, StoreError) as fault:
        return _bad("archive", str(fault))


@contextmanager
def opened_car(path: Path) -> Iterator[tuple[Path, CarReader]]:
    """The ledger's history, as a file, and the blobs of a CAR file of ``export_car``, while the block runs.

    Raises
    ------
    InvalidInput
        The file cannot be read.
    InvalidContent, ipfs.store.StoreError
        It is no archive, or not whole.
    """
    with tempfile.TemporaryDirectory(prefix="fedgrove-") as scratch:
        ledger = Path(scratch) / LEDGER
        try:
            stream = open_regular(path)
        except OSError as fault:
            raise InvalidInput(f"cannot read {path}: {fault.strerror}") from None
        with stream:
            store = CarReader(stream, MAX_CAR_BYTES)
            with ledger.open("wb") as file:
                # A history repeats nothing: no more can be in it than the archive has bytes.
                file.writelines(store.stream(store.root_cid.digest, store.held_bytes))
            yield ledger, store


@contextmanager
def opened_run(path: Path) -> Iterator[tuple[LedgerHistory, ContentReader]]:
    """The history and the blobs of a run's directory or CAR file, while the block runs; blocks are verified.

    Raises
    ------
    InvalidInput
        There is no run.
    InvalidContent, StoreError, BadHistory
        The CAR file is none, or is damaged; the ledger is no chain of blocks.
    """
    with ExitStack() as stack:
        if path.is_file():
            ledger, store = stack.enter_context(opened_car(path))
        elif os.path.lexists(path / LEDGER):
            ledger, store = path / LEDGER, DiskReader(path / STORE)
        else:
            raise no_run(path)
        history = LedgerHistory.load(ledger)
        history.verify()
        yield history, store


def _audit_ledger(
    path: Path, store: ContentReader, progress: Progress | None, pins: Pins | None
) -> tuple[Verdict, LedgerHistory | None]:
    """The verdict on ledger and store, and the history that it is about; None where that does not hold."""
    try:
        history = LedgerHistory.load(path)
        history.verify()
        records = history.records()
    except BadHistory as fault:
        return _bad("ledger", str(fault)), None
    return Auditor(chain_facts(history), records, store, progress, pins).run(), history


def _remarking(verdict: Verdict, found: BadRecord | None) -> Verdict:
    return verdict if found is None else replace(verdict, remarks=(*verdict.remarks, found))


def _check_report(directory: Path, history: LedgerHistory, verdict: Verdict) -> BadRecord | None:
    """Everything in the report but the wall times must follow from ledger and store."""
    try:
        data = read_regular(directory / REPORT, MAX_REPORT_BYTES, follow=False)
        if len(data) > MAX_REPORT_BYTES:
            return BadRecord(None, None, REPORT, "it is too large")
        report = parse_json(data)
        seconds = {each.round: each.seconds for each in convert(_Timings, report).rounds}
    except (OSError, Malformed):
        return BadRecord(None, None, REPORT, "it is missing or cannot be read")
    expected = build_report(history, DiskReader(directory / STORE), seconds)
    for key, value in expected.items():
        if canonical_json(report.pop(key, None)) != canonical_json(value):  # in Python 1, 1.0 and true are equal
            return BadRecord(None, None, f"{REPORT}: {key}", "it does not follow from the ledger and the store")
    if report.pop("audit", None) != verdict.entry():
        return BadRecord(None, None, f"{REPORT}: audit", "it differs from this audit's verdict")
    if report:
        return BadRecord(None, None, f"{REPORT}: {min(report)}", "a run does not write this key")
    return None


def _check_manifest(directory: Path, files: dict[str, int]) -> BadRecord | None:
    """Whether the manifest lists the files that are there, and blocks have the digests that they are named by."""
    try:
        listed = _Manifest.from_bytes(read_regular(directory / MANIFEST, MAX_MANIFEST_BYTES, follow=False)).files
    except OSError:
        return BadRecord(None, None, MANIFEST, "it is missing or cannot be read")
    except Malformed as fault:
        return BadRecord(None, None, MANIFEST, str(fault))
    found = _digests(directory, [name for name in files if name != MANIFEST])
    for name in sorted({*listed, *found}):
        if listed.get(name) != found.get(name):
            state = "is unlisted" if name not in listed else "is missing" if name not in found else "has changed"
            return BadRecord(None, None, f"file {shown(name)}", f"it {state}, according to the manifest")
        folder, _, digest = name.rpartition("/")
        if folder == f"{STORE}/{BLOCKS}" and digest != found[name]:
            return BadRecord(None, None, f"file {name}", "the digest of its bytes is not its name")
    return None


def _digests(directory: Path, names: list[str]) -> dict[str, str]:
    return {name: _sha256(directory / name) for name in names}


def _sha256(path: Path) -> str:
    with open_regular(path, follow=False) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _bad(field: str, reason: str) -> Verdict:
    return Verdict("bad record", BadRecord(None, None, field, reason), f"{field}: {reason}")
