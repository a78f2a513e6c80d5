"""The index: a federation's records in one SQLite file, sorted for pages.

It is a cache and nothing rests on it: the hash of every block is kept, and what the chain no longer has is dropped
before anything is added. Verdicts are never read from it; the audit reads the chain itself.
"""

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from fedgrove.chain.network.access import Paid
from fedgrove.chain.network.block_rlp import decode_header
from fedgrove.chain.network.blocks import TIME_FIELD
from fedgrove.chain.network.history import LedgerHistory
from fedgrove.chain.records import Record
from fedgrove.chain.records.deployment import Deployment
from fedgrove.node.explorer.placing import Entry, entry_from, entry_of, place
from fedgrove.node.explorer.sums import sum_up
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.status.clusters import config_from

VERSION = "8"
"""Of the tables and of what is derived into them: whoever changes either raises it, and old files are made anew."""
_MOST_GAS, _MOST_FEE = 1 << 40, 1 << 256  # far above any real transaction's; a forged receipt may claim anything


class Index:
    """One file, read and written by any thread of one process.

    Parameters
    ----------
    path : Path
        Made when missing; a file of another federation, or of another version of fedgrove, is replaced.
    """

    def __init__(self, path: Path, deployment: Deployment) -> None:
        self._path = path
        self._idle: list[sqlite3.Connection] = []
        self.deployment = deployment
        self._quorum = deployment.settings.quorum
        terms = {"version": VERSION, "deployment": deployment.to_json()}
        if path.exists() and self._terms() != terms:
            self._discard()
        if not path.exists():
            self._make(terms)

    # --- reading ----------------------------------------------------------------------------------------------------

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """A connection that nobody else has during the block. Reads outside ``changes`` each see the latest state.

        No more are open than were wanted at once. With one a thread, SQLite would keep the files of threads that have
        ended open: it closes none as long as another connection of the process holds a lock.
        """
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._open()
        try:
            yield connection
        finally:
            self._idle.append(connection)

    def rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        """All rows of a query."""
        with self.connection() as database:
            return database.execute(query, values).fetchall()

    def row(self, query: str, *values: object) -> sqlite3.Row | None:
        """The first row of a query, or None."""
        with self.connection() as database, closing(database.execute(query, values)) as found:
            return found.fetchone()

    def value(self, query: str, *values: object) -> Any:
        """The first column of the first row, of the type that the schema gives it; None without a row."""
        row = self.row(query, *values)
        return row[0] if row is not None else None

    def head(self) -> int:
        """Number of the last block; one below the deployment's before any."""
        last = self.value("SELECT max(number) FROM blocks")
        return self.deployment.block - 1 if last is None else last

    def block_hash(self, number: int) -> bytes | None:
        """Hash of a block, 32 bytes; None for one that the index lacks."""
        return self.value("SELECT hash FROM blocks WHERE number = ?", number)

    def latest_config(self) -> FederationConfig | None:
        """The terms of the latest round, or None where they are not at hand or are no terms."""
        return self._config("ORDER BY number DESC LIMIT 1")

    def config_of(self, number: int) -> FederationConfig | None:
        """The terms of a round, likewise."""
        return self._config("WHERE number = ?", number)

    def _config(self, condition: str, *values: object) -> FederationConfig | None:
        text = self.value(f"SELECT text FROM rounds JOIN blobs ON digest = config {condition}", *values)
        return config_from(text) if text is not None else None

    # --- writing ----------------------------------------------------------------------------------------------------

    @contextmanager
    def changes(self) -> Iterator[sqlite3.Connection]:
        """Readers see all that is written in the block, or none of it."""
        with self.connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # a full disk may have ended it
                    connection.execute("ROLLBACK")
                raise

    def add(self, history: LedgerHistory) -> bool:
        """Add what a verified piece of the chain has after the index's head; whether there was anything."""
        head = self.head()
        new = [
            (number, block.hash, _time(block.header))
            for number, block in enumerate(history.blocks, history.first_block)
            if number > head
        ]
        records = [record for record in history.records() if record.at.block > head]
        self.append(new, records, history.transactions)
        return bool(new)

    def append(
        self,
        blocks: Sequence[tuple[int, bytes, int]],
        records: Sequence[Record],
        transactions: Mapping[bytes, Paid],
    ) -> None:
        """Append blocks (number, hash, time) and their records; everything is verified already."""
        with self.changes() as database:
            database.executemany("INSERT INTO blocks VALUES (?, ?, ?)", blocks)
            numbers = _add_transactions(database, records, transactions)
            (last,) = database.execute("SELECT coalesce(max(id), 0) FROM records").fetchone()
            for number, record in enumerate(records, last + 1):
                entry = entry_of(number, record)
                _keep(database, entry, numbers[record.at.transaction])
                place(database, entry)
            sum_up(database, {entry_of(0, record).round for record in records}, self._quorum)

    def forget_after(self, block: int) -> None:
        """Drop all blocks after this one, which the chain has replaced, and what their records changed."""
        if block >= self.head():
            return
        with self.changes() as database:
            for table, column in (("blocks", "number"), ("transactions", "block"), ("records", "block")):
                database.execute(f"DELETE FROM {table} WHERE {column} > ?", (block,))
            for table in ("named", "members", "rounds", "parts"):
                database.execute(f"DELETE FROM {table}")
            for row in database.execute("SELECT * FROM records ORDER BY id").fetchall():
                place(database, entry_from(row))
            rounds = database.execute("SELECT number FROM rounds").fetchall()
            sum_up(database, {row["number"] for row in rounds}, self._quorum)

    def close(self) -> None:
        """Close the connections that nobody uses."""
        while self._idle:
            self._idle.pop().close()

    # --- helpers ----------------------------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=30, isolation_level=None, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        # The stubs of sqlite3 know of aggregates of integers only.
        connection.create_aggregate("sum_wei", 1, _SumWei)  # pyright: ignore[reportArgumentType]
        return connection

    def _terms(self) -> dict[str, str]:
        try:
            return {row["key"]: row["value"] for row in self.rows("SELECT * FROM meta")}
        except sqlite3.DatabaseError:
            return {}

    def _discard(self) -> None:
        self.close()
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)

    def _make(self, terms: dict[str, str]) -> None:
        os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600))
        with self.connection() as database:
            database.execute("PRAGMA journal_mode = WAL")
        schema = files("fedgrove.node.explorer").joinpath("schema.sql").read_text()
        with self.changes() as database:  # so that a file that was begun is not taken for one that is whole
            for statement in schema.split(";"):
                database.execute(statement)
            database.executemany("INSERT INTO meta VALUES (?, ?)", terms.items())


class _SumWei:
    """``sum_wei`` in queries: the sum of whole numbers of any size, as text; NULL of none."""

    def __init__(self) -> None:
        self._sum = 0

    def step(self, wei: str) -> None:
        self._sum += int(wei)

    def finalize(self) -> str:
        return str(self._sum)


def _keep(database: sqlite3.Connection, entry: Entry, transaction: int) -> None:
    values = json.dumps(entry.fields, separators=(",", ":"))
    row = (entry.id, entry.block, transaction, entry.kind, entry.round, entry.client, values)
    database.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)", row)


def _add_transactions(
    database: sqlite3.Connection, records: Sequence[Record], transactions: Mapping[bytes, Paid]
) -> dict[bytes, int]:
    """Number of each record's transaction, by its hash."""
    numbers = {}
    for record in records:
        transaction = record.at.transaction
        if transaction not in numbers:
            facts = transactions[transaction]
            gas, fee = min(max(0, facts.gas_used), _MOST_GAS), min(max(0, facts.fee), _MOST_FEE)
            row = (transaction, record.at.block, facts.sender, gas, str(fee))
            statement = "INSERT INTO transactions (hash, block, sender, gas, wei) VALUES (?, ?, ?, ?, ?)"
            numbers[transaction] = database.execute(statement, row).lastrowid
    return numbers


def _time(header: bytes) -> int:
    """When a block was made, by its maker's clock, in seconds since 1970."""
    return min(int.from_bytes(decode_header(header)[TIME_FIELD], "big"), 1 << 62)
