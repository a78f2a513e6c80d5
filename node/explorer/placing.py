"""Where each record goes in the index.

The records are what a chain says, which may be anybody's: what does not follow from the records before it is kept, and
goes nowhere else. The audit says whether it is lawful; this module only sorts.
"""

import json
import sqlite3
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

from fedgrove.chain.crypto import tree, vrf
from fedgrove.chain.records import KINDS, Record
from fedgrove.common.errors import InvalidContent

MAX_INTEGER = (1 << 63) - 1  # SQLite's
_MAX_JSON_INTEGER = 1 << 53
_END_OF_ROUND = {"Closed": "closed", "Skipped": "skipped", "Failed": "failed"}
_PARTS = {
    "Drawn": "drawn",
    "Shared": "shared",
    "Committed": "committed",
    "Released": "released",
}

_ABLE = """
SELECT client FROM members WHERE active_from <= ?1 AND (approved OR revoked_at >= ?1) AND NOT has_left
  AND account NOT IN (SELECT value FROM json_each(?2)) ORDER BY client
"""
"""Members that may draw in a round: opened in a block, with accounts that it names as barred (JSON)."""

DIGESTS = {kind.__name__: {name: blob.role for name, blob in kind.BLOBS.items()} for kind in KINDS}
"""Which fields of a record are digests of blobs, and what the blobs are."""
UPLOADS = tuple(blob.role for kind in KINDS for blob in kind.BLOBS.values() if blob.upload)
"""Roles of the blobs that each member uploads."""


@dataclass(frozen=True)
class Entry:
    """A record as the index keeps it: its place in the history (from 1), its fields as JSON (bytes in hex)."""

    id: int
    block: int
    kind: str
    fields: dict[str, Any]

    @property
    def round(self) -> int | None:
        return _small(self.fields.get("round"))

    @property
    def client(self) -> int | None:
        return _small(self.fields.get("client"))

    def digests(self) -> list[tuple[bytes, str]]:
        """Digests of the blobs that the record names, and the role of each."""
        named = ((bytes.fromhex(self.fields[name]), role) for name, role in DIGESTS.get(self.kind, {}).items())
        return [(digest, role) for digest, role in named if any(digest)]


def entry_of(place: int, record: Record) -> Entry:
    """The entry of a record at a place (from 1) in the history."""
    values = {item.name: _json(getattr(record, item.name)) for item in fields(record) if item.name != "at"}
    return Entry(place, record.at.block, type(record).__name__, values)


def entry_from(row: sqlite3.Row) -> Entry:
    """The entry of a row of the index."""
    return Entry(row["id"], row["block"], row["kind"], json.loads(row["fields"]))


def place(database: sqlite3.Connection, entry: Entry) -> None:
    """Sort one entry, the next of the history, into members, rounds and parts."""
    for digest, role in entry.digests():
        database.execute("INSERT OR IGNORE INTO named VALUES (?, ?, ?)", (digest, entry.id, role))
        database.execute("INSERT OR IGNORE INTO blobs (digest, role) VALUES (?, ?)", (digest, role))
    match entry.kind:
        case "Registered" | "VrfKeyRotated" | "MailboxKeyRotated" | "Resumed" | "Withdrawn":
            _member(database, entry)
        case "Approved" | "Revoked":
            _approval(database, entry)
        case "RoundOpened":
            _opened(database, entry)
        case "SeedFixed":
            _set(database, entry, seed=entry.fields["seed"])
        case "Sealed":
            values = {name: entry.fields[name] for name in ("order_seed", "order_root")}
            _set(database, entry, sealed=entry.id, **values)
            _line_up(database, entry)
        case "Drawn" | "Shared" | "Committed" | "Released":
            _part(database, entry, _PARTS[entry.kind])
        case "Judged":
            _judged(database, entry)
        case "Replaced":
            _set(database, entry, replaced=entry.id, **_result(entry))
        case "Closed" | "Skipped" | "Failed":
            _ended(database, entry)
        case "Voided":
            _set(database, entry, status="voided", voided=entry.id)
            _set_missing(database, entry, "ended")


def _member(database: sqlite3.Connection, entry: Entry) -> None:
    values = entry.fields
    if entry.kind == "MailboxKeyRotated":
        database.execute("UPDATE members SET mailbox_key = ? WHERE client = ?", (values["mailbox_key"], entry.client))
        return
    if entry.kind == "Withdrawn":
        if values["points"] == 0:
            database.execute("UPDATE members SET has_left = 1 WHERE client = ?", (entry.client,))
        return
    active_from = _small(values["active_from"]) or 0
    if entry.kind == "Resumed":
        database.execute("UPDATE members SET active_from = ? WHERE client = ?", (active_from, entry.client))
        return
    key = _compressed(values)
    if entry.kind == "VrfKeyRotated":
        statement = "UPDATE members SET vrf_key = ?, active_from = ? WHERE client = ?"
        database.execute(statement, (key, active_from, entry.client))
        return
    row = (entry.client, values["account"], key, values["mailbox_key"], active_from, entry.id)
    columns = "client, account, vrf_key, mailbox_key, active_from, record"
    database.execute(f"INSERT OR IGNORE INTO members ({columns}) VALUES (?, ?, ?, ?, ?, ?)", row)


def _approval(database: sqlite3.Connection, entry: Entry) -> None:
    """Approve a registered member, or end that; whoever registers later was approved before."""
    account = entry.fields["account"]
    if entry.kind == "Revoked":
        database.execute("UPDATE members SET approved = 0, revoked_at = ? WHERE account = ?", (entry.block, account))
        return
    active_from = _small(entry.fields["active_from"]) or 0
    statement = "UPDATE members SET approved = 1, active_from = ? WHERE account = ?"
    database.execute(statement, (active_from, account))


def _opened(database: sqlite3.Connection, entry: Entry) -> None:
    values, opened_at = entry.fields, _small(entry.fields["opened_at"])
    if entry.round is None or opened_at is None:
        return
    rows = database.execute(_ABLE, (opened_at, json.dumps(values["barred"]))).fetchall()
    able = json.dumps([row["client"] for row in rows])
    config, model = (bytes.fromhex(values[name]) for name in ("config_digest", "model_digest"))
    database.execute(
        "INSERT OR IGNORE INTO rounds (number, opened, opened_at, rate, able, config, trained_from)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (entry.round, entry.id, opened_at, values["sampling_rate"], able, config, model),
    )


def _part(database: sqlite3.Connection, entry: Entry, column: str) -> None:
    if entry.round is None or not _known(database, entry.round):
        return
    key = (entry.round, entry.client)
    database.execute("INSERT OR IGNORE INTO parts (round, client) VALUES (?, ?)", key)
    database.execute(
        f"UPDATE parts SET {column} = coalesce({column}, ?) WHERE round = ? AND client = ?", (entry.id, *key)
    )
    if entry.kind == "Drawn":
        database.execute(
            "UPDATE parts SET samples = coalesce(samples, ?) WHERE round = ? AND client = ?",
            (entry.fields["samples"], *key),
        )


def _line_up(database: sqlite3.Connection, sealed: Entry) -> None:
    """Give each drawn client its position along the leaves of the cooperation tree, as ``tree.order`` does."""
    number, order_seed = sealed.round, bytes.fromhex(sealed.fields["order_seed"])
    keys = []
    for row in database.execute("SELECT * FROM records WHERE round = ? AND kind = 'Drawn'", (number,)).fetchall():
        entry = entry_from(row)
        try:
            beta = vrf.proof_to_hash(bytes.fromhex(entry.fields["proof"]))
            if entry.client is None:
                raise ValueError("a draw of nobody")
            keys.append((tree.key(tree.ticket(beta, entry.client), order_seed), entry.client))
        except (InvalidContent, ValueError):
            return  # no contract of ours took this draw, so there is no tree to show
    for position, (_, client) in enumerate(sorted(set(keys))):
        statement = "UPDATE parts SET position = ? WHERE round = ? AND client = ?"
        database.execute(statement, (position, number, client))


def _ended(database: sqlite3.Connection, entry: Entry) -> None:
    row = database.execute("SELECT ended FROM rounds WHERE number = ?", (entry.round,)).fetchone()
    if row is None or row["ended"] is not None:
        return
    _set(database, entry, status=_END_OF_ROUND[entry.kind], ended=entry.id)
    if entry.kind == "Closed":
        _set(database, entry, **_result(entry))


def _result(entry: Entry) -> dict[str, bytes]:
    """The digests of what a record says that a round came to."""
    return {name: bytes.fromhex(entry.fields[f"{name}_digest"]) for name in ("model", "metrics")}


def _judged(database: sqlite3.Connection, entry: Entry) -> None:
    if entry.fields["asked"] != "closed":
        _part(database, entry, "refused")
        return
    # A judgement can be taken back for another's result: the last one is what the member says now.
    database.execute("UPDATE parts SET judged = NULL WHERE round = ? AND client = ?", (entry.round, entry.client))
    _part(database, entry, "judged")
    values = {f"judged_{name}": digest for name, digest in _result(entry).items()}
    columns = ", ".join(f"{name} = ?" for name in values)
    key = (entry.round, entry.client, entry.id)
    statement = f"UPDATE parts SET {columns} WHERE round = ? AND client = ? AND judged = ?"
    database.execute(statement, (*values.values(), *key))


def _set(database: sqlite3.Connection, entry: Entry, **values: Any) -> None:
    columns = ", ".join(f"{name} = ?" for name in values)
    database.execute(f"UPDATE rounds SET {columns} WHERE number = ?", (*values.values(), entry.round))


def _set_missing(database: sqlite3.Connection, entry: Entry, column: str) -> None:
    statement = f"UPDATE rounds SET {column} = coalesce({column}, ?) WHERE number = ?"
    database.execute(statement, (entry.id, entry.round))


def _known(database: sqlite3.Connection, number: int) -> bool:
    return database.execute("SELECT 1 FROM rounds WHERE number = ?", (number,)).fetchone() is not None


def _compressed(values: dict[str, Any]) -> str:
    x, y = int(values["vrf_x"]), int(values["vrf_y"])
    return f"{2 + y % 2:02x}{x:064x}"


def _small(value: Any) -> int | None:
    """An integer that SQLite can hold, or None."""
    return int(value) if value is not None and int(value) <= MAX_INTEGER else None


def _json(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, int) and value > _MAX_JSON_INTEGER:
        return str(value)
    return list(value) if isinstance(value, tuple) else value
