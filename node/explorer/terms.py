"""The federation's terms as the index has them."""

import sqlite3
from typing import Protocol

from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.status.clusters import config_from


class Rows(Protocol):
    """What is read of the index."""

    def row(self, query: str, *values: object) -> sqlite3.Row | None: ...

    def value(self, query: str, *values: object) -> object: ...


def latest_config(index: Rows) -> FederationConfig | None:
    """The terms of the latest round, or None where they are not at hand or are no terms."""
    row = index.row("SELECT text FROM rounds JOIN blobs ON digest = config ORDER BY number DESC LIMIT 1")
    return config_from(row["text"]) if row is not None and row["text"] is not None else None


def config_of(index: Rows, number: int) -> FederationConfig | None:
    """The terms of a round, likewise."""
    text = index.value("SELECT text FROM rounds JOIN blobs ON digest = config WHERE number = ?", number)
    return config_from(text) if isinstance(text, bytes) else None
