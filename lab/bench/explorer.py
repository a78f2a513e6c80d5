"""CPU seconds to render the explorer's pages over a long, made-up history, and seconds until a browser shows them.

Both are compared with the goal of one second.
"""

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from fedgrove.chain.crypto import vrf
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.network.access import Paid
from fedgrove.chain.records import (
    Closed,
    Committed,
    Drawn,
    Position,
    Record,
    Registered,
    Released,
    RoundOpened,
    Sealed,
    SeedFixed,
    Shared,
)
from fedgrove.chain.records.deployment import Deployment, LedgerSettings, Terms
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.audit.auditor import Progress
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.pages import Pages
from fedgrove.node.explorer.server import serving
from fedgrove.node.explorer.sources import DirectorySource
from fedgrove.node.explorer.survey import survey
from fedgrove.node.explorer.watch import IndexWatch
from fedgrove.node.protocol.content import Metrics
from fedgrove_lab.bench.rows import BenchResult, BenchRow, least

_GOAL_SECONDS = 1.0
_REPEATS = 3
_BROWSER_MILLISECONDS = 120_000
# The first paint may come after the load. Playwright polls by eval, which the pages forbid, so the browser tells.
_PAINTED = """() => new Promise(tell => new PerformanceObserver(list => {
    const found = list.getEntriesByName('first-contentful-paint');
    if (found.length) tell(found[0].startTime);
}).observe({type: 'paint', buffered: true}))"""
_LOADED = "performance.getEntriesByType('navigation')[0].loadEventEnd"
_ADDRESS = "0x" + "0" * 40


def find_chromium() -> str | None:
    """The Chromium of this machine, which ``FEDGROVE_CHROMIUM`` may name."""
    named = (os.environ.get("FEDGROVE_CHROMIUM"), "chromium", "chromium-browser")
    return next((found for name in named if name and (found := shutil.which(name))), None)


def run(rounds: int, clients: int, browser: str | None = None) -> BenchResult:
    """Fill an index with this many rounds and clients, and render pages from it.

    Parameters
    ----------
    browser : str, optional
        A Chromium that loads the overview, too.
    """
    with tempfile.TemporaryDirectory(prefix="fedgrove-") as scratch:
        directory = Path(scratch)
        store = DiskStore(directory / "store")
        digest = "00" * 31 + "01"
        settings, terms = LedgerSettings(max_clients=clients), Terms(digest, digest, rounds=rounds)
        deployment = Deployment(1, _ADDRESS, _ADDRESS, 1, _ADDRESS, _ADDRESS, _ADDRESS, "open", (), 1, settings, terms)
        records = list(_records(rounds, clients, store))
        path = directory / "index.sqlite"
        filling = _seconds(lambda: _fill(path, deployment, records, store), 1)
        index = Index(path, deployment)
        watch = IndexWatch(_Made(deployment, store), index)
        pages = Pages(watch)
        spent = {
            "the overview": _seconds(lambda: pages.render("")),
            f"a round of {clients} clients": _seconds(lambda: pages.render(f"rounds/{rounds}/")),
            f"a client of {rounds} rounds": _seconds(lambda: pages.render("clients/1/")),
            "contracts, with the gas of all": _seconds(lambda: pages.render("contracts/")),
            "a search": _seconds(lambda: pages.render("search/", records[-1].at.transaction.hex())),
        }
        if browser:
            spent |= _in_browser(watch, browser)
        size = path.stat().st_size
        index.close()
    rows = [BenchRow.compared(name, value, "s", _GOAL_SECONDS, "goal") for name, value in spent.items()]
    rows.append(BenchRow(f"indexing {len(records):,} records, once", filling, "s"))
    rows.append(BenchRow("the index", size, "bytes"))
    return BenchResult(tuple(rows), {"rounds": rounds, "clients": clients, "records": len(records)})


def _in_browser(watch: IndexWatch, browser: str) -> dict[str, float]:
    """Seconds from asking for the overview until a browser that has cached nothing shows it: first, then the least."""
    from playwright.sync_api import sync_playwright

    spent: dict[str, list[float]] = {"painted": [], "loaded": []}
    with serving(watch) as address, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=browser, args=["--no-sandbox", "--disable-gpu"], timeout=_BROWSER_MILLISECONDS
        )
        for _ in range(1 + _REPEATS):
            with chromium.new_context() as context:
                page = context.new_page()
                page.goto(address, wait_until="load", timeout=_BROWSER_MILLISECONDS)
                spent["painted"].append(page.evaluate(_PAINTED) / 1000)
                spent["loaded"].append(page.evaluate(_LOADED) / 1000)
        chromium.close()
    return {
        "the overview in Chromium, first load": spent["loaded"][0],
        "the overview in Chromium, loaded": min(spent["loaded"][1:]),
        "the overview in Chromium, first painted": min(spent["painted"][1:]),
    }


class _Made(DirectorySource):
    """A source whose index is there already."""

    def __init__(self, deployment: Deployment, store: DiskStore) -> None:
        self.name = self.command = self.key = "made up"
        self.deployment, self.store = deployment, store

    def read(self, index: Index) -> bool:
        return False

    def audit(self, progress: Progress) -> Verdict:
        return Verdict("verified")


def _fill(path: Path, deployment: Deployment, records: list[Record], store: DiskStore) -> None:
    index = Index(path, deployment)
    facts = {record.at.transaction: Paid(_ADDRESS, 50_000, 50_000 * 10**9) for record in records}
    blocks = [(number, number.to_bytes(32), number) for number in range(1, records[-1].at.block + 1)]
    index.append(blocks, records, facts)
    while survey(index, store, 1, 5_000):
        pass
    index.close()


def _records(rounds: int, clients: int, store: DiskStore) -> Iterator[Record]:
    """A history in which everybody does everything, a transaction a block."""
    places = _places()
    proof = vrf.prove(Keys.generate().vrf, b"any")
    for client in range(1, clients + 1):
        yield Registered(next(places), _ADDRESS, client, client, 0, bytes(32), 1, proof)
    for number in range(1, rounds + 1):
        digest = _digests(number)
        opened = next(places)
        named = (digest("recovery", 0).hex(), (opened.block, "00" * 32))
        stated = Metrics(number, *named, 0.9**number, 1000, 1 - 0.9**number)
        metrics = store.put(stated.to_bytes()).digest
        model, config, block = digest("model", 0), digest("config", 0), opened.block
        yield RoundOpened(opened, number, model, config, 1_000_000, block, block, ())
        yield SeedFixed(next(places), number, bytes(32), bytes(32))
        for client in range(1, clients + 1):
            yield Drawn(next(places), number, client, 600, bytes(32), bytes(32), proof)
        yield Sealed(next(places), number, clients, bytes(32), bytes(32))
        for client in range(1, clients + 1):
            yield Shared(next(places), number, client, digest("shares", client))
        for client in range(1, clients + 1):
            yield Committed(next(places), number, client, digest("update", client), bytes(32))
        for client in range(1, clients + 1):
            yield Released(next(places), number, client, bytes(32), digest("release", client), 0)
        yield Closed(next(places), number, digest("model", 1), metrics)


def _places() -> Iterator[Position]:
    block = 0
    while True:
        block += 1
        yield Position(block, hashlib.sha256(b"transaction %d" % block).digest(), 0)


def _digests(number: int) -> Callable[[str, int], bytes]:
    """Digests of blobs that are in no store."""
    return lambda what, client: hashlib.sha256(json.dumps([number, what, client]).encode()).digest()


def _seconds(work: Callable[[], object], repeats: int = _REPEATS) -> float:
    """CPU seconds of this process, the least of some repeats."""
    return least(work, repeats=repeats, clock=time.process_time)[0]
