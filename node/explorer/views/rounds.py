"""All rounds in a line each, and one round whole."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fedgrove.chain.records import Phase
from fedgrove.chain.records.phases import Deadlines, Ends
from fedgrove.node.explorer.checks import Check, Checks
from fedgrove.node.explorer.drawings import PhaseWindow
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.inert import inert_values
from fedgrove.node.explorer.placing import MAX_INTEGER
from fedgrove.node.explorer.tree_drawing import Leaf
from fedgrove.node.explorer.views.rows import Blob, RecordRow, blob_of, rows_of, text_of
from fedgrove.node.explorer.views.words import PHASES
from fedgrove.node.masking.x_only import is_key
from fedgrove.node.status.clusters import has_clusters
from fedgrove.node.status.rounds import Round

MAX_OWN_METRICS = 8
"""Of a task's own metrics that members state, at most this many are shown."""

ROUNDS_A_PAGE = 25

_NOT_ENDED = 1 << 62


@dataclass(frozen=True, kw_only=True)
class CheckedRound(Round):
    """A round, and how far it is checked."""

    check: Check

    @property
    def model(self) -> str:
        """Digest of the model that it closed with; empty where it left none."""
        return self.model_digest if self.closed else ""

    @property
    def own_metrics(self) -> dict[str, float]:
        """The first few of ``members_own``."""
        return dict(list(self.members_own.items())[:MAX_OWN_METRICS])


@dataclass(frozen=True)
class RoundList:
    """A page of rounds, the newest first: ``page`` of ``pages``, from 1."""

    rows: tuple[CheckedRound, ...]
    page: int
    pages: int


@dataclass(frozen=True)
class RoundPage:
    """What the page of a round shows in addition to its figures."""

    row: CheckedRound
    rate: int
    seed: str | None
    order_seed: str | None
    order_root: str | None
    trained_from: Blob
    config: Blob
    model: Blob | None
    metrics: str
    replaced: bool
    previous: int | None
    next: int | None
    groups: list[tuple[str, list[RecordRow]]]
    phases: list[PhaseWindow]
    blobs: int


def all_rounds(index: Index, checks: Checks, after: int = -1, at_most: int = -1) -> list[CheckedRound]:
    """Rounds in order: those with a number after this one, and at most as many as this; -1: all."""
    rows, stage = [], stage_of(index, min(after, MAX_INTEGER - 1) + 1)
    for row in index.rows("SELECT * FROM rounds WHERE number > ? ORDER BY number LIMIT ?", after, at_most):
        # First and last place of a round's records: all that its check needs.
        places = (row["opened"], row["voided"] or row["ended"] or _NOT_ENDED)
        rows.append(_checked(row, stage, checks, places))
        stage = (row["stage"] or "") if row["status"] == "closed" else stage
    return rows


def stated(rounds: Sequence[CheckedRound], name: str) -> list[tuple[int, float]]:
    """A figure of each round that has it, with the round's place from 1."""
    values = ((place, row.figure(name)) for place, row in enumerate(rounds, 1))
    return [(place, float(value)) for place, value in values if value is not None]


def round_list(rows: Sequence[CheckedRound], page: int) -> RoundList | None:
    """A page of rounds out of all of them in order, from 1; None where there is no such page."""
    pages = max(1, -(-len(rows) // ROUNDS_A_PAGE))
    if not 1 <= page <= pages:
        return None
    return RoundList(tuple(rows[::-1][(page - 1) * ROUNDS_A_PAGE : page * ROUNDS_A_PAGE]), page, pages)


def first_stage(index: Index) -> str:
    """What the first round is for: a key of ``words.STAGES``, or nothing where there are no clusters."""
    return "blind" if has_clusters(index.latest_config()) else ""


def stage_of(index: Index, number: int) -> str:
    """What a round is for, likewise."""
    base = "SELECT stage FROM rounds WHERE number < ? AND status = 'closed' ORDER BY number DESC LIMIT 1"
    before = index.row(base, number)
    return first_stage(index) if before is None else before["stage"] or ""


def one_round(index: Index, checks: Checks, number: int) -> RoundPage | None:
    """The round with a number, or None where there is none."""
    row = index.row("SELECT * FROM rounds WHERE number = ?", number)
    if row is None:
        return None
    stage = stage_of(index, number)
    records = rows_of(index, checks, "round = ?", number, stage=stage)
    deadlines = Deadlines.of(row["opened_at"], index.deployment.settings, _ends(records))
    return RoundPage(
        row=_checked(row, stage, checks, [record.record for record in records]),
        rate=row["rate"],
        seed=row["seed"],
        order_seed=row["order_seed"],
        order_root=row["order_root"],
        trained_from=blob_of(index, row["trained_from"], "model"),
        config=blob_of(index, row["config"], "config"),
        model=blob_of(index, row["model"], "model") if row["model"] else None,
        metrics=text_of(index, row["metrics"]) if row["metrics"] else "",
        replaced=row["replaced"] is not None,
        previous=index.value("SELECT max(number) FROM rounds WHERE number < ?", number),
        next=index.value("SELECT min(number) FROM rounds WHERE number > ?", number),
        groups=_grouped(records),
        phases=_phases(deadlines, records),
        blobs=len({blob.digest for record in records for blob in record.blobs}),
    )


def leaves_of(index: Index, number: int, link: Callable[[int], str]) -> list[Leaf]:
    """The leaves of a sealed round's cooperation tree, in order; ``link`` makes a client's link."""
    ended = index.value("SELECT ended FROM rounds WHERE number = ?", number) is not None
    query = (
        "SELECT parts.*, json_extract(fields, '$.mask_key') AS mask_key FROM parts JOIN records ON records.id = drawn"
        " WHERE parts.round = ? AND position IS NOT NULL ORDER BY position"
    )
    return [
        Leaf(
            client=part["client"],
            state=_leaf_state(part, ended),
            released=bool(part["released"]),
            link=link(part["client"]),
            stated=part["samples"],
            masks=is_key(bytes.fromhex(part["mask_key"])),
        )
        for part in index.rows(query, number)
    ]


def _checked(row: sqlite3.Row, stage: str, checks: Checks, places: Iterable[int]) -> CheckedRound:
    figures = {**_parsed(row["figures"]), "stage": stage}
    return CheckedRound.from_dict(figures | {"check": checks.round(row["number"], places)})


@lru_cache(maxsize=1 << 12)
def _parsed(figures: str) -> Mapping[str, Any]:
    return inert_values(json.loads(figures))


def _grouped(records: list[RecordRow]) -> list[tuple[str, list[RecordRow]]]:
    groups: dict[str, list[RecordRow]] = {phase: [] for phase in (*PHASES, "other")}
    for record in records:
        phase = next((phase for phase, kinds in PHASES.items() if record.kind in kinds), "other")
        groups[phase].append(record)
    return [(phase, rows) for phase, rows in groups.items() if rows]


def _ends(records: list[RecordRow]) -> Ends:
    """The recorded ends of the phases, whose records end them wherever they are lawful."""
    last = {record.kind: record.block for record in records}
    kinds = ("DrawEnded", "Sealed", "ShareEnded", "CommitEnded", "VouchEnded", "AffirmEnded")
    return Ends(*(last.get(kind, 0) for kind in kinds))


def _phases(deadlines: Deadlines, records: list[RecordRow]) -> list[PhaseWindow]:
    found, first = [], deadlines.opened_at
    for name, kinds in PHASES.items():
        last = deadlines.last_block(Phase[name.upper()])
        if not last or last < first:
            continue  # what members judge has no window, and without bounds nobody vouches
        blocks = tuple(record.block for record in records if record.kind in kinds)
        found.append(PhaseWindow(name, first, last, blocks))
        first = last + 1
    return found


def _leaf_state(part: sqlite3.Row, ended: bool) -> str:
    if part["committed"]:
        return "survived"
    if not ended:
        return "running"
    return "recovered" if part["shared"] else "left"
