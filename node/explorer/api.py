"""The JSON interface over HTTP: addresses, parameters, and the form of every answer; see docs/explorer-api.md.

Answers hold nothing but ASCII: no byte of them is markup, wherever they end up.
"""

import json
import logging
import re
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request, Response

from fedgrove.node.explorer.api_answers import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    BadRequest,
    NothingThere,
    Page,
    RunsApi,
    StillReading,
)
from fedgrove.node.explorer.inert import inert
from fedgrove.node.explorer.placing import MAX_INTEGER

BASE = "/api/v1"
_log = logging.getLogger(__name__)
_NUMBER = re.compile(r"[0-9]{1,19}")
_PAGING = frozenset({"after", "limit"})
_MARKUP = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&'"}


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
    """The page that is asked for, where the address has pages; BadRequest for what it does not know."""
    given = request.query_params
    for name in given:
        if name not in allowed:
            known = f"; known are {', '.join(sorted(allowed))}" if allowed else ""
            raise BadRequest(f"{inert(name, 40)} is not a parameter here{known}")
        if len(given.getlist(name)) > 1:
            raise BadRequest(f"{name} is given twice")
    if not allowed:
        return []
    numbers = {name: _number(name, text) for name, text in given.items()}
    limit = numbers.pop("limit", DEFAULT_LIMIT)
    if not 1 <= limit <= MAX_LIMIT:
        raise BadRequest(f"limit is from 1 to {MAX_LIMIT}")
    return [Page(numbers.pop("after", -1), limit, numbers)]


def _number(name: str, text: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) > MAX_INTEGER:
        raise BadRequest(f"{name} is a whole number below 2⁶³, in digits")
    return int(text)


def _answered(make: Callable[[], Any]) -> Response:
    try:
        return _form(make())
    except BadRequest as fault:
        return _form({"error": str(fault)}, 400)
    except NothingThere as fault:
        return _form({"error": str(fault)}, 404)
    except StillReading as fault:
        return _form({"error": str(fault)}, 503)
    except Exception:
        _log.exception("cannot answer in JSON")
        return _form({"error": "the explorer failed to make this answer: its log has the reason"}, 500)


def _form(content: Any, status: int = 200) -> Response:
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Response(text.translate(_MARKUP), status, media_type="application/json")
