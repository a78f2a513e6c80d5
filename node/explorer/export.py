"""The pages as files to publish: they need no server but one that hands out files, and none at all to be read."""

import json
import logging
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from fedgrove.ipfs.store import ContentReader, StoreError
from fedgrove.node.explorer.comparing import PATHS, ComparingPages
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.options import NO_OPTIONS, PageOptions
from fedgrove.node.explorer.pages import Pages
from fedgrove.node.explorer.placing import UPLOADS
from fedgrove.node.explorer.views.own_pages import OWN_PAGES
from fedgrove.node.explorer.views.rounds import ROUNDS_A_PAGE
from fedgrove.node.explorer.views.search import place_of
from fedgrove.node.explorer.views.words import FOUND
from fedgrove.node.explorer.watch import IndexWatch

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Written:
    """How many pages and blobs were written, and how many blobs were left out for their size or absence.

    ``failed`` are the paths of pages that could not be made; in their place stands one that says so.
    """

    pages: int
    blobs: int
    left_out: int
    failed: tuple[str, ...] = ()

    def __add__(self, other: "Written") -> "Written":
        blobs, left_out = self.blobs + other.blobs, self.left_out + other.left_out
        return Written(self.pages + other.pages, blobs, left_out, self.failed + other.failed)


def export(watch: IndexWatch, target: Path, blob_bytes: int, options: PageOptions = NO_OPTIONS) -> Written:
    """Write all pages of a watch that has settled, into a folder that is new or empty: all of them or none.

    Parameters
    ----------
    blob_bytes : int
        At most this many bytes of blobs are written next to the pages.
    """
    with _all_or_nothing(target):
        return _export(watch, target, blob_bytes, options)


def export_comparison(
    watches: Sequence[IndexWatch], target: Path, blob_bytes: int, options: PageOptions = NO_OPTIONS
) -> Written:
    """Write pages that compare runs, and all pages of each, likewise; ``blob_bytes`` is for each run."""
    with _all_or_nothing(target):
        for name, data in _assets():
            _write(target / name, data)
        pages = ComparingPages(watches, options, static=True)
        written = Written(1, 0, 0)
        for path in PATHS:
            shown, failed = _made(path, pages.render, pages.failed)
            _write(target / (path or "index.html"), shown.text.encode())
            written += Written(0, 0, 0, failed)
        for number, watch in enumerate(watches, 1):
            of_run = _export(watch, target / "runs" / str(number), blob_bytes, options, compared=True)
            written += replace(of_run, failed=tuple(f"runs/{number}/{path}" for path in of_run.failed))
        return written


@contextmanager
def _all_or_nothing(target: Path) -> Iterator[None]:
    """Make a folder; if the block fails, it is empty again."""
    target.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for path in target.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        raise


def _export(watch: IndexWatch, target: Path, blob_bytes: int, options: PageOptions, compared: bool = False) -> Written:
    assets = list(_assets())
    for name, data in assets:
        _write(target / name, data)
    if watch.index is None or not watch.known:
        pages, raw, pending = [""], set(), 0
    else:
        raw, pending = _write_blobs(watch.index, watch.source.store, target, blob_bytes)
        pages = _paths(watch.index)
        _write_search(watch.index, target)
    there = {*pages, *raw, *(name for name, _ in assets)}
    site = Pages(watch, there.__contains__, options, compared)
    written = Written(len(pages), len(raw), pending)
    for path in pages:
        page, failed = _made(path, site.render, site.failed)
        _write(target / path / "index.html", page.encode())
        written += Written(0, 0, 0, failed)
    return written


def _made(path: str, render: Callable[[str], T | None], failed: Callable[[str], T]) -> tuple[T, tuple[str, ...]]:
    """What is at a path; or what says that it cannot be made, and the path: no page stops the others."""
    try:
        shown = render(path)
        if shown is None:
            raise LookupError(f"there is no page at {path!r}")
        return shown, ()
    except Exception:
        _log.exception("cannot make the page %s", path or "index.html")
        return failed(path), (path or "index.html",)


def _paths(index: Index) -> list[str]:
    rounds = [f"rounds/{row['number']}/" for row in index.rows("SELECT number FROM rounds")]
    pages = -(-len(rounds) // ROUNDS_A_PAGE)
    rounds += [f"rounds/page/{page}/" for page in range(2, pages + 1)]
    clients = [f"clients/{row['client']}/" for row in index.rows("SELECT client FROM members")]
    marks = ", ".join("?" for _ in UPLOADS)
    blobs = index.rows(f"SELECT digest FROM blobs WHERE role NOT IN ({marks})", *UPLOADS)
    fixed = ["", "clients/", "models/", "contracts/", "help/", "search/"]
    config = index.latest_config()
    page = OWN_PAGES.get(config.method.name) if config is not None else None
    fixed += [page.path] if page else []
    return [*fixed, *rounds, *clients, *(f"blobs/{row['digest'].hex()}/" for row in blobs)]


def _write_blobs(index: Index, store: ContentReader, target: Path, limit: int) -> tuple[set[str], int]:
    """Paths of the blobs that were written, and how many were not."""
    rows = index.rows("SELECT digest, role, size FROM blobs WHERE state = 'held'")
    written, used = set(), 0
    # What fits is taken in this order: what is for everybody, then what only its author can read.
    for row in sorted(rows, key=lambda row: (row["role"] in UPLOADS, row["size"])):
        if used + row["size"] > limit:
            continue
        try:
            data = store.fetch(row["digest"], limit)
        except StoreError:
            continue  # its page says what the store said
        path = f"raw/{row['digest'].hex()}"
        _write(target / path, data)
        written.add(path)
        used += len(data)
    return written, index.value("SELECT count(*) FROM blobs") - len(written)


def _write_search(index: Index, target: Path) -> None:
    """The search index in small files: ``numbers``, ``blocks``, and by the first two hexadecimal digits."""
    shards: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for key, what, path in _findable(index):
        shards[key[:2] if len(key) > 20 else "blocks" if what.startswith("Block ") else "numbers"].append(
            (key, what, path)
        )
    for name, entries in shards.items():
        _write(target / "search" / f"{name}.json", json.dumps(entries, separators=(",", ":")).encode())


def _findable(index: Index) -> Iterator[tuple[str, str, str]]:
    """What can be searched for: its text in lower-case hexadecimal (or a number), what it is, where."""
    for row in index.rows("SELECT number FROM rounds"):
        yield str(row["number"]), f"Round {row['number']}", f"rounds/{row['number']}/index.html"
    for row in index.rows("SELECT client, account FROM members"):
        path = f"clients/{row['client']}/index.html"
        yield str(row["client"]), f"Client {row['client']}", path
        yield row["account"][2:].lower(), f"Client {row['client']}", path
    terms = index.deployment
    for name, address in (("Ledger", terms.ledger), ("Registry", terms.registry), ("Coordinator", terms.coordinator)):
        yield address[2:].lower(), name, "contracts/index.html"
    query = (
        "SELECT hash, records.block, kind, round, client, records.id AS place FROM records"
        " JOIN transactions ON transactions.id = tx ORDER BY records.id"
    )
    for row in index.rows(query):
        path = _file(place_of(row["round"], row["client"], row["place"]))
        yield row["hash"].hex(), f"Transaction: {FOUND[row['kind']]}", path
        yield str(row["block"]), f"Block {row['block']}: {FOUND[row['kind']]}", path
    query = (
        "SELECT digest, named.role, round, client, min(records.id) AS place FROM named"
        " JOIN records ON records.id = record GROUP BY digest, named.role"
    )
    for row in index.rows(query):
        digest, place = row["digest"].hex(), place_of(row["round"], row["client"], row["place"])
        path = _file(f"blobs/{digest}/" if row["role"] not in UPLOADS else place)
        yield digest, FOUND[row["role"]].capitalize(), path


def _file(path: str) -> str:
    """The file of a page's path."""
    page, mark, place = path.partition("#")
    return f"{page}index.html{mark}{place}"


def _assets() -> Iterator[tuple[str, bytes]]:
    for item in files("fedgrove.node.explorer").joinpath("static").iterdir():
        yield f"static/{item.name}", item.read_bytes()


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
