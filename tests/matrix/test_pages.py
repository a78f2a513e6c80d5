"""Every page of a run of every kind, and of comparisons with it: over HTTP and as JSON (an export: ``test_commands``).

The routes are those of the application: one that is not listed here fails a test, so that a new page is opened, too.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from urllib.parse import urljoin

import pytest
from fastapi.testclient import TestClient
from starlette.routing import Mount, Route

from fedgrove.chain.face.networks import connect
from fedgrove.node.explorer.api import BASE
from fedgrove.node.explorer.cache import open_index
from fedgrove.node.explorer.comparing import PATHS
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.pages import ROUTES
from fedgrove.node.explorer.server import HEADERS, make_app
from fedgrove.node.explorer.sources import CarSource, DirectorySource, LiveSource, Source
from fedgrove.node.explorer.watch import IndexWatch
from tests.matrix.kinds import KINDS, Run, Runs
from tests.node.explorer.conftest import HOME
from tests.node.explorer.test_pages import LINK, check_well_formed

pytestmark = pytest.mark.xdist_group("matrix")

UNREADABLE = ("broken", "unreadable")
"""Kinds of which nothing but one page can be shown."""
PLACES: dict[str, Callable[[Index], list[str]]] = {
    "": lambda index: [""],
    "rounds/(": lambda index: [f"rounds/{row[0]}/" for row in index.rows("SELECT number FROM rounds")],
    "rounds/page/(": lambda index: [
        f"rounds/page/{page}/" for page in range(2, 1 + index.value("SELECT count(*) FROM rounds"))
    ],
    "clients/": lambda index: ["clients/"],
    "clients/(": lambda index: [f"clients/{row[0]}/" for row in index.rows("SELECT client FROM members")],
    "clusters/": lambda index: ["clusters/"],
    "models/": lambda index: ["models/"],
    "contracts/": lambda index: ["contracts/"],
    "blobs/(": lambda index: [f"blobs/{row[0].hex()}/" for row in index.rows("SELECT digest FROM blobs")],
    "help/": lambda index: ["help/"],
    "search/": lambda index: [f"search/?q={words}" for words in ("", "1", "0", _start(index), "nothing")],
}
"""Paths of each page in a history, by what its pattern begins with; here a list of rounds has one a page."""
OTHERS = {"/events", "/raw/{digest}", "/static", "/api/{path:path}", "/{path:path}"}
UNTOLD = re.compile(r">\s*(?:None|nan|inf|Undefined|\{\{|\{\}|\[\])\s*<|jinja2|Traceback")
"""What a page would show of a value that its template took for another."""


def _start(index: Index) -> str:
    digest = index.value("SELECT digest FROM blobs LIMIT 1")
    return digest.hex()[:8] if digest is not None else index.deployment.ledger[2:10]


@dataclass(frozen=True)
class Shown:
    """A run's watch, which has settled, and a client of its pages."""

    watch: IndexWatch
    client: TestClient

    def paths(self, name: str) -> list[str]:
        index = self.watch.index
        if self.watch.known and index is not None:
            return PLACES[name](index)
        return [""] if name == "" else []


class _Shows:
    """Shows each run when it is first asked for, until the end."""

    def __init__(self, runs: Runs, held: ExitStack) -> None:
        self._runs, self._held, self._made = runs, held, {}

    def of(self, kind: str) -> Shown:
        if kind not in self._made:
            run = self._runs.of(kind)
            source = _source(run, self._held)
            index = self._held.enter_context(open_index(source, run.folder / "cache"))
            watch = self._held.enter_context(IndexWatch(source, index))
            watch.settle()
            self._made[kind] = Shown(watch, TestClient(make_app(watch), base_url=HOME))
        return self._made[kind]


def _source(run: Run, held: ExitStack) -> Source:
    if run.live is not None:
        network = held.enter_context(connect([run.live.network.url]))
        return LiveSource(network, run.live.deployment, run.live.store, "live", "fedgrove audit …")
    return DirectorySource(run.path) if run.path.is_dir() else held.enter_context(closing(CarSource(run.path)))


@pytest.fixture(scope="session")
def shows(runs) -> Iterator[_Shows]:
    with ExitStack() as held:
        yield _Shows(runs, held)


def check(answer, where: str) -> None:
    """A page or an answer that is whole, as every other is."""
    assert answer.status_code == 200, f"{where}: {answer.status_code} {answer.text[:300]}"
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS, where
    if "text/html" in answer.headers["content-type"]:
        check_well_formed(answer.text)
        found = UNTOLD.search(answer.text)
        assert not found, f"{where}: {answer.text[max(0, found.start() - 200) : found.end() + 50]}"


def test_every_route_of_the_application_is_opened(shows):
    app = shows.of("network").client.app
    routes = [route for route in app.routes if isinstance(route, Route | Mount)]
    found = {route.path for route in routes if not route.path.startswith(BASE)}
    assert found == OTHERS, "a route is new: open it here, for a run of every kind"
    begins = {re.match(r"[^(]*\(?", pattern.pattern)[0] for pattern, _ in ROUTES}
    assert begins == set(PLACES) and len(ROUTES) == len(PLACES), "a page is new: say in PLACES at which paths it is"
    assert {route.path.removeprefix(BASE) for route in routes if route.path.startswith(BASE)} == set(ANSWERS)


@pytest.mark.parametrize("page", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_page_of_every_kind_is_whole(shows, kind, page):
    shown = shows.of(kind)
    for path in shown.paths(page):
        answer = shown.client.get(f"/{path}")
        if page == "clusters/" and kind != "procfl":
            assert answer.status_code == 404
        else:
            check(answer, path)


@pytest.mark.parametrize("kind", KINDS)
def test_every_link_of_every_kind_leads_somewhere(shows, kind):
    """Blobs that the store does not hold, or not whole, are the only ones that are not there."""
    shown = shows.of(kind)
    seen, due = set(), ["/"]
    while due:
        path = due.pop()
        if path in seen or path.startswith("http"):
            continue
        seen.add(path)
        answer = shown.client.get(path, follow_redirects=False)
        if path.startswith("/raw/"):
            assert answer.status_code in (200, 404, 502), path
            continue
        assert answer.status_code == 200, f"{path}: {answer.status_code}"
        if "text/html" in answer.headers["content-type"]:
            due += [urljoin(path, link) for link in LINK.findall(answer.text)]
    listed = {f"/{path}" for page in PLACES for path in shown.paths(page) if "?" not in path and "blobs" not in path}
    assert listed - {"/clusters/"} <= seen, "no link leads to a page"


ANSWERS: dict[str, Callable[[TestClient, str], list[str]]] = {
    "/runs": lambda client, run: [""],
    "/runs/{run}": lambda client, run: [run],
    "/runs/{run}/rounds": lambda client, run: [f"{run}/rounds"],
    "/runs/{run}/rounds/{round}": lambda client, run: [
        f"{run}/rounds/{each['round']}" for each in _items(client, f"{run}/rounds")
    ],
    "/runs/{run}/members": lambda client, run: [f"{run}/members"],
    "/runs/{run}/records": lambda client, run: [f"{run}/records{more}" for more in ("", "?round=1", "?client=1")],
    "/runs/{run}/terms": lambda client, run: [f"{run}/terms"],
    "/comparison": lambda client, run: ["../comparison"],
}
"""Addresses of each answer about a run, below that of all runs."""


def _items(client: TestClient, path: str) -> list[dict]:
    return client.get(f"{BASE}/runs/{path}").json().get("items", [])


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_answer_in_json_about_every_kind_is_whole(shows, kind, answer):
    client = shows.of(kind).client
    below = answer.count("/") > 2 and answer != "/comparison"
    for path in ANSWERS[answer](client, "/1"):
        found = client.get(f"{BASE}/comparison" if "comparison" in path else f"{BASE}/runs{path}")
        if below and kind in UNREADABLE:
            assert found.status_code == 404 and "cannot be read" in found.json()["error"]
        else:
            check(found, path)
            assert found.json() is not None


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_comparison_with_every_kind_is_whole(shows, kind, path):
    others = [other for other in ("network", "kmeans", "task") if other != kind]
    client = TestClient(make_app(*(shows.of(each).watch for each in (kind, *others))), base_url=HOME)
    check(client.get(f"/{path}"), path)
    if not path:
        for page in PLACES:
            for own in shows.of(kind).paths(page)[:1]:
                if page != "clusters/" or kind == "procfl":
                    check(client.get(f"/runs/1/{own}"), own)
        for answer in ("runs", "runs/1", "comparison"):
            check(client.get(f"{BASE}/{answer}"), answer)


def test_what_is_learned_is_said_in_words_of_every_kind(shows):
    kinds = {kind: (shows.of(kind).client.get(f"{BASE}/runs/1").json()["subject"] or {}).get("kind") for kind in KINDS}
    others = dict.fromkeys(("no-round", "no-member", "broken", "unreadable", "stripped"))
    special = {"task": "task", "table": "table", "images": "images", "kmeans": "kmeans"}
    assert kinds == {kind: "network" for kind in KINDS} | special | others
    assert "2 classes of “ill”, from 3 columns of a table, by a linear model" in shows.of("table").client.get("/").text
    assert "2 classes of images, by small-mlp on inputs of 1 × 8 × 8" in shows.of("images").client.get("/").text
    assert "A task of the members’ own" in shows.of("task").client.get("/").text
    assert "client-level differential privacy" in shows.of("client-fixed").client.get("/").text


def test_the_runs_are_of_the_kinds_that_they_are_named_after(shows):
    def statuses(kind: str) -> set[str]:
        return {each["status"] for each in _items(shows.of(kind).client, "1/rounds")}

    def records(kind: str) -> list[str]:
        return [each["kind"] for each in _items(shows.of(kind).client, "1/records?limit=500")]

    assert {"closed", "failed", "skipped"} <= statuses("eventful")
    assert {"Judged", "Replaced", "Approved", "Revoked"} <= set(records("eventful"))
    assert statuses("voided") == {"closed", "voided"} and records("voided").count("Replaced") == 1
    for kind, said in (("changed", 5), ("live", 3)):  # what those said first is not what they say
        first, *_ = _items(shows.of(kind).client, "1/rounds")
        judges = [
            each["client"] for each in _items(shows.of(kind).client, "1/records?limit=500") if each["kind"] == "Judged"
        ]
        assert (first["round"], first["status"], first["judged"]) == (1, "closed", []) and len(judges) == said
        assert len(set(judges)) < said
    assert statuses("regrouped") == {"failed", "closed"}
    assert "<h3>Cell 2</h3>" in shows.of("regrouped").client.get("/rounds/2/").text
    assert "running" in statuses("live") and not statuses("no-round")
    badges = {kind: shows.of(kind).client.get(f"{BASE}/runs/1").json()["audit"]["title"] for kind in KINDS}
    bad = dict.fromkeys(("tampered", "broken", "unreadable", "stripped"), "Bad record")
    none = dict.fromkeys(("no-round", "no-member", "stuck"), "Consistent")
    assert badges == dict.fromkeys(KINDS, "Verified (practice)") | bad | none | {"live": "Verified so far"}
    assert records("kmeans").count("Withdrawn") == 3
    pages = {kind: [shows.of(kind).client.get(f"/rounds/{number}/").text for number in (1, 2, 3, 4)] for kind in KINDS}
    replaced = {kind for kind in KINDS if any("their result takes its place" in page for page in pages[kind])}
    assert replaced == {"eventful", "voided", "changed"}
    stuck = {kind for kind in KINDS if "It stands still" in shows.of(kind).client.get("/").text}
    assert stuck == {"stuck"} and "each of the cells" in shows.of("stuck").client.get("/").text
