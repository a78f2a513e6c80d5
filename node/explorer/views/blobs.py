"""The models in their order, what a blob holds, and the terms."""

from fedgrove.node.explorer.checks import Checks
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.inert import inert
from fedgrove.node.explorer.views.rounds import stage_of
from fedgrove.node.explorer.views.rows import Blob, RecordRow, blob_of, rows_of
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.status.clusters import config_from

MAX_MODEL_BYTES = 1 << 32


def lineage(index: Index) -> list[tuple[int, Blob]]:
    """The global models in order: θ₀ with round 0, then that of each round that closed and stands."""
    first = index.value("SELECT trained_from FROM rounds ORDER BY number LIMIT 1")
    if first is None:
        return []
    closed = index.rows("SELECT number, model FROM rounds WHERE status = 'closed' ORDER BY number")
    return [
        (0, blob_of(index, first, "model")),
        *((row["number"], blob_of(index, row["model"], "model")) for row in closed if row["model"]),
    ]


def named(index: Index, checks: Checks, digest: bytes) -> tuple[Blob, list[RecordRow]] | None:
    """A blob and the records that name it; None for one that no record names."""
    role = index.value("SELECT role FROM blobs WHERE digest = ?", digest)
    if role is None:
        return None
    query = "SELECT min(round) FROM records WHERE id IN (SELECT record FROM named WHERE digest = ?)"
    number = index.value(query, digest)
    stage = stage_of(index, number) if number is not None else ""
    records = rows_of(index, checks, "id IN (SELECT record FROM named WHERE digest = ?)", digest, stage=stage)
    return blob_of(index, digest, role, stage), records


def head_of(index: Index, digest: bytes) -> bytes:
    """The head of a state of clusters; empty for anything else."""
    return index.value("SELECT text FROM blobs WHERE digest = ? AND role = 'model'", digest) or b""


def terms_in(index: Index, digest: bytes) -> dict | None:
    """Tables of the terms that a blob holds; None where they are not at hand, or are no terms."""
    text = index.value("SELECT text FROM blobs WHERE digest = ?", digest)
    return terms_tables(config_from(text)) if text is not None else None


def terms_behind(index: Index, blob: Blob, records: list[RecordRow]) -> tuple[str, dict | None] | None:
    """Digest and tables of the terms: of a blob of terms, or those under which a model was made; None for others."""
    if blob.role == "config":
        digest = bytes.fromhex(blob.digest)
    elif blob.role == "model" and records:
        digest = index.value("SELECT config FROM rounds WHERE number = ?", records[0].round)
    else:
        return None
    return (digest.hex(), terms_in(index, digest)) if digest is not None else None


def terms_tables(config: FederationConfig | None) -> dict | None:
    """Tables of terms as inert text; None without terms."""
    return _inert_tables(config.to_tables()) if config else None


def _inert_tables(tables: dict) -> dict:
    return {inert(name): _inert_value(value) for name, value in tables.items()}


def _inert_value(value: object) -> object:
    if isinstance(value, dict):
        return _inert_tables(value)
    if isinstance(value, list | tuple):
        return ", ".join(inert(item) for item in value)
    return inert(value)
