"""Records and blobs for people, each with how far it is checked."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fedgrove.node.explorer.checks import Check, Checks
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.inert import document
from fedgrove.node.explorer.placing import Entry, entry_from
from fedgrove.node.explorer.views.words import KINDS, MEANINGS, NOTHING, ROLES, UPLOADS


@dataclass(frozen=True)
class Blob:
    """A blob that the ledger names: digest in hex, its role, and what the store said when it was last asked.

    ``stage`` is that of its round, of an upload where there are clusters.
    """

    digest: str
    role: str
    state: str
    cid: str | None = None
    size: int | None = None
    stage: str = ""

    @property
    def name(self) -> str:
        """What people call it."""
        return self._words[0]

    @property
    def meaning(self) -> str:
        """What it is, in a sentence; empty where that goes without saying."""
        return self._words[1]

    @property
    def _words(self) -> tuple[str, str]:
        if self.role == "update" and self.stage:
            return NOTHING if self.size == 0 else UPLOADS.get(self.stage, (ROLES["update"], MEANINGS["update"]))
        return ROLES[self.role], MEANINGS.get(self.role, "")


@dataclass(frozen=True)
class RecordRow:
    """A record by its place in the history: where it is on the chain, what it says, how far it is checked."""

    record: int
    kind: str
    title: str
    round: int | None
    client: int | None
    block: int
    transaction: str
    detail: str
    blobs: tuple[Blob, ...]
    check: Check


def rows_of(index: Index, checks: Checks, condition: str, *values: object, stage: str = "") -> list[RecordRow]:
    """Records in the order of the chain. ``condition`` is of our own making, ``stage`` of uploads among them."""
    query = (
        "SELECT records.*, hash FROM records JOIN transactions ON transactions.id = tx"
        f" WHERE records.id IN (SELECT id FROM records WHERE {condition}) ORDER BY records.id"
    )
    rows = index.rows(query, *values)
    blobs = _blobs_of(index, condition, values, stage)
    return [_row(checks, entry_from(row), row["hash"], blobs.get(row["id"], ())) for row in rows]


def blob_of(index: Index, digest: bytes, role: str, stage: str = "") -> Blob:
    """What is known of a blob."""
    row = index.row("SELECT * FROM blobs WHERE digest = ?", digest)
    if row is None:
        return Blob(digest.hex(), role, "unseen")
    return Blob(digest.hex(), role, row["state"], row["cid"], row["size"], stage)


def text_of(index: Index, digest: bytes) -> str:
    """A small JSON blob for reading; empty when it is not at hand."""
    text = index.value("SELECT text FROM blobs WHERE digest = ?", digest)
    return document(text) if text is not None else ""


def detail(entry: Entry) -> str:
    """What a record says that is in no other column."""
    if entry.kind == "Withdrawn":
        points = int(entry.fields["points"])
        return f"{points:,} point{'' if points == 1 else 's'}" if points else "all its points, for good"
    return ""


def _row(checks: Checks, entry: Entry, transaction: bytes, blobs: tuple[Blob, ...]) -> RecordRow:
    upload = next((blob.name.capitalize() for blob in blobs if blob.role == "update" and blob.stage), "")
    return RecordRow(
        record=entry.id,
        kind=entry.kind,
        title=upload or KINDS[entry.kind],
        round=entry.round,
        client=entry.client,
        block=entry.block,
        transaction="0x" + transaction.hex(),
        detail=detail(entry),
        blobs=blobs,
        check=checks.record(entry.id, entry.kind, entry.round, entry.client),
    )


def _blobs_of(index: Index, condition: str, values: Iterable[object], stage: str) -> Mapping[int, tuple[Blob, ...]]:
    query = (
        "SELECT named.record, named.digest, named.role, state, cid, size FROM named JOIN blobs USING (digest)"
        f" WHERE record IN (SELECT id FROM records WHERE {condition})"
    )
    found: dict[int, tuple[Blob, ...]] = defaultdict(tuple)
    for row in index.rows(query, *values):
        blob = Blob(row["digest"].hex(), row["role"], row["state"], row["cid"], row["size"], stage)
        found[row["record"]] += (blob,)
    return found
