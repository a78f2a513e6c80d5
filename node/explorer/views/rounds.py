"""All rounds in a line each, and one round whole."""

import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedgrove.chain.crypto.tree import EVERYONE
from fedgrove.chain.records.phases import Deadlines, Ends
from fedgrove.node.explorer.checks import Check, Checks
from fedgrove.node.explorer.drawings import PhaseWindow
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.inert import inert
from fedgrove.node.explorer.placing import MAX_INTEGER
from fedgrove.node.explorer.terms import config_of, has_clusters, latest_config
from fedgrove.node.explorer.tree_drawing import Leaf
from fedgrove.node.explorer.views.rows import Blob, RecordRow, blob_of, rows_of, text_of
from fedgrove.node.explorer.views.words import PHASES
from fedgrove.node.masking.keys import is_low_order
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.rounds import SPOILT, follows_spoilt
from fedgrove.node.status.budget import ETHER

MAX_OWN_METRICS = 8
"""Of a task's own metrics that members state, at most this many are shown."""

ROUNDS_A_PAGE = 25

_ROUNDS = (
    "SELECT rounds.*, opening.time AS opened_time, ending.time AS ended_time FROM rounds"
    " LEFT JOIN blocks AS opening ON opening.number = opened_at"
    " LEFT JOIN records ON records.id = rounds.ended LEFT JOIN blocks AS ending ON ending.number = records.block"
)
_NOT_ENDED = 1 << 62
_COMMON_METRICS = (
    *("samples", "loss", "standard_error", "accuracy", "void", "ending", "last", "noise", "stopped"),
    "confusion",
)


@dataclass(frozen=True)
class RoundRow:
    """One round in one line; the fields are those of ``node.audit.report.RoundReport``, as far as they are known.

    ``stage`` is a key of ``words.STAGES``, where there are clusters and the round before is known. The members' figures
    are of the model that the round began with, ``members_own`` the means of their task's own metrics by name, and
    ``members_noise`` is the noise that these rates have under client-level privacy; ``ending`` says why the training
    has ended, and ``only_evaluated`` that the round trained nothing. ``wei`` are its fees, and ``fee`` the same in
    the chain's currency. ``bytes`` is None while the store has not been asked about all uploads. ``opened_time`` is the
    opening block's, in seconds since 1970 by the clock of whoever made it; ``seconds`` lie between it and the block in
    which the round ended.
    """

    number: int
    status: str
    reason: str
    accuracy: float | None
    loss: float | None
    drawn: int
    committed: int
    gas: int
    bytes: int | None
    epsilon: float | None
    ledger_epsilon: float | None
    model: str
    stage: str
    check: Check
    wei: int = 0
    members_samples: int = 0
    members_accuracy: float | None = None
    members_loss: float | None = None
    members_error: float | None = None
    members_void: str = ""
    members_stopped: tuple[str, ...] = ()
    members_own: Mapping[str, float] = field(default_factory=dict)
    ending: str = ""
    only_evaluated: bool = False
    members_noise: float | None = None
    opened_time: int | None = None
    seconds: int | None = None

    @property
    def fee(self) -> float:
        return self.wei / ETHER


@dataclass(frozen=True)
class Missing:
    """Clients that had no part in a round's sum: those that left after their draw, and those that did not draw.

    Who did not draw is known only of rounds in which everybody was to.
    """

    left: tuple[int, ...] = ()
    undrawn: tuple[int, ...] = ()


@dataclass(frozen=True)
class RoundList:
    """A page of rounds, the newest first: ``page`` of ``pages``, from 1, and who was missing by a round's number."""

    rows: tuple[RoundRow, ...]
    missing: Mapping[int, Missing]
    page: int
    pages: int


@dataclass(frozen=True)
class RoundPage:
    """Everything about one round.

    Attributes
    ----------
    row : RoundRow
    missing : Missing
    opened_block : int
    rate : int
        Of sampling, in millionths.
    members : int
        That could be drawn.
    seed, order_seed, order_root : str or None
        Hexadecimal; None until they are fixed.
    trained_from, config, model : Blob, Blob, Blob or None
    metrics : str
        As JSON; empty when they are not at hand.
    previous, next : int or None
        Numbers of the rounds before and after.
    groups : list of (str, list of Row)
        The records by phase, then those of no phase; groups without any are left out.
    ended_block : int or None
    evidence : list of (Row, str)
        What is said against the round, and its text.
    phases : list of Phase
    blobs : int
        How many the records name.
    """

    row: RoundRow
    missing: Missing
    opened_block: int
    rate: int
    members: int
    seed: str | None
    order_seed: str | None
    order_root: str | None
    trained_from: Blob
    config: Blob
    model: Blob | None
    metrics: str
    previous: int | None
    next: int | None
    groups: list[tuple[str, list[RecordRow]]]
    ended_block: int | None
    evidence: list[tuple[RecordRow, str]]
    phases: list[PhaseWindow]
    blobs: int


def all_rounds(index: Index, checks: Checks, after: int = -1, at_most: int = -1) -> list[RoundRow]:
    """Rounds in order: those with a number after this one, and at most as many as this; -1: all."""
    rows, stage = [], stage_of(index, min(after, MAX_INTEGER - 1) + 1)
    for row in index.rows(f"{_ROUNDS} WHERE rounds.number > ? ORDER BY rounds.number LIMIT ?", after, at_most):
        # First and last place of a round's records: all that its check needs.
        rows.append(_round_row(row, stage, checks, (row["opened"], row["voided"] or row["ended"] or _NOT_ENDED)))
        stage = (row["stage"] or "") if row["status"] == "closed" else stage
    return rows


def round_list(index: Index, rows: Sequence[RoundRow], page: int) -> RoundList | None:
    """A page of rounds out of all of them in order, from 1; None where there is no such page."""
    pages = max(1, -(-len(rows) // ROUNDS_A_PAGE))
    if not 1 <= page <= pages:
        return None
    shown = tuple(rows[::-1][(page - 1) * ROUNDS_A_PAGE : page * ROUNDS_A_PAGE])
    return RoundList(shown, {row.number: missing_in(index, row.number) for row in shown}, page, pages)


def missing_in(index: Index, number: int) -> Missing:
    """Who was missing in a round; nobody is while it runs."""
    row = index.row("SELECT opened_at, rate, ended FROM rounds WHERE number = ?", number)
    if row is None or row["ended"] is None:
        return Missing()
    gone = "SELECT client FROM parts WHERE round = ? AND drawn IS NOT NULL AND committed IS NULL ORDER BY client"
    left = tuple(each["client"] for each in index.rows(gone, number))
    if row["rate"] < EVERYONE:
        return Missing(left)
    awaited = (
        "SELECT client FROM members WHERE active_from <= ? AND client NOT IN"
        " (SELECT client FROM parts WHERE round = ? AND drawn IS NOT NULL) AND client NOT IN"
        " (SELECT client FROM records WHERE kind = 'Withdrawn' AND client IS NOT NULL AND block <= ?"
        " AND json_extract(fields, '$.points') = 0) ORDER BY client"
    )
    undrawn = index.rows(awaited, row["opened_at"], number, row["opened_at"])
    return Missing(left, tuple(each["client"] for each in undrawn))


def first_stage(index: Index) -> str:
    """What the first round is for: a key of ``words.STAGES``, or nothing where there are no clusters."""
    return "blind" if has_clusters(latest_config(index)) else ""


def stage_of(index: Index, number: int) -> str:
    """What a round is for, likewise."""
    base = "SELECT stage FROM rounds WHERE number < ? AND status = 'closed' ORDER BY number DESC LIMIT 1"
    before = index.row(base, number)
    return first_stage(index) if before is None else before["stage"] or ""


def one_round(index: Index, checks: Checks, number: int) -> RoundPage | None:
    """The round with a number, or None where there is none."""
    row = index.row(f"{_ROUNDS} WHERE rounds.number = ?", number)
    if row is None:
        return None
    stage = stage_of(index, number)
    records = rows_of(index, checks, "round = ?", number, stage=stage)
    deadlines = Deadlines.of(row["opened_at"], index.deployment.settings, _ends(records))
    return RoundPage(
        row=_round_row(row, stage, checks, [record.place for record in records]),
        missing=missing_in(index, number),
        opened_block=row["opened_at"],
        rate=row["rate"],
        members=row["members"],
        seed=row["seed"],
        order_seed=row["order_seed"],
        order_root=row["order_root"],
        trained_from=blob_of(index, row["trained_from"], "model"),
        config=blob_of(index, row["config"], "config"),
        model=blob_of(index, row["model"], "model") if row["model"] else None,
        metrics=text_of(index, row["metrics"]) if row["metrics"] else "",
        previous=index.value("SELECT max(number) FROM rounds WHERE number < ?", number),
        next=index.value("SELECT min(number) FROM rounds WHERE number > ?", number),
        groups=_grouped(records),
        ended_block=next((record.block for record in records if record.place == row["ended"]), None),
        evidence=_evidence(index, records),
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
            masks=not is_low_order(bytes.fromhex(part["mask_key"])),
        )
        for part in index.rows(query, number)
    ]


def regrouped(index: Index, number: int, leaves: Sequence[Leaf]) -> tuple[tuple[int, ...], ...] | None:
    """Clients that are summed apart in a round after one that a member spoilt; None where all are summed together.

    Nobody where the round's terms, which say so, are not at hand. Clusters and K-means have groups of their own.
    """
    reasons = sorted(reason.name.lower() for reason in SPOILT)
    marks = ", ".join("?" for _ in reasons)
    query = f"SELECT number FROM rounds WHERE number < ? AND reason IN ({marks}) ORDER BY number"
    if not leaves or not follows_spoilt([row["number"] for row in index.rows(query, number, *reasons)], number):
        return None
    config = config_of(index, number)
    if config is None:
        return ()
    parts = method_of(config).parts(len(leaves))
    return tuple(tuple(leaves[position].client for position in part) for part in parts) or None


def _round_row(row: sqlite3.Row, stage: str, checks: Checks, places: Iterable[int]) -> RoundRow:
    closed = row["status"] == "closed"
    members = json.loads(row["members_metrics"]) if closed and row["members_metrics"] else {}
    return RoundRow(
        number=row["number"],
        status=row["status"],
        reason=(row["reason"] or "").replace("_", " "),
        accuracy=row["accuracy"] if closed else None,
        loss=row["loss"] if closed else None,
        drawn=row["drawn"],
        committed=row["committed"],
        gas=row["gas"],
        bytes=row["bytes"],
        epsilon=row["epsilon"] if closed else None,
        ledger_epsilon=row["ledger_epsilon"] if closed else None,
        model=row["model"].hex() if row["model"] and closed else "",
        stage=stage,
        check=checks.round(row["number"], places),
        members_samples=members.get("samples", 0),
        members_accuracy=members.get("accuracy"),
        members_loss=members.get("loss"),
        members_error=members.get("standard_error"),
        members_own=_own_metrics(members),
        wei=int(row["wei"]),
        members_void=members.get("void", ""),
        members_stopped=tuple(members.get("stopped", ())),
        ending=members.get("ending", ""),
        only_evaluated=members.get("last", False),
        members_noise=members.get("noise"),
        opened_time=row["opened_time"],
        seconds=row["ended_time"] - row["opened_time"] if None not in (row["ended_time"], row["opened_time"]) else None,
    )


def _own_metrics(members: Mapping[str, Any]) -> dict[str, float]:
    own = [(inert(name, 40), value) for name, value in members.items() if name not in _COMMON_METRICS]
    return {name: value for name, value in own[:MAX_OWN_METRICS] if value is not None and math.isfinite(value)}


def _grouped(records: list[RecordRow]) -> list[tuple[str, list[RecordRow]]]:
    groups: dict[str, list[RecordRow]] = {phase: [] for phase in (*PHASES, "other")}
    for record in records:
        phase = next((phase for phase, kinds in PHASES.items() if record.kind in kinds), "other")
        groups[phase].append(record)
    return [(phase, rows) for phase, rows in groups.items() if rows]


def _ends(records: list[RecordRow]) -> Ends:
    """The recorded ends of the phases, whose records end them wherever they are lawful."""
    last = {record.kind: record.block for record in records}
    kinds = ("DrawEnded", "Sealed", "ShareEnded", "CommitEnded", "Recovered")
    return Ends(*(last.get(kind, 0) for kind in kinds))


def _phases(deadlines: Deadlines, records: list[RecordRow]) -> list[PhaseWindow]:
    ends = {
        "seeding": deadlines.seed_block,
        "draw": deadlines.draw_end,
        "seal": deadlines.seal_end,
        "share": deadlines.share_end,
        "commit": deadlines.commit_end,
        "recover": deadlines.recover_end,
        "close": deadlines.close_end,
    }
    found, first = [], deadlines.opened_at
    for name, last in ends.items():
        blocks = tuple(record.block for record in records if record.kind in PHASES[name])
        found.append(PhaseWindow(name, first, last, blocks))
        first = last + 1
    return found


def _evidence(index: Index, records: list[RecordRow]) -> list[tuple[RecordRow, str]]:
    named = ((record, blob) for record in records for blob in record.blobs if blob.role == "evidence")
    return [(record, text_of(index, bytes.fromhex(blob.digest))) for record, blob in named]


def _leaf_state(part: sqlite3.Row, ended: bool) -> str:
    if part["committed"]:
        return "survived"
    if not ended:
        return "running"
    return "recovered" if part["shared"] else "left"
