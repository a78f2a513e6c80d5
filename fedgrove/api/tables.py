"""A history as tables: rounds, records and metrics, with columns that stay the same from version to version."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fedgrove.chain.records import Record
from fedgrove.node.base.spreadsheets import csv_text
from fedgrove.node.status.rounds import COLUMNS, Round

RECORDS = ("index", "block", "log_index", "transaction", "author", "record", "round", "client", "account", "fields")
METRICS = ("round", "metric", "value")


@dataclass(frozen=True)
class HistoryTable:
    """Rows of values under named columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def to_csv(self) -> str:
        """The table as CSV with a header; None is an empty field, and no text is a formula."""
        return csv_text(self.columns, self.rows)


def tables_of(rounds: Sequence[Round], records: Sequence[Record]) -> dict[str, HistoryTable]:
    """The tables ``rounds``, ``records`` and ``metrics``, of what a ``History`` has."""
    metrics = tuple((each.round, *pair) for each in rounds for pair in each.numbers().items())
    return {
        "rounds": HistoryTable(COLUMNS, tuple(each.row() for each in rounds)),
        "records": HistoryTable(RECORDS, tuple(_record_row(*pair) for pair in enumerate(records))),
        "metrics": HistoryTable(METRICS, metrics),
    }


def _record_row(index: int, record: Record) -> tuple[Any, ...]:
    fields = {name: _plain(value) for name, value in asdict(record).items() if name != "at"}
    common = tuple(fields.pop(name, None) for name in ("round", "client", "account"))
    place = (record.at.block, record.at.log_index, record.at.transaction.hex(), record.at.author)
    return index, *place, type(record).__name__, *common, json.dumps(fields, sort_keys=True)


def _plain(value: Any) -> Any:
    """A record's field, JSON-ready: bytes in hexadecimal; numbers above 2⁵³ as text, which JSON readers would round."""
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, int) and value >> 53 else value
