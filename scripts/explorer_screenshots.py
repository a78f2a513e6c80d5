"""Takes the pictures of docs/explorer.md: ``python scripts/explorer_screenshots.py RUN docs/explorer [ADDRESS]``.

RUN is a run's directory, as ``fedgrove demo --out`` leaves it, ADDRESS that of an explorer over a run that goes on, as
``fedgrove network up`` prints it; Chromium must be installed.
"""

import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from node.auditing.archive import STORE
from node.cli.bench_explorer import find_chromium
from node.explorer.cache import open_index
from node.explorer.server import serving
from node.explorer.sources import DirectorySource
from node.explorer.watch import Watch

WIDTH = 1200
PATIENCE = 120_000  # milliseconds


def main(run: Path, target: Path, live: str = "") -> None:
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        runs = Path(scratch) / "runs"
        shutil.copytree(run, runs / "first")
        shutil.copytree(run, runs / "tampered")
        target = target.resolve()
        os.chdir(scratch)  # pages name paths as they were given: none of this machine's in a picture
        chromium = playwright.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox", "--disable-gpu"], timeout=PATIENCE
        )
        if live:
            take(chromium.new_page(), live, target / "live.png", 620)
        with explorer(Path("runs/first")) as (address, watch):
            number = watch.index.value("SELECT number FROM rounds ORDER BY drawn - committed DESC, number LIMIT 1")
            model = watch.index.value("SELECT model FROM rounds WHERE number = 2")
            take(chromium.new_page(), address, target / "overview.png", 1130)
            take(chromium.new_page(), f"{address}rounds/{number}/", target / "round.png", 1460)
            dark = chromium.new_page(color_scheme="dark", device_scale_factor=2)
            take(dark, f"{address}rounds/{number}/", target / "phone.png", 844, width=390)
        damage(runs / "tampered" / STORE / "blocks" / model.hex())
        with explorer(Path("runs/tampered")) as (address, _):
            take(chromium.new_page(), address, target / "tampered.png", 900, part="[aria-labelledby=rounds-title]")
        chromium.close()


@contextmanager
def explorer(run: Path):
    """Pages over a run that is audited already: their address, and what was found."""
    source = DirectorySource(run)
    with open_index(source, Path("cache")) as index, Watch(source, index) as watch, serving(watch) as address:
        watch.settle()
        yield address, watch


def take(page: Page, address: str, target: Path, height: int, width: int = WIDTH, part: str = "") -> None:
    """Picture a page as far as a window of this size shows it, or the first of its elements that a selector names."""
    page.set_viewport_size({"width": width, "height": height})
    page.goto(address, timeout=PATIENCE)
    (page.locator(part).first if part else page).screenshot(path=target, timeout=PATIENCE)


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
