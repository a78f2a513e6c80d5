"""The pages in a real browser: over a finished run, a tampered run, a live run and an export; usable by everybody."""

import functools
import importlib
import re
import shutil
import threading
from contextlib import closing
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.audit.archive import STORE, audit_directory
from fedgrove.node.explorer.cache import open_index
from fedgrove.node.explorer.export import export
from fedgrove.node.explorer.server import serving
from fedgrove.node.explorer.sources import DirectorySource, LiveSource
from fedgrove.node.explorer.watch import IndexWatch
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.status.standing import standing
from tests.node.explorer.conftest import check_everybody_can_use, damage, exploring
from tests.node.federation import Federation
from tests.test_docs import ROOT


@pytest.fixture(scope="module")
def site(explorer):
    with serving(explorer.watch) as address:
        yield address


def pages(explorer) -> dict[str, str]:
    model = explorer.index.value("SELECT hex(model) FROM rounds WHERE model IS NOT NULL").lower()
    config = explorer.index.value("SELECT hex(config) FROM rounds").lower()
    return {
        "overview": "",
        "round": "rounds/1/",
        "clients": "clients/",
        "client": "clients/1/",
        "models": "models/",
        "model": f"blobs/{model}/",
        "terms": f"blobs/{config}/",
        "contracts": "contracts/",
        "search": f"search/?q={model[:8]}",
        "help": "help/",
    }


def test_everybody_can_use_every_page(explorer, site, open_page):
    check_everybody_can_use(open_page(site), site, pages(explorer))


def test_everything_works_from_the_keyboard(site, open_page):
    page = open_page(site + "rounds/1/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "find"
    page.keyboard.type("2")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Round 2").click()
    page.wait_for_url("**/rounds/2/")
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**/rounds/1/")
    page.locator(".tree .place").first.focus()
    partners = page.locator(".tree .place.on").count()
    assert 2 <= partners <= 5 and page.locator(".tree.chosen").count() == 1
    page.keyboard.press("Enter")
    page.wait_for_url("**/clients/*/")


def test_a_crosshair_reads_out_a_round_in_all_charts(run, site, open_page):
    """By the keyboard, by a pointer, and for those who hear the page."""
    first, second = (f"{100 * stated['accuracy']:.1f} %" for stated in run.report["rounds"])
    page = open_page(site)
    charts = page.locator("[data-chart]")
    accuracy = page.get_by_role("slider", name="Accuracy of the closed models")
    assert accuracy.get_attribute("aria-valuetext") == f"Round 2: {second}" and page.locator(".cross").count() == 0
    accuracy.focus()
    page.keyboard.press("ArrowLeft")
    assert accuracy.get_attribute("aria-valuetext") == f"Round 1: {first}" and page.url == site
    assert page.locator(".cross").count() == charts.count() == page.locator(".readout", has_text="Round 1").count()
    page.keyboard.press("Escape")
    assert page.locator(".cross").count() == 0 and second in accuracy.locator(".readout").inner_text()
    box = accuracy.locator(".plot").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 20)
    assert first in accuracy.locator(".readout").inner_text()


def test_the_theme_is_kept(site, open_page):
    page = open_page(site, color_scheme="light")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Switch between light and dark").click()
    page.goto(site + "help/")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light


def test_the_browser_verifies_a_round(explorer, site, open_page):
    page = open_page(site + "rounds/1/")
    page.get_by_role("button", name="Verify").click()
    page.locator(".outcome .good").wait_for()
    query = (
        "SELECT count(DISTINCT digest) FROM named JOIN records ON id = record JOIN blobs USING (digest)"
        " WHERE round = 1 AND state = 'held'"
    )
    held = explorer.index.value(query)
    assert page.locator(".outcome .good").inner_text().startswith(f"{held} blobs, ")
    assert page.locator(".outcome .bad").count() == 0


def test_the_browser_finds_bytes_that_the_server_changed(run, site, open_page):
    digest = next(record for record in run.records if isinstance(record, Closed)).model_digest.hex()
    page = open_page(site + f"blobs/{digest}/")
    page.route(f"**/raw/{digest}", lambda route: route.fulfill(body=b"another model"))
    page.get_by_role("button", name="Verify").click()
    page.locator(".outcome .bad").wait_for()
    assert f"not {digest}" in page.locator(".outcome").inner_text()


@pytest.mark.parametrize("length", [0, 1, 1 << 20, (1 << 20) + 1, 5 << 20])
def test_the_browser_gives_files_the_names_that_ipfs_gives(site, open_page, length):
    page = open_page(site)
    names = page.evaluate(
        "async (length) => (await import('/static/content.js'))"
        ".fileNames(new Uint8Array(length).map((_, index) => (index * 31) & 255))",
        length,
    )
    cid = cid_of(bytes(index * 31 & 255 for index in range(length)))
    assert (names["digest"], names["cid"]) == (cid.digest.hex(), str(cid))


def test_a_tampered_run_is_red_and_names_the_record_as_the_audit_does(run, kept, tmp_path, open_page):
    record = next(record for record in run.records if isinstance(record, Closed) and record.round == 2)
    damage(kept / STORE / "blocks" / record.model_digest.hex())
    verdict = audit_directory(kept)
    with exploring(DirectorySource(kept), tmp_path / "cache") as explorer, serving(explorer.watch) as address:
        page = open_page(address)
        assert page.get_by_role("status").inner_text().split("\n")[0] == "Bad record"
        page.get_by_text("Details").click()
        assert str(verdict.first_bad_record) in page.get_by_role("region", name="Verdict").inner_text()
        page.get_by_role("link", name="Show it").click()
        page.wait_for_url("**/rounds/2/#r*")
        assert page.locator("tr.bad th").inner_text() == "Round closed"
        page.get_by_role("button", name="Verify").click()
        page.locator(".outcome li").first.wait_for()
        assert "model: the store did not give it whole" in page.locator(".outcome").inner_text()
    assert all("502" in complaint for complaint in open_page.complaints)
    open_page.complaints.clear()


def test_a_live_run_grows_before_the_eyes(tmp_path, open_page):
    """One page stays open while a federation runs, and is never loaded again."""
    quick = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)
    with embedded() as network:
        federation = Federation.found(network, tmp_path, training=quick)
        source = LiveSource(network, federation.deployment, federation.store, "embedded", "fedgrove audit …")
        with (
            open_index(source, tmp_path / "cache") as index,
            IndexWatch(source, index, interval=0.1) as watch,
            serving(watch) as address,
            closing(open_page(address)) as page,  # before the server ends, of which it would complain
        ):
            page.locator("body:not([data-unsettled])").wait_for()  # what it was opened with is read
            page.evaluate("window.stayed = true")
            federation.register()
            coordinator, clients = federation.coordinator(), federation.clients()
            seen = set()
            while federation.turn(coordinator, clients):
                phase = standing(federation.ledger(federation.keys[0])).phase
                if phase in ("draw", "commit", "recover") and phase not in seen:
                    page.locator("[data-live=now] strong", has_text=re.compile(f"^{phase}$")).wait_for()
                    assert page.locator("table.rounds tbody tr").count() == 1
                    seen.add(phase)
            page.locator("table.rounds .badge.good").wait_for()
            page.locator(".verdict .badge", has_text=re.compile(r"^\s*Verified \(practice\)\s*$")).wait_for()
            assert page.locator("table.rounds td").nth(1).inner_text() == "closed"
            assert page.evaluate("window.stayed") and seen == {"draw", "commit", "recover"}


def test_terms_that_differ_have_room_for_their_names(compared, open_page):
    with serving(*compared.watches) as address:
        names = open_page(address, viewport={"width": 1200, "height": 900}).locator(".terms-of-runs tbody th:visible")
        assert names.count() > 1 and all(each.bounding_box()["width"] > 200 for each in names.all())


def test_the_guides_pictures_of_a_run_can_be_taken(run, browser, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    pictures = importlib.import_module("explorer_screenshots")
    for name in ("first", "tampered"):
        shutil.copytree(run.directory, tmp_path / "runs" / name)
    monkeypatch.chdir(tmp_path)
    pictures.picture_run(browser, tmp_path)
    taken = {path.name for path in tmp_path.glob("*.png")}
    assert taken == {"overview.png", "round.png", "phone.png", "tampered.png"}


def test_an_export_works_from_any_file_server(run, explorer, tmp_path, open_page):
    export(explorer.watch, tmp_path / "site", 1 << 30)
    handler = functools.partial(_Quiet, directory=tmp_path / "site")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = open_page(f"http://127.0.0.1:{server.server_port}/index.html")
        digest = next(record for record in run.records if isinstance(record, Closed)).model_digest
        page.locator("#find").fill(str(cid_of(run.store.fetch(digest, 1 << 24))))
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/blobs/{digest.hex()}/index.html")  # a single hit opens
        page.locator("#find").fill("round 2")
        page.keyboard.press("Enter")
        page.wait_for_url("**/rounds/2/index.html")
        page.get_by_role("button", name="Verify").click()
        page.locator(".outcome .good").wait_for()
        assert page.locator(".outcome .bad").count() == 0
        server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass
