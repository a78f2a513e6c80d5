"""A round's sums in the index: counts, gas, bytes, what its published metrics say, what it left of the clusters."""

import json
import sqlite3
from collections.abc import Iterable

from fedgrove.node.explorer.clusters import hear
from fedgrove.node.explorer.terms import config_from, has_clusters
from fedgrove.node.protocol.content import InvalidBlob, Metrics

UPLOADED = "CASE WHEN sum(blobs.state = 'unseen') > 0 THEN NULL ELSE coalesce(sum(size), 0) END"
"""Bytes of some blobs; NULL while the store has not been asked about all of them."""
_SUMS = f"""
UPDATE rounds SET
  drawn = (SELECT count(drawn) FROM parts WHERE round = number),
  committed = (SELECT count(committed) FROM parts WHERE round = number),
  (gas, wei) = (SELECT coalesce(sum(gas), 0), coalesce(sum_wei(wei), '0') FROM transactions
    WHERE id IN (SELECT tx FROM records WHERE records.round = number)),
  bytes = (SELECT {UPLOADED} FROM records JOIN named ON named.record = records.id JOIN blobs USING (digest)
    WHERE records.round = number AND named.role IN ('shares', 'update', 'release'))
WHERE number = ?
"""
_BEHIND = """
SELECT states.text AS head, model, stated.text AS metrics, terms.text AS terms FROM rounds
JOIN blobs AS states ON states.digest = model JOIN blobs AS stated ON stated.digest = metrics
JOIN blobs AS terms ON terms.digest = config
WHERE number = ? AND states.text IS NOT NULL AND stated.text IS NOT NULL AND terms.text IS NOT NULL
"""


def sum_up(database: sqlite3.Connection, rounds: Iterable[int | None]) -> None:
    """Make the sums of these rounds anew, after their records, or what is known of their blobs, have changed."""
    for number in {each for each in rounds if each is not None}:
        database.execute(_SUMS, (number,))
        _state_metrics(database, number)
        _state_clusters(database, number)


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
        getattr(privacy, "ledger_epsilon", None),
        privacy.delta if privacy else None,
        json.dumps(metrics.members.to_report()) if metrics.members else None,
    )
    columns = ("accuracy", "loss", "samples", "epsilon", "ledger_epsilon", "delta", "members_metrics")
    statement = f"UPDATE rounds SET {', '.join(f'{name} = ?' for name in columns)} WHERE number = ?"
    database.execute(statement, (*values, number))


def _state_clusters(database: sqlite3.Connection, number: int) -> None:
    """What follows for the clusters from the state that a round closed with; nothing while a part of it is missing."""
    row = database.execute(_BEHIND, (number,)).fetchone()
    config = config_from(row["terms"]) if row is not None else None
    left = hear(row["head"], row["model"], row["metrics"], config) if row is not None and has_clusters(config) else None
    values = (left.state.stage, *left.to_row()) if left else (None, None, None)
    database.execute("UPDATE rounds SET stage = ?, clusters = ?, scores = ? WHERE number = ?", (*values, number))
