"""The federation's terms as the index has them."""

import sqlite3
from functools import lru_cache
from typing import Protocol, TypeGuard

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.methods.terms import parse_config
from fedgrove.node.protocol.terms import FederationConfig


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
    return config_from(text) if text is not None else None


@lru_cache(maxsize=64)
def config_from(text: bytes) -> FederationConfig | None:
    """The terms that a blob holds, or None."""
    try:
        return parse_config(text)
    except (InvalidConfig, ValueError):
        return None


def has_clusters(config: FederationConfig | None) -> TypeGuard[FederationConfig]:
    """Whether these are terms by which clients are clustered."""
    return config is not None and isinstance(config.method, ProCflTerms)
