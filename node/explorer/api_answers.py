"""What the JSON interface answers: values from the same views as the pages', in pages of bounded size.

Texts from chain and store are inert and cut. A field that is not known is null, and none is ever left out. Fields keep
their names and meanings; later versions may add some.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedgrove.node.explorer.checks import Check, Checks
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.inert import inert
from fedgrove.node.explorer.options import NO_OPTIONS, PageOptions
from fedgrove.node.explorer.terms import latest_config
from fedgrove.node.explorer.views.clients import MemberSummary, members
from fedgrove.node.explorer.views.comparison import Comparison, labels_of
from fedgrove.node.explorer.views.rounds import CheckedRound, all_rounds
from fedgrove.node.explorer.views.rows import RecordRow, rows_of
from fedgrove.node.explorer.views.settings import flat, shown
from fedgrove.node.explorer.watch import IndexWatch
from fedgrove.node.status.subject import subject_of

DEFAULT_LIMIT, MAX_LIMIT = 100, 500
_MAX_EXACT = 1 << 53


class BadRequest(ValueError):
    """A parameter that the interface does not know, or cannot take."""


class NothingThere(LookupError):
    """There is nothing at this address."""


class StillReading(Exception):
    """The history is being read: nothing is known yet."""


@dataclass(frozen=True)
class Page:
    """A page of a list: at most ``limit`` of the items after a place, of those that the filters let through."""

    after: int = -1
    limit: int = DEFAULT_LIMIT
    filters: Mapping[str, int] = field(default_factory=dict)


class RunsApi:
    """Answers about the runs of several watches, out of what these have found by now.

    Parameters
    ----------
    watches : sequence of IndexWatch
        In the order that gives the runs their numbers, from 1.
    options : PageOptions
    """

    def __init__(self, watches: Sequence[IndexWatch], options: PageOptions = NO_OPTIONS) -> None:
        self._watches = watches
        self._options = options

    def runs(self, page: Page) -> dict[str, Any]:
        """All runs, by number."""
        numbers = range(1, len(self._watches) + 1)
        return _listed([(number, self.run(number)) for number in numbers if number > page.after], page)

    def run(self, number: int) -> dict[str, Any]:
        """One run. This and all that follow raise NothingThere; those below a run also StillReading."""
        watch = self._watch(number)
        label = labels_of([inert(each.source.name) for each in self._watches])[number - 1]
        return _run(number, label, watch)

    def rounds(self, number: int, page: Page) -> dict[str, Any]:
        """A run's rounds, by number."""
        index, checks = self._index(number)
        rows = all_rounds(index, checks, page.after, page.limit + 1)
        return _listed([(row.round, self._round(row, number)) for row in rows], page)

    def round(self, number: int, place: int) -> dict[str, Any]:
        """The round of a run with the number ``place``."""
        index, checks = self._index(number)
        rows = all_rounds(index, checks, place - 1, 1)
        if not rows or rows[0].round != place:
            raise NothingThere(f"run {number} has no round {place}")
        return self._round(rows[0], number)

    def members(self, number: int, page: Page) -> dict[str, Any]:
        """A run's members, by number."""
        index, _ = self._index(number)
        return _listed([(each.client, _member(each)) for each in members(index, page.after, page.limit + 1)], page)

    def records(self, number: int, page: Page) -> dict[str, Any]:
        """A run's records in the order of the chain, of a ``round`` and a ``client`` where the page filters by them."""
        index, checks = self._index(number)
        names = [name for name in ("round", "client") if name in page.filters]
        condition = " AND ".join(["id > ?", *(f"{name} = ?" for name in names)])
        values = (page.after, *(page.filters[name] for name in names), page.limit + 1)
        rows = rows_of(index, checks, f"{condition} ORDER BY id LIMIT ?", *values)
        return _listed([(row.place, _record(row)) for row in rows], page)

    def terms(self, number: int, page: Page) -> dict[str, Any]:
        """The terms of a run's latest round, one by one."""
        index, _ = self._index(number)
        config = latest_config(index)
        lines = flat(config.to_tables()) if config is not None else ()
        items = enumerate(({"table": table, "key": key, "value": _plain(value)} for (table, key), value in lines), 1)
        return _listed([item for item in items if item[0] > page.after][: page.limit + 1], page)

    def comparison(self, page: Page) -> dict[str, Any]:
        """Every term with its value in each run."""
        terms = enumerate(Comparison.of(self._watches).terms, 1)
        items = [
            (place, {"table": term.table, "key": term.key, "differs": term.differs, "values": list(term.values)})
            for place, term in terms
            if place > page.after
        ]
        return _listed(items[: page.limit + 1], page)

    def _watch(self, number: int) -> IndexWatch:
        if not 1 <= number <= len(self._watches):
            raise NothingThere(f"there is no run {number}")
        return self._watches[number - 1]

    def _index(self, number: int) -> tuple[Index, Checks]:
        watch, sight = self._watch(number), self._watch(number).sight
        if watch.index is not None and watch.known:
            return watch.index, Checks(sight)
        if watch.index is not None and not sight.read:
            raise StillReading(f"the records of run {number} are still being read: ask again")
        raise NothingThere(f"the history of run {number} cannot be read")

    def _round(self, row: CheckedRound, number: int) -> dict[str, Any]:
        price = self._options.price_on(self._watch(number).source.deployment)
        paid = row.fee or 0.0
        cost = {"amount": _finite(paid * price.amount), "currency": price.currency} if price else None
        return {**row.to_dict(), "check": _check(row.check), "fee": _finite(row.fee), "cost": cost}


def _listed(items: Sequence[tuple[int, Any]], page: Page) -> dict[str, Any]:
    """A page out of items by their places; one item too many means that more follow."""
    more = len(items) > page.limit
    return {
        "items": [content for _, content in items[: page.limit]],
        "next": items[page.limit - 1][0] if more else None,
    }


def _run(number: int, label: str, watch: IndexWatch) -> dict[str, Any]:
    source, sight = watch.source, watch.sight
    index = watch.index if watch.known else None
    deployment = source.deployment
    config = latest_config(index) if index is not None else None
    counts: dict[str, int | None] = dict.fromkeys(("records", "rounds", "members"))
    if index is not None:
        counts = {table: index.value(f"SELECT count(*) FROM {table}") for table in counts}
    subject = subject_of(config) if config is not None else None
    summary = Checks(sight).summary(counts["records"] if index is not None or not sight.read else 0)
    head = index.head() if index is not None else None
    return {
        "run": number,
        "name": inert(source.name),
        "label": inert(label),
        "federation": inert(config.federation.name) if config is not None else None,
        "chain_id": deployment.chain_id if deployment is not None else None,
        "ledger": inert(deployment.ledger) if deployment is not None else None,
        "registry": inert(deployment.registry) if deployment is not None else None,
        "live": source.live,
        "head_block": head,
        "head_hash": _hash(index, head),
        **counts,
        "subject": {"kind": subject.kind, "sentence": inert(subject.sentence)} if subject is not None else None,
        "indexed": sight.indexed,
        "audit": {
            "state": summary.state,
            "title": summary.title,
            "sentence": inert(summary.sentence),
            "checked": sight.checked,
            "verdict": sight.verdict.verdict if sight.verdict is not None else None,
            "first_bad_record": inert(sight.bad) if sight.bad is not None else None,
        },
    }


def _hash(index: Index | None, block: int | None) -> str | None:
    found = index.block_hash(block) if index is not None and block is not None else None
    return f"0x{found.hex()}" if found else None


def _member(member: MemberSummary) -> dict[str, Any]:
    texts = {"account": inert(member.account), "vrf_key": inert(member.vrf_key)}
    counts = ("draws", "commits", "absences", "disputes")
    return {"client": member.client, **texts, **{name: getattr(member, name) for name in counts}}


def _record(row: RecordRow) -> dict[str, Any]:
    blobs = [
        {
            "digest": blob.digest,
            "role": blob.role,
            "state": blob.state,
            "cid": inert(blob.cid) or None,
            "size": blob.size,
        }
        for blob in row.blobs
    ]
    return {
        "record": row.place,
        "kind": row.kind,
        "round": row.round,
        "client": row.client,
        "block": row.block,
        "transaction": row.transaction,
        "detail": inert(row.detail),
        "check": _check(row.check),
        "blobs": blobs,
    }


def _check(check: Check) -> dict[str, str]:
    return {"state": check.state, "reason": inert(check.reason)}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _plain(value: object) -> object:
    """A value of the terms as JSON has it, where readers of JSON take it for the same; else as text."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int) and abs(value) < _MAX_EXACT:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return shown(value)
