"""A history as tables: rounds, records and metrics, with columns that stay the same from version to version."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from io import StringIO
from typing import Any

from fedgrove.api.rounds import Round
from fedgrove.chain.records import Record
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.members_metrics import MembersStatement

ROUNDS = (
    "round",
    "outcome",
    "opened_block",
    "ended_block",
    "members",
    "drawn",
    "committed",
    "disputed",
    "accuracy",
    "loss",
    "samples",
    "model_cid",
    "terms_digest",
    "drawn_clients",
    "committed_clients",
    "members_samples",
    "members_accuracy",
    "members_loss",
    "members_standard_error",
    "members_noise",
)
RECORDS = (
    "index",
    "block",
    "log_index",
    "transaction",
    "author",
    "record",
    "round",
    "client",
    "account",
    "fields",
)
METRICS = ("round", "metric", "value")

_DEPTH = 4


@dataclass(frozen=True)
class HistoryTable:
    """Rows of values under named columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def to_csv(self) -> str:
        """The table as CSV with a header; None is an empty field."""
        text = StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([self.columns, *self.rows])
        return text.getvalue()


def tables_of(rounds: Sequence[Round], records: Sequence[Record]) -> dict[str, HistoryTable]:
    """The tables ``rounds``, ``records`` and ``metrics``, of what a ``History`` has."""
    return {
        "rounds": HistoryTable(ROUNDS, tuple(map(_round_row, rounds))),
        "records": HistoryTable(RECORDS, tuple(_record_row(*pair) for pair in enumerate(records))),
        "metrics": HistoryTable(METRICS, tuple(_metric_rows(rounds))),
    }


def _round_row(each: Round) -> tuple[Any, ...]:
    metrics = each.metrics
    return (
        each.number,
        each.outcome,
        each.opened_block,
        each.ended_block,
        each.members,
        len(each.drawn),
        len(each.committed),
        len(each.disputed),
        *((metrics.accuracy, metrics.loss, metrics.samples) if metrics and metrics.samples else (None, None, None)),
        each.model_cid,
        each.terms_digest,
        _joined(each.drawn),
        _joined(each.committed),
        *_of_members(metrics.members if metrics else None),
    )


def _of_members(found: MembersStatement | None) -> tuple[Any, ...]:
    if found is None or not found.there:
        return None, None, None, None, None
    return found.samples or None, found.accuracy, found.loss, found.standard_error, found.to_figures().get("noise")


def _joined(clients: Iterable[int]) -> str:
    return " ".join(map(str, clients))


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


def _metric_rows(rounds: Iterable[Round]) -> Iterator[tuple[int, str, float]]:
    for each in rounds:
        if each.metrics is not None:
            yield from ((each.number, name, value) for name, value in _numbers("", _table(each.metrics), _DEPTH))


def _table(metrics: Metrics) -> dict[str, Any]:
    common = {"accuracy": metrics.accuracy, "loss": metrics.loss, "samples": metrics.samples} if metrics.samples else {}
    privacy = metrics.privacy.to_table() if metrics.privacy is not None else {}
    members = metrics.members.to_figures() if metrics.members is not None else {}
    return {**common, "members": members, "privacy": privacy, "stated": dict(metrics.stated or {})}


def _numbers(prefix: str, table: Mapping[str, Any], depth: int) -> Iterator[tuple[str, float]]:
    """Numbers by dotted names. Names that a coordinator chose may be formulas to a spreadsheet: words are kept."""
    for name, value in sorted(table.items()):
        if not (name.isascii() and name.isidentifier()):
            continue
        if isinstance(value, Mapping) and depth:
            yield from _numbers(f"{prefix}{name}.", value, depth - 1)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield prefix + name, value
