"""The figures of a round in the index: made anew, as JSON, when its records or what is known of its blobs change."""

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from fedgrove.chain.crypto.tree import EVERYONE
from fedgrove.common.errors import InvalidContent
from fedgrove.node.explorer.placing import UPLOADS
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.status.clusters import config_from, has_clusters, hear
from fedgrove.node.status.participation import failure
from fedgrove.node.status.rounds import Round, stated_figures

UPLOADED = f"""
SELECT CASE WHEN sum(blobs.state = 'unseen') > 0 THEN NULL ELSE coalesce(sum(size), 0) END
FROM records JOIN named ON named.record = records.id JOIN blobs USING (digest)
WHERE named.role IN ({", ".join(f"'{role}'" for role in UPLOADS)})
"""
"""Bytes of what members uploaded; NULL while the store has not been asked about all of it."""
_ROUND = """
SELECT rounds.*, records.block AS ended_block, opening.time AS opened_time, ending.time AS ended_time,
  models.cid, stated.text,
  (SELECT coalesce(sum(gas), 0) FROM transactions WHERE id IN (SELECT tx FROM records WHERE round = ?1)) AS gas,
  (SELECT coalesce(sum_wei(wei), '0') FROM transactions WHERE id IN (SELECT tx FROM records WHERE round = ?1)) AS wei,
  ({uploaded} AND records.round = ?1) AS bytes
FROM rounds LEFT JOIN blocks AS opening ON opening.number = opened_at
  LEFT JOIN records ON records.id = rounds.ended LEFT JOIN blocks AS ending ON ending.number = records.block
  LEFT JOIN blobs AS models ON models.digest = CASE status WHEN 'closed' THEN model ELSE trained_from END
  LEFT JOIN blobs AS stated ON stated.digest = metrics
WHERE rounds.number = ?1
""".replace("{uploaded}", UPLOADED)
_BEHIND = """
SELECT states.text AS head, model, stated.text AS metrics, terms.text AS terms FROM rounds
JOIN blobs AS states ON states.digest = model JOIN blobs AS stated ON stated.digest = metrics
JOIN blobs AS terms ON terms.digest = config
WHERE number = ? AND states.text IS NOT NULL AND stated.text IS NOT NULL AND terms.text IS NOT NULL
"""


def sum_up(database: sqlite3.Connection, rounds: Iterable[int | None], quorum: int) -> None:
    """Make the figures of these rounds anew; ``quorum`` is the ledger's."""
    for number in {each for each in rounds if each is not None}:
        row = database.execute(_ROUND, (number,)).fetchone()
        if row is not None:
            scores = _state_clusters(database, number)
            text = json.dumps(
                {**_round(database, row, quorum).to_dict(), "cluster_scores": scores}, separators=(",", ":")
            )
            database.execute("UPDATE rounds SET figures = ? WHERE number = ?", (text, number))


def _round(database: sqlite3.Connection, row: sqlite3.Row, quorum: int) -> Round:
    """A round of the index; what is no metrics states nothing."""
    number, closed, ended = row["number"], row["status"] == "closed", row["ended"] is not None
    parts = database.execute("SELECT * FROM parts WHERE round = ? ORDER BY client", (number,)).fetchall()
    did = {
        name: tuple(part["client"] for part in parts if part[name] is not None)
        for name in ("drawn", "committed", "refused", "released")
    }
    result = (row["model"], row["metrics"])
    judged = [part for part in parts if part["judged"] is not None]
    against = [part["client"] for part in judged if (part["judged_model"], part["judged_metrics"]) != result]
    awaited = ended and row["rate"] >= EVERYONE
    able = json.loads(row["able"])
    undrawn = sorted(set(able) - set(did["drawn"])) if awaited else ()
    counts = (len(did[name]) for name in ("drawn", "committed", "refused", "released"))
    dropped = sorted(set(did["drawn"]) - set(did["committed"])) if ended else ()
    return Round(
        round=number,
        status=row["status"],
        reason=failure(quorum, row["sealed"] is not None, *counts) if row["status"] == "failed" else "",
        active_members=len(able),
        drawn_clients=did["drawn"],
        committed_clients=did["committed"],
        dropped=tuple(dropped),
        undrawn=tuple(undrawn),
        judged=tuple(against),
        model_digest=(row["model"] if closed else row["trained_from"]).hex(),
        model_cid=row["cid"] or "",
        terms_digest=row["config"].hex(),
        opened_block=row["opened_at"],
        ended_block=row["ended_block"],
        opened_time=row["opened_time"],
        ended_time=row["ended_time"],
        gas_used=row["gas"],
        fee_wei=int(row["wei"]),
        bytes=row["bytes"],
        **stated_figures(_metrics(row["text"]) if closed else None),
    )


def _metrics(text: bytes | None) -> Metrics | None:
    try:
        return Metrics.from_bytes(text) if text is not None else None
    except InvalidContent:
        return None


def _state_clusters(database: sqlite3.Connection, number: int) -> list[dict[str, Any]]:
    """Keep what follows for the clusters from the state that a round closed with, and return what models scored.

    Nothing follows while a part of it is missing.
    """
    row = database.execute(_BEHIND, (number,)).fetchone()
    config = config_from(row["terms"]) if row is not None else None
    left = hear(row["head"], row["model"], row["metrics"], config) if row is not None and has_clusters(config) else None
    values = (left.state.stage, *left.to_row()) if left else (None, None, None)
    database.execute("UPDATE rounds SET stage = ?, clusters = ?, scores = ? WHERE number = ?", (*values, number))
    return [asdict(each) for each in left.scores] if left else []
