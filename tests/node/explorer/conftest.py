"""Explorers over one real run, and over copies that somebody has tampered with."""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from fedgrove.node.explorer.cache import open_index
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.options import NO_OPTIONS, BlockExplorer, PageOptions
from fedgrove.node.explorer.server import make_app
from fedgrove.node.explorer.sources import DirectorySource, Source
from fedgrove.node.explorer.watch import IndexWatch
from fedgrove.node.scenario.reading import scenario
from fedgrove.node.status.price import Price
from fedgrove_lab.bench.explorer import find_chromium
from tests.node.conftest import Run, run_federation

HOME = "http://127.0.0.1"
AXE = Path(__file__).resolve().parents[3] / "node_modules" / "axe-core" / "axe.min.js"
PATIENCE = 120_000  # milliseconds; machines that run other things at the same time are slow


@dataclass(frozen=True)
class Explorer:
    """An explorer that has read, surveyed and audited everything, and a client of its pages."""

    watch: IndexWatch
    index: Index
    client: TestClient

    def page(self, path: str = "") -> str:
        answer = self.client.get("/" + path)
        assert answer.status_code == 200, answer.text
        return answer.text


@dataclass(frozen=True)
class Compared:
    """Explorers over several runs that have settled, and a client of the pages that compare them."""

    watches: list[IndexWatch]
    client: TestClient

    def page(self, path: str = "") -> str:
        answer = self.client.get("/" + path)
        assert answer.status_code == 200, answer.text
        return answer.text


@contextmanager
def exploring(source: Source, cache: Path) -> Iterator[Explorer]:
    with open_index(source, cache) as index, IndexWatch(source, index) as watch:
        watch.settle()
        yield Explorer(watch, index, TestClient(make_app(watch), base_url=HOME))


def restate(index: Index, figures: dict, rounds: str = "1") -> None:
    """Change figures of some rounds in the index, as if they followed from what was published."""
    with index.changes() as database:
        for number, text in database.execute(f"SELECT number, figures FROM rounds WHERE {rounds}").fetchall():
            changed = json.dumps(json.loads(text) | figures)
            database.execute("UPDATE rounds SET figures = ? WHERE number = ?", (changed, number))


@pytest.fixture(scope="session")
def explorer(run, tmp_path_factory) -> Iterator[Explorer]:
    """Over the untouched run."""
    with exploring(DirectorySource(run.directory), tmp_path_factory.mktemp("cache")) as made:
        yield made


@pytest.fixture(scope="session")
def second(tmp_path_factory) -> Run:
    """Another run: other masks, one round of training, and members that evaluate before it and behind it."""
    plan = scenario(clients=4, rounds=1, strategy="fedavg", masking="pairwise", held_out=0.2, seed=4)
    return run_federation(tmp_path_factory.mktemp("second") / "kept", plan)


@contextmanager
def comparing(runs: Sequence[Path], cache: Path, options: PageOptions = NO_OPTIONS) -> Iterator[Compared]:
    """Several explorers that have settled, and a client of the pages over all of them."""
    with ExitStack() as held:
        watches = [held.enter_context(exploring(DirectorySource(run), cache)).watch for run in runs]
        yield Compared(watches, TestClient(make_app(*watches, options=options), base_url=HOME))


@pytest.fixture(scope="session")
def compared(run, second, tmp_path_factory) -> Iterator[Compared]:
    """Two untouched runs, beside each other."""
    site = BlockExplorer.parse(f"{run.history.chain_id}=https://chain.example/{{kind}}/{{id}}")
    options = PageOptions(Price(2500, "EUR"), (site,))
    with comparing([run.directory, second.directory], tmp_path_factory.mktemp("cache"), options) as made:
        yield made


@pytest.fixture
def kept(run, tmp_path) -> Path:
    """A private copy of the run's directory."""
    shutil.copytree(run.directory, tmp_path / "kept")
    return tmp_path / "kept"


def damage(path: Path) -> None:
    """Change one byte in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)


@pytest.fixture(scope="module")  # while one is there, no event loop of another test can run
def browser():
    from playwright.sync_api import sync_playwright

    chromium_path = find_chromium()
    if chromium_path is None:
        pytest.skip("no Chromium on this machine: install the package chromium")
    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu"]
        chromium = playwright.chromium.launch(executable_path=chromium_path, args=options, timeout=PATIENCE)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser):
    """Open a page that may neither complain on its console, nor ask for anything from elsewhere, nor overflow."""
    contexts, complaints = [], []

    def open_one(address: str, **options):
        context = browser.new_context(reduced_motion="reduce", **options)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda fault: complaints.append(str(fault)))
        page.on("dialog", lambda dialog: complaints.append(f"a dialog: {dialog.message}"))
        page.on("request", lambda sent: complaints.append(sent.url) if not sent.url.startswith(address[:17]) else None)
        page.goto(address)
        return page

    open_one.complaints = complaints
    yield open_one
    for context in contexts:
        context.close()
    assert not complaints


SCREENS = {"phone": {"width": 390, "height": 844}, "desk": {"width": 1200, "height": 900}}
AXE_RULES = {"resultTypes": ["violations"], "rules": {"target-size": {"enabled": True}}}
SIDEWAYS = """() => [document.documentElement, ...document.querySelectorAll(".scroll")]
  .filter((each) => each.getClientRects().length && each.scrollWidth > each.clientWidth)
  .map((each) => each.ariaLabel ?? each.getAttribute("aria-labelledby") ?? each.tagName)"""
SMALL_LABELS = """() => [...document.querySelectorAll(".chart text")]
  .filter((each) => each.getScreenCTM().a !== 1 || getComputedStyle(each).fontSize !== "12px")
  .map((each) => each.textContent)"""


def check_everybody_can_use(page, address: str, paths: dict[str, str]) -> None:
    """On a phone and on a desk, in the light and in the dark: axe finds nothing at all, and nothing scrolls sideways.

    Parameters
    ----------
    paths : dict of str to str
        Pages below the address, by the names that a finding gives them.
    """
    found = {}
    for name, path in paths.items():
        page.goto(address + path)
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        page.evaluate(AXE.read_text())
        for screen, size in SCREENS.items():
            page.set_viewport_size(size)
            sideways = page.evaluate(SIDEWAYS) if screen == "phone" else []
            found |= {(name, screen, "sideways"): sideways, (name, screen, "labels"): page.evaluate(SMALL_LABELS)}
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                for each in page.evaluate("(rules) => axe.run(rules)", AXE_RULES)["violations"]:
                    found[name, screen, scheme, each["id"]] = [node["html"][:200] for node in each["nodes"]][:3]
    assert {where: what for where, what in found.items() if what} == {}
