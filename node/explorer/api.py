"""The JSON interface: addresses, parameters and answers, in pages of bounded size; see docs/explorer-api.md.

Texts from chain and store are inert and cut, and answers hold nothing but ASCII: no byte of them is markup, wherever
they end up. A field that is not known is null, and none is ever left out. Fields keep their names and meanings; later
versions may add some.
"""

import json
import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from fastapi import FastAPI, Request, Response

from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.inert import inert, inert_values
from fedgrove.node.explorer.options import NO_OPTIONS, PageOptions
from fedgrove.node.explorer.placing import MAX_INTEGER
from fedgrove.node.explorer.views.clients import members
from fedgrove.node.explorer.views.comparison import ComparedRun, Comparison, compared_runs
from fedgrove.node.explorer.views.rounds import CheckedRound, all_rounds
from fedgrove.node.explorer.views.rows import rows_of
from fedgrove.node.explorer.views.settings import flat, shown
from fedgrove.node.explorer.watch import IndexWatch

BASE = "/api/v1"
DEFAULT_LIMIT, MAX_LIMIT = 100, 500
_MAX_EXACT = 1 << 53
_NUMBER = re.compile(r"[0-9]{1,19}")
_PAGING = frozenset({"after", "limit"})
_MARKUP = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&'"}
_log = logging.getLogger(__name__)


class NoAnswer(Exception):
    """Why there is no answer, in one sentence, with HTTP's status."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Page:
    """A page of a list: at most ``limit`` of the items after a place, of those that the filters let through."""

    after: int = -1
    limit: int = DEFAULT_LIMIT
    filters: Mapping[str, int] = field(default_factory=dict)

    def of(self, items: Sequence[tuple[int, Any]]) -> dict[str, Any]:
        """The answer with items by their places, those up to the page's among them; one too many: more follow."""
        later = [item for item in items if item[0] > self.after]
        more = len(later) > self.limit
        listed = later[: self.limit]
        return {"items": [content for _, content in listed], "next": listed[-1][0] if more else None}


class RunsApi:
    """Answers about the runs of several watches, out of what these have found by now; raises NoAnswer."""

    def __init__(self, watches: Sequence[IndexWatch], options: PageOptions = NO_OPTIONS) -> None:
        self._watches = watches
        self._options = options

    def runs(self, page: Page) -> dict[str, Any]:
        """All runs, by number."""
        return page.of([(run.number, _run(run)) for run in compared_runs(self._watches)])

    def run(self, number: int) -> dict[str, Any]:
        """One run."""
        return _run(self._known(number))

    def rounds(self, number: int, page: Page) -> dict[str, Any]:
        """A run's rounds, by number."""
        run, index = self._read(number)
        rows = all_rounds(index, run.checks, page.after, page.limit + 1)
        return page.of([(row.round, self._round(row, run)) for row in rows])

    def round(self, number: int, place: int) -> dict[str, Any]:
        """The round of a run with the number ``place``."""
        run, index = self._read(number)
        rows = all_rounds(index, run.checks, place - 1, 1)
        if not rows or rows[0].round != place:
            raise NoAnswer(404, f"run {number} has no round {place}")
        return self._round(rows[0], run)

    def members(self, number: int, page: Page) -> dict[str, Any]:
        """A run's members, by number."""
        _, index = self._read(number)
        found = members(index, page.after, page.limit + 1)
        return page.of([(each.client, inert_values(asdict(each))) for each in found])

    def records(self, number: int, page: Page) -> dict[str, Any]:
        """A run's records in the order of the chain, of a ``round`` and a ``client`` where the page filters by them."""
        run, index = self._read(number)
        condition = " AND ".join(["id > ?", *(f"{name} = ?" for name in page.filters)])
        values = (page.after, *page.filters.values(), page.limit + 1)
        rows = rows_of(index, run.checks, f"{condition} ORDER BY id LIMIT ?", *values)
        return page.of([(row.record, inert_values(asdict(row))) for row in rows])

    def terms(self, number: int, page: Page) -> dict[str, Any]:
        """The terms of a run's latest round, one by one."""
        config = self._read(number)[0].config
        lines = flat(config.to_tables()) if config is not None else ()
        terms = ({"table": table, "key": key, "value": _plain(value)} for (table, key), value in lines)
        return page.of(list(enumerate(terms, 1)))

    def comparison(self, page: Page) -> dict[str, Any]:
        """Every term with its value in each run."""
        terms = Comparison.of(self._watches).terms
        return page.of(list(enumerate(({**asdict(term), "differs": term.differs} for term in terms), 1)))

    def _known(self, number: int) -> ComparedRun:
        if not 1 <= number <= len(self._watches):
            raise NoAnswer(404, f"there is no run {number}")
        return list(compared_runs(self._watches))[number - 1]

    def _read(self, number: int) -> tuple[ComparedRun, Index]:
        """A run whose records are known, and its index."""
        run = self._known(number)
        if run.index is None and self._watches[number - 1].index is not None and not run.sight.read:
            raise NoAnswer(503, f"the records of run {number} are still being read: ask again")
        if run.index is None:
            raise NoAnswer(404, f"the history of run {number} cannot be read")
        return run, run.index

    def _round(self, row: CheckedRound, run: ComparedRun) -> dict[str, Any]:
        price = self._options.price_on(run.deployment)
        cost = {"amount": (row.fee or 0.0) * price.amount, "currency": price.currency} if price else None
        return row.to_dict() | inert_values({"check": asdict(row.check), "fee": row.fee, "cost": cost})


def _run(run: ComparedRun) -> dict[str, Any]:
    deployment, config, subject, summary = run.deployment, run.config, run.subject, run.summary
    counts = {table: run.count(table) if run.index is not None else None for table in ("records", "rounds", "members")}
    audit = {
        "state": summary.state,
        "title": summary.title,
        "sentence": summary.sentence,
        "checked": run.sight.checked,
        "verdict": run.sight.verdict.verdict if run.sight.verdict is not None else None,
        "first_bad_record": str(run.sight.bad) if run.sight.bad is not None else None,
    }
    return inert_values(
        {
            "run": run.number,
            "name": run.source.name,
            "label": run.label,
            "federation": config.federation.name if config is not None else None,
            **{name: getattr(deployment, name, None) for name in ("chain_id", "ledger", "registry")},
            "live": run.source.live,
            "head_block": run.head,
            "head_hash": f"0x{run.head_hash}" if run.head_hash else None,
            **counts,
            "subject": {"kind": subject.kind, "sentence": subject.sentence} if subject is not None else None,
            "indexed": run.sight.indexed,
            "audit": audit,
        }
    )


def _plain(value: object) -> object:
    """A value of the terms as JSON has it, where readers of JSON take it for the same; else as text."""
    if (
        isinstance(value, int | float)
        and math.isfinite(value)
        and (isinstance(value, float) or abs(value) < _MAX_EXACT)
    ):
        return value
    return value if value is None else shown(value)


# --- over HTTP --------------------------------------------------------------------------------------------------------


def answer_api(app: FastAPI, api: RunsApi) -> None:
    """Add the interface to an application, before pages that answer to any path."""

    def add(path: str, make: Callable[..., Any], filters: frozenset[str] = _PAGING) -> None:
        def answer(request: Request) -> Response:
            return _answered(lambda: make(*_places(request), *_page(request, filters)))

        app.add_api_route(f"{BASE}{path}", answer, methods=["GET", "HEAD"])

    add("/runs", api.runs)
    add("/runs/{run}", api.run, frozenset())
    add("/runs/{run}/rounds", api.rounds)
    add("/runs/{run}/rounds/{round}", api.round, frozenset())
    add("/runs/{run}/members", api.members)
    add("/runs/{run}/records", api.records, _PAGING | {"round", "client"})
    add("/runs/{run}/terms", api.terms)
    add("/comparison", api.comparison)

    @app.api_route("/api/{path:path}", methods=["GET", "HEAD"])
    def nothing(path: str) -> Response:
        return _form({"error": f"there is nothing here: {BASE}/runs lists the runs"}, 404)


def _places(request: Request) -> list[int]:
    """The numbers in the path, in order."""
    return [_number(name, text) for name, text in request.path_params.items()]


def _page(request: Request, allowed: frozenset[str]) -> list[Page]:
    """The page that is asked for, where the address has pages; NoAnswer for what it does not know."""
    given = request.query_params
    for name in given:
        if name not in allowed:
            known = f"; known are {', '.join(sorted(allowed))}" if allowed else ""
            raise NoAnswer(400, f"{inert(name, 40)} is not a parameter here{known}")
        if len(given.getlist(name)) > 1:
            raise NoAnswer(400, f"{name} is given twice")
    if not allowed:
        return []
    numbers = {name: _number(name, text) for name, text in given.items()}
    limit = numbers.pop("limit", DEFAULT_LIMIT)
    if not 1 <= limit <= MAX_LIMIT:
        raise NoAnswer(400, f"limit is from 1 to {MAX_LIMIT}")
    return [Page(numbers.pop("after", -1), limit, numbers)]


def _number(name: str, text: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) > MAX_INTEGER:
        raise NoAnswer(400, f"{name} is a whole number below 2⁶³, in digits")
    return int(text)


def _answered(make: Callable[[], Any]) -> Response:
    try:
        return _form(make())
    except NoAnswer as reason:
        return _form({"error": str(reason)}, reason.status)
    except Exception:
        _log.exception("cannot answer in JSON")
        return _form({"error": "the explorer failed to make this answer: its log has the reason"}, 500)


def _form(content: Any, status: int = 200) -> Response:
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Response(text.translate(_MARKUP), status, media_type="application/json")
