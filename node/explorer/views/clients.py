"""All members, one member, and what members have asked to be forgotten."""

import sqlite3
from dataclasses import dataclass

from fedgrove.node.explorer.checks import Check, Checks
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.placing import Entry, entry_from
from fedgrove.node.explorer.sums import UPLOADED
from fedgrove.node.explorer.views.rows import RecordRow, detail, rows_of
from fedgrove.node.status.price import ETHER


@dataclass(frozen=True)
class MemberSummary:
    """A member in one line: how often it drew, committed and judged, in all rounds."""

    client: int
    account: str
    vrf_key: str
    draws: int
    commits: int
    judgements: int


@dataclass(frozen=True)
class Part:
    """What a client that drew did in a round, and what became of it: ``outcome`` is a key of ``words.OUTCOMES``."""

    round: int
    outcome: str
    samples: int | None
    position: int | None


@dataclass(frozen=True)
class ClientPage:
    """Everything about one client; its keys are public halves in hex, and it can be drawn from a block on.

    ``gas`` and ``fee`` are those of all its transactions, ``bytes`` all that it uploaded, as far as the store was asked
    about all (else None).
    """

    client: int
    account: str
    vrf_key: str
    mailbox_key: str
    active_from: int
    parts: list[Part]
    membership: list[RecordRow]
    judgements: list[RecordRow]
    gas: int
    fee: float
    bytes: int | None


@dataclass(frozen=True)
class Forgetting:
    """A request to forget, and the round (or None) from whose model on the points are in none; see ``forgettings``."""

    client: int
    detail: str
    block: int
    transaction: str
    round: int | None
    check: Check


def members(index: Index, after: int = 0, at_most: int = -1) -> list[MemberSummary]:
    """Members in order: those with a number after this one, and at most as many as this; -1: all."""
    query = (
        "SELECT client, account, vrf_key, count(drawn) AS draws, count(committed) AS commits,"
        " count(judged) AS judgements"
        " FROM members LEFT JOIN parts USING (client) WHERE client > ? GROUP BY client ORDER BY client LIMIT ?"
    )
    return [MemberSummary(*row) for row in index.rows(query, after, at_most)]


def one_client(index: Index, checks: Checks, client: int) -> ClientPage | None:
    """The client with a number, or None where there is none."""
    row = index.row("SELECT * FROM members WHERE client = ?", client)
    if row is None:
        return None
    parts = index.rows(
        "SELECT parts.*, rounds.status, rounds.ended, uploads.size FROM parts JOIN rounds ON number = round"
        " LEFT JOIN named ON named.record = parts.committed LEFT JOIN blobs AS uploads USING (digest) WHERE client = ?"
        " AND parts.drawn IS NOT NULL ORDER BY round",
        client,
    )
    return ClientPage(
        client=client,
        account=row["account"],
        vrf_key=row["vrf_key"],
        mailbox_key=row["mailbox_key"],
        active_from=row["active_from"],
        parts=[_part(part) for part in parts],
        membership=rows_of(index, checks, "client = ? AND round IS NULL", client),
        judgements=rows_of(index, checks, "client = ? AND kind = 'Judged'", client),
        gas=index.value("SELECT coalesce(sum(gas), 0) FROM transactions WHERE sender = ?", row["account"]),
        fee=int(index.value("SELECT coalesce(sum_wei(wei), '0') FROM transactions WHERE sender = ?", row["account"]))
        / ETHER,
        bytes=index.value(f"{UPLOADED} AND client = ?", client),
    )


def forgettings(index: Index, checks: Checks) -> list[Forgetting]:
    """Requests to forget, in order.

    A request is honoured by the first round that was opened after it and summed everybody anew
    (``node.methods.kmeans.exchange``); a round that summed nothing leaves the model as it was.
    """
    query = (
        "SELECT records.*, hash FROM records JOIN transactions ON transactions.id = tx"
        " WHERE kind = 'Withdrawn' ORDER BY records.id"
    )
    requests = [(entry_from(row), row["hash"]) for row in index.rows(query)]
    return [
        Forgetting(
            client=entry.client,
            detail=detail(entry),
            block=entry.block,
            transaction="0x" + transaction.hex(),
            round=_honoured_by(index, entry),
            check=checks.record(entry.id, entry.kind, entry.round, entry.client),
        )
        for entry, transaction in requests
        if entry.client is not None
    ]


def _honoured_by(index: Index, request: Entry) -> int | None:
    query = "SELECT min(number) FROM rounds WHERE status = 'closed' AND opened_at >= ? AND model != trained_from"
    return index.value(query, request.block)


def _part(part: sqlite3.Row) -> Part:
    """As ``_outcome`` needs it."""
    return Part(part["round"], _outcome(part), part["samples"], part["position"])


def _outcome(part: sqlite3.Row) -> str:
    """Of a part of a round, with the round's status and end, and the size of what was committed."""
    if part["committed"] is not None:
        if part["status"] == "closed":
            return "silent" if part["size"] == 0 else "counted"
        return "committed" if part["ended"] else "running"
    if part["ended"] is None:
        return "running"
    return "recovered" if part["shared"] else "left"
