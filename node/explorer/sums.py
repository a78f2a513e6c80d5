"""The sums of a round in the index: counts, gas, bytes, and what its published metrics say."""

import sqlite3
from collections.abc import Iterable

from node.content import InvalidBlob, Metrics

_SUMS = """
UPDATE rounds SET
  drawn = (SELECT count(drawn) FROM parts WHERE round = number),
  committed = (SELECT count(committed) FROM parts WHERE round = number),
  gas = (SELECT coalesce(sum(gas), 0) FROM transactions
    WHERE id IN (SELECT tx FROM records WHERE records.round = number)),
  bytes = (SELECT coalesce(sum(size), 0) FROM records JOIN named ON named.record = records.id JOIN blobs USING (digest)
    WHERE records.round = number AND named.role IN ('shares', 'update', 'release'))
WHERE number = ?
"""


def sum_up(database: sqlite3.Connection, rounds: Iterable[int | None]) -> None:
    """Make the sums of these rounds anew, after their records, or what is known of their blobs, have changed."""
    for number in set(rounds) - {None}:
        database.execute(_SUMS, (number,))
        _state_metrics(database, number)


def _state_metrics(database: sqlite3.Connection, number: int) -> None:
    """Take accuracy, loss and ε from the metrics that were published; what is no metrics states nothing."""
    row = database.execute(
        "SELECT text FROM rounds JOIN blobs ON digest = metrics WHERE number = ? AND text IS NOT NULL", (number,)
    ).fetchone()
    if row is None:
        return
    try:
        metrics = Metrics.from_bytes(row["text"])
    except InvalidBlob:
        return
    evaluated = metrics.samples > 0
    privacy = metrics.privacy
    values = (
        metrics.accuracy if evaluated else None,
        metrics.loss if evaluated else None,
        min(metrics.samples, 1 << 62),
        privacy.epsilon if privacy else None,
        privacy.delta if privacy else None,
    )
    statement = "UPDATE rounds SET accuracy = ?, loss = ?, samples = ?, epsilon = ?, delta = ? WHERE number = ?"
    database.execute(statement, (*values, number))
