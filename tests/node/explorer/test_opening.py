"""Pages that are opened right after start: they show no figure before it is known, and follow until all is."""

import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest
from fastapi.testclient import TestClient

from fedgrove.node.explorer.cache import open_index
from fedgrove.node.explorer.server import make_app, serving
from fedgrove.node.explorer.sources import DirectorySource
from fedgrove.node.explorer.watch import IndexWatch
from tests.node.explorer.conftest import HOME

PAGES = ("", "rounds/1/", "clients/", "clients/1/", "models/", "contracts/", "search/?q=1")
FOLLOWS = re.compile(r'<body[^>]* data-events="[^"]*events\?since=\d+"[^>]* data-unsettled')
MAIN = re.compile(r"<main.*?</main>", re.S)


class HeldSource(DirectorySource):
    """A run's directory whose reading, survey and audit go on only when they are let."""

    def __init__(self, directory):
        super().__init__(directory)
        self.may_read, self.may_survey, self.may_audit = (threading.Event() for _ in range(3))
        self.whole, self.store = self.store, _HeldStore(self.store, self.may_survey)

    def read(self, index):
        assert self.may_read.wait(60)
        return super().read(index)

    def audit(self, progress):
        assert self.may_audit.wait(60)
        return super().audit(progress)


@dataclass
class _HeldStore:
    store: object
    may_survey: threading.Event

    def __getattr__(self, name):
        assert self.may_survey.wait(60)
        return getattr(self.store, name)


@dataclass
class Opening:
    """Explorers right after their start, held at each step."""

    sources: list[HeldSource]
    watches: list[IndexWatch] = field(default_factory=list)

    def client(self, *watches: IndexWatch) -> TestClient:
        return TestClient(make_app(*(watches or self.watches)), base_url=HOME)

    def go_on(self, step: str) -> None:
        """Let one step of all go on, and wait for its end."""
        for source, watch in zip(self.sources, self.watches, strict=True):
            getattr(source, f"may_{step}").set()
            ends = {"read": watch._was_read, "survey": watch._was_surveyed, "audit": watch._was_audited}
            assert ends[step].wait(60)


@contextmanager
def opening(tmp_path, *runs) -> Iterator[Opening]:
    with ExitStack() as held:
        made = Opening([HeldSource(run) for run in runs])
        for source in made.sources:
            index = held.enter_context(open_index(source, tmp_path / "cache"))
            made.watches.append(held.enter_context(IndexWatch(source, index)))
        try:
            yield made
        finally:
            for step in ("read", "survey", "audit"):
                made.go_on(step)


def test_before_the_records_are_read_no_page_shows_a_figure_and_each_follows(run, tmp_path):
    with opening(tmp_path, run.directory) as made:
        client = made.client()
        for path in PAGES:
            answer = client.get(f"/{path}")
            assert answer.status_code == 200 and FOLLOWS.search(answer.text), path
            assert "Reading the history" in answer.text and "0 of 0" not in answer.text
            assert not re.search(r"\d", re.sub(r"<[^>]*>", "", MAIN.search(answer.text)[0])), path
        assert client.get("/help/").status_code == 200
        assert client.get("/nothing/").status_code == 404
        assert client.get(f"/raw/{'0' * 64}").status_code == 503


def test_before_the_store_was_asked_nobody_reads_that_nothing_was_uploaded(run, tmp_path):
    with opening(tmp_path, run.directory) as made:
        made.go_on("read")
        client = made.client()
        for path in ("", "rounds/1/", "clients/1/"):
            page = client.get(f"/{path}").text
            assert FOLLOWS.search(page) and "<dt>Uploaded</dt><dd>–" in page, path
        assert "<dt>Members</dt><dd>6</dd>" in client.get("/").text
        found = client.get("/api/v1/runs/1/rounds").json()["items"]
        assert [each["bytes"] for each in found] == [None, None] and found[0]["drawn"] == 6


def test_a_page_follows_until_the_audit_has_ended_and_no_longer(run, tmp_path):
    with opening(tmp_path, run.directory) as made:
        client = made.client()
        for step in ("read", "survey"):
            made.go_on(step)
            assert FOLLOWS.search(client.get("/").text), step
        assert "Checking" in client.get("/").text
        made.go_on("audit")
        page = client.get("/").text
        assert "Verified" in page and "data-unsettled" not in page and "data-events" not in page
        assert "<dt>Uploaded</dt><dd>–" not in page


def test_the_interface_says_null_or_asks_to_come_again_before_anything_is_known(run, tmp_path):
    with opening(tmp_path, run.directory) as made:
        client = made.client()
        found = client.get("/api/v1/runs/1").json()
        assert found["indexed"] is False
        assert [found[name] for name in ("records", "rounds", "members", "head_block", "subject")] == [None] * 5
        for path in ("rounds", "rounds/1", "members", "records", "terms"):
            answer = client.get(f"/api/v1/runs/1/{path}")
            assert answer.status_code == 503 and "ask again" in answer.json()["error"]
        for step in ("read", "survey"):
            made.go_on(step)
        found = client.get("/api/v1/runs/1").json()
        assert found["indexed"] is True and found["rounds"] == 2 and found["subject"]["kind"] == "network"


def test_a_comparison_follows_all_runs_and_shows_no_figure_of_one_that_is_being_read(run, second, tmp_path):
    with opening(tmp_path, run.directory, second.directory) as made:
        client = made.client()
        page = client.get("/").text
        assert FOLLOWS.search(page) and page.count("being read</td>") == 2 and "of 0" not in page
        version = int(re.search(r"since=(\d+)", page)[1])
        for step in ("read", "survey", "audit"):
            made.go_on(step)
        assert sum(watch.sight.version for watch in made.watches) > version
        page = client.get("/").text
        assert "being read" not in page and "data-events" not in page and "data-unsettled" not in page


def test_a_reading_that_breaks_off_is_said_and_not_waited_for(run, tmp_path, monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    monkeypatch.setattr(DirectorySource, "read", lambda *_: 1 // 0)
    source = DirectorySource(run.directory)
    with open_index(source, tmp_path / "cache") as index, IndexWatch(source, index) as watch:
        watch.settle()
        page = TestClient(make_app(watch), base_url=HOME).get("/").text
        assert "stopped with an error" in page and "ZeroDivisionError" in page


def test_an_open_page_becomes_right_without_anybody_loading_it_again(run, tmp_path, open_page):
    with opening(tmp_path, run.directory) as made, serving(*made.watches) as address:
        page = open_page(address)
        page.get_by_role("heading", name="Reading the history").wait_for()
        made.go_on("read")
        page.locator("dl.figures dt", has_text="Members").wait_for()
        assert "–" in page.locator("dl.figures div", has_text="Uploaded").inner_text()
        for step in ("survey", "audit"):
            made.go_on(step)
        page.locator("body:not([data-events])").wait_for()
        assert page.title() == "Overview · digits demo"
        assert page.get_by_role("heading", level=1).inner_text() == "digits demo"
        assert page.get_by_role("status").inner_text().startswith("Verified")
        assert "–" not in page.locator("dl.figures div", has_text="Uploaded").inner_text()


@pytest.mark.parametrize("path", PAGES)
def test_what_is_opened_early_is_in_the_end_what_is_opened_late(run, tmp_path, path, explorer):
    """Of the page's own parts: addresses of other folders aside, both are the same."""
    with opening(tmp_path, run.directory) as made:
        made.client().get(f"/{path}")
        for step in ("read", "survey", "audit"):
            made.go_on(step)
        assert made.client().get(f"/{path}").text == explorer.client.get(f"/{path}").text
