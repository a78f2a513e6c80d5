"""What the store holds behind the digests on the ledger: CIDs, sizes, and the small texts that pages show.

A survey reads the root block of each blob, which it verifies; whether every byte is right, the audit says. It is made
anew by each process, since a store changes.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from fedgrove.ipfs.store import ContentReader, Malformed, NotFound, StoreError, TooLarge, Unreachable
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.sums import sum_up
from fedgrove.node.protocol.content import MAX_JSON_BYTES
from fedgrove.node.status.clusters import config_from, has_clusters, read_head

TEXTS = ("config", "metrics")
"""Roles of the blobs that are small JSON documents; their bytes are kept in the index."""

MAX_BALLOT_BYTES = 1 << 12
"""Of uploads up to this size the bytes are kept where there are clusters: ballots are among them."""

_FIRST = "CASE role WHEN 'config' THEN 0 WHEN 'metrics' THEN 1 WHEN 'model' THEN 2 ELSE 3 END"


@dataclass(frozen=True)
class Found:
    """What the store said of one blob: ``held``, ``missing``, ``damaged``, ``malformed`` or ``huge``.

    ``text`` is what the index keeps of its bytes: a small document, a state's head, an upload that may be a ballot.
    """

    digest: bytes
    state: str
    cid: str | None = None
    size: int | None = None
    text: bytes | None = None


def survey(index: Index, store: ContentReader, number: int, at_most: int, seconds: float = math.inf) -> bool:
    """Ask the store about blobs that survey ``number`` has not asked about yet; whether there were any.

    Parameters
    ----------
    at_most, seconds : int, float
        It asks about this many, and about none more after this time, so that what was found is soon seen.

    Raises
    ------
    Unreachable
        The store is away; what was found by then is kept.
    """
    query = f"SELECT digest, role FROM blobs WHERE survey < ? ORDER BY {_FIRST}, rowid DESC LIMIT ?"
    pending = index.rows(query, number, at_most)
    found: list[Found] = []
    deadline = time.monotonic() + seconds
    clusters = has_clusters(index.latest_config())
    try:
        for row in pending:
            if time.monotonic() > deadline:
                break
            blob = _look(store, row["digest"], row["role"], clusters)
            found.append(blob)
            if not clusters and row["role"] == "config" and blob.text and has_clusters(config_from(blob.text)):
                clusters = True
                _ask_for_texts(index, number)
    finally:
        _keep(index, number, found)
    return bool(pending)


def ask_again(index: Index, number: int) -> None:
    """Let survey ``number`` ask again for what it did not find: a live store may get it yet."""
    with index.changes() as database:
        database.execute("UPDATE blobs SET survey = 0 WHERE survey = ? AND state = 'missing'", (number,))


def _ask_for_texts(index: Index, number: int) -> None:
    """Let survey ``number`` ask again for what it would have kept of blobs, had it known the terms."""
    with index.changes() as database:
        statement = "UPDATE blobs SET survey = 0 WHERE survey = ? AND text IS NULL AND role IN ('model', 'update')"
        database.execute(statement, (number,))


def _look(store: ContentReader, digest: bytes, role: str, clusters: bool) -> Found:
    try:
        root = store.root(digest)
        text = None
        if clusters and role == "model":
            text = read_head(store, digest, root.size)
        elif role in TEXTS and root.size <= MAX_JSON_BYTES:
            text = store.fetch(digest, MAX_JSON_BYTES)
        elif clusters and role == "update" and root.size <= MAX_BALLOT_BYTES:
            text = store.fetch(digest, MAX_BALLOT_BYTES)
        return Found(digest, "held", str(root.cid), min(root.size, (1 << 63) - 1), text)
    except Unreachable:
        raise
    except NotFound:
        return Found(digest, "missing")
    except TooLarge:
        return Found(digest, "huge")
    except Malformed:
        return Found(digest, "malformed")
    except StoreError:
        return Found(digest, "damaged")


def _keep(index: Index, number: int, found: Sequence[Found]) -> None:
    if not found:
        return
    with index.changes() as database:
        touched: set[int | None] = set()
        for blob in found:
            before = database.execute("SELECT state, size, text FROM blobs WHERE digest = ?", (blob.digest,)).fetchone()
            database.execute(
                "UPDATE blobs SET survey = ?, state = ?, cid = ?, size = ?, text = ? WHERE digest = ?",
                (number, blob.state, blob.cid, blob.size, blob.text, blob.digest),
            )
            if tuple(before) != (blob.state, blob.size, blob.text):
                query = "SELECT round FROM named JOIN records ON id = record WHERE digest = ?"
                touched |= {row["round"] for row in database.execute(query, (blob.digest,))}
        sum_up(database, touched, index.deployment.settings.quorum)
