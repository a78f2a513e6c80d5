"""Takes the pictures of docs/explorer.md: ``python scripts/explorer_screenshots.py docs/explorer --run RUN …``.

RUN is a run's directory, as ``fedgrove demo --out`` leaves it; ``--compare RUN RUN …`` takes those of the comparison.
Chromium must be installed.

Those of the guide are of ``demo --seed 4 --rounds 8 --strategy fedavg``, with ``--drop 0.25 --held-out 0.2`` for RUN,
and for the comparison with ``--held-out 0.2``, the same with ``--strategy fedaom``, and ``--epsilon 8``. The run with
clusters is that of ``tests.node.methods.procfl.story``, which an audit finds verified only with the lots that it draws.
"""

import argparse
import os
import shutil
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from fedgrove.node.audit.archive import STORE
from fedgrove.node.explorer.cache import open_index
from fedgrove.node.explorer.server import serving
from fedgrove.node.explorer.sources import DirectorySource
from fedgrove.node.explorer.watch import IndexWatch
from fedgrove_lab.bench.explorer import find_chromium

WIDTH = 1200
PATIENCE = 120_000  # milliseconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", type=Path, help="folder of the pictures")
    parser.add_argument("--run", type=Path, help="a run in which clients left")
    parser.add_argument("--clusters", type=Path, help="a run with clusters, of which one was judged")
    parser.add_argument("--compare", type=Path, nargs="+", default=[], help="runs that differ in their terms")
    parser.add_argument("--live", help="address of an explorer over a run that goes on, as `network up` prints it")
    given = parser.parse_args()
    given.target.mkdir(parents=True, exist_ok=True)
    target = given.target.resolve()
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        runs = {"first": given.run, "tampered": given.run, "clustered": given.clusters}
        runs |= {run.name: run for run in given.compare}
        for name, source in runs.items():
            if source:
                shutil.copytree(source, Path(scratch) / "runs" / name)
        os.chdir(scratch)  # pages name paths as they were given: none of this machine's in a picture
        chromium = playwright.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox", "--disable-gpu"], timeout=PATIENCE
        )
        if given.live:
            take(chromium.new_page(), given.live, target / "live.png", 620)
        if given.run:
            picture_run(chromium, target)
        if given.clusters:
            picture_clusters(chromium, target)
        if given.compare:
            picture_comparison(chromium, target, [Path("runs") / run.name for run in given.compare])
        chromium.close()


def picture_run(chromium: Browser, target: Path) -> None:
    """A finished run, whole and tampered with."""
    with explorer(Path("runs/first")) as (address, watch):
        left = "count(drawn) + count(shared) - 2 * count(committed)"  # twice who left after sharing
        number = watch.index.value(f"SELECT round FROM parts GROUP BY round ORDER BY {left} DESC, round LIMIT 1")
        model = watch.index.value("SELECT model FROM rounds WHERE number = 2")
        take(chromium.new_page(), address, target / "overview.png", 1130, pointed=".chart .plot")
        take(chromium.new_page(), f"{address}rounds/{number}/#phases-title", target / "round.png", 970)
        dark = chromium.new_page(color_scheme="dark", device_scale_factor=2)
        take(dark, f"{address}rounds/{number}/#tree-title", target / "phone.png", 844, width=390)
    damage(Path("runs/tampered") / STORE / "blocks" / model.hex())
    with explorer(Path("runs/tampered")) as (address, _):
        take(chromium.new_page(), address, target / "tampered.png", 900, part="[aria-labelledby=rounds-title]")


def picture_clusters(chromium: Browser, target: Path) -> None:
    """Who is like whom, what came of each round, and who was judged."""
    with explorer(Path("runs/clustered")) as (address, _):
        page = f"{address}clusters/"
        take(chromium.new_page(), page, target / "clusters.png", 1210)
        take(chromium.new_page(), page, target / "judged.png", 900, part=".judgement")


def picture_comparison(chromium: Browser, target: Path, runs: list[Path]) -> None:
    """Runs next to each other, for a wide window and for a phone, and where their terms differ."""
    with ExitStack() as held:
        watches = [held.enter_context(watched(run)) for run in runs]
        address = held.enter_context(serving(*watches))
        take(chromium.new_page(), address, target / "compare.png", 1130)
        take(chromium.new_page(), f"{address}#terms-title", target / "compare-terms.png", 820)
        for name, part in (("compare-phone.png", ""), ("compare-phone-rounds.png", "#rounds-title")):
            page = chromium.new_page(color_scheme="dark", device_scale_factor=2)
            take(page, f"{address}{part}", target / name, 844, width=390)


@contextmanager
def explorer(run: Path):
    """Pages over a run that is audited already: their address, and what was found."""
    with watched(run) as watch, serving(watch) as address:
        yield address, watch


@contextmanager
def watched(run: Path):
    """What is found of a run, once it is audited."""
    source = DirectorySource(run)
    with open_index(source, Path("cache")) as index, IndexWatch(source, index) as watch:
        watch.settle()
        yield watch


def take(
    page: Page, address: str, target: Path, height: int, width: int = WIDTH, part: str = "", pointed: str = ""
) -> None:
    """Picture a page as far as a window of this size shows it, or the first of its elements that a selector names.

    ``pointed`` is a selector, too: of what the pointer is on.
    """
    page.set_viewport_size({"width": width, "height": height})
    page.goto(address, timeout=PATIENCE)
    if pointed:
        page.locator(pointed).first.hover(timeout=PATIENCE)
    (page.locator(part).first if part else page).screenshot(path=target, timeout=PATIENCE)


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


if __name__ == "__main__":
    main()
