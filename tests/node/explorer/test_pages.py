"""Pages over HTTP: whole, read-only, inert, and of one mind with ``fedgrove audit``."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from fedgrove.chain.records import Closed, Committed, RoundOpened, Shared
from fedgrove.chain.records.deployment import Terms
from fedgrove.common.text import duration
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.audit.archive import LEDGER, STORE, audit_car, audit_directory, export_car
from fedgrove.node.explorer.figures import minute
from fedgrove.node.explorer.pages import Pages
from fedgrove.node.explorer.sources import CarSource, DirectorySource
from fedgrove.node.explorer.sums import sum_up
from fedgrove.node.explorer.tree_drawing import MAX_LEAVES
from fedgrove.node.explorer.views.cells import cells_of
from fedgrove.node.explorer.views.search import place_of
from fedgrove.node.explorer.watch import IndexWatch
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.status.setbacks import setbacks
from fedgrove.node.status.standing import Standing
from tests.node.explorer.conftest import damage, exploring

PARTS = "SELECT client, position FROM parts"
LINK = re.compile(r'(?:href|src|action|data-raw)="([^"#]+)')


def badges(page: str) -> list[str]:
    return re.findall(r'<span class="badge (\w+)">', page)


# --- whole ------------------------------------------------------------------------------------------------------------


class _Nesting(HTMLParser):
    VOID = ("meta", "link", "input", "br", "circle", "path", "rect")

    def __init__(self):
        super().__init__()
        self.open = []
        self.ids = []

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), f"an attribute twice in {tag}"
        assert not any(name.startswith("on") or name == "style" for name in names), f"inline code in {tag}"
        self.ids += [value for name, value in attributes if name == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def check_well_formed(page: str) -> None:
    nesting = _Nesting()
    nesting.feed(page)
    assert not nesting.open
    assert len(nesting.ids) == len(set(nesting.ids))


def test_the_overview_says_what_the_report_says(run, explorer):
    page = explorer.page()
    assert "digits demo" in page and "Verified" in page
    for stated in run.report["rounds"]:
        assert f"{100 * stated['accuracy']:.1f} %" in page


def test_a_round_beyond_those_of_the_terms_is_not_one_of_them(explorer):
    watch = IndexWatch(explorer.watch.source, explorer.index)
    for number, shown in ((2, "<strong>2<small> of 2</small></strong>"), (3, "<strong>3</strong>")):
        now = Standing(9, 6, number, "draw", (), "nobody", 0, setbacks(Rounds(), Terms(64 * "1", 64 * "1"), 10))
        watch.sight = replace(explorer.watch.sight, standing=now)
        assert shown in Pages(watch).render("")


def test_a_round_names_who_left_and_every_digest_and_cid(run, explorer):
    page = explorer.page("rounds/1/")
    assert set(badges(page)) == {"good"}
    for record in (each for each in run.records if isinstance(each, Shared | Committed) and each.round == 1):
        assert record.digest.hex() in page and record.at.transaction.hex() in page
        if run.store.has(record.digest):
            assert str(cid_of(run.store.fetch(record.digest, 1 << 24))) in page
    dropped = run.report["rounds"][0]["dropped"]
    assert dropped
    for client in dropped:
        assert re.search(rf'aria-label="client {client}: left', page)


def test_every_record_is_on_the_page_that_search_names(explorer):
    pages = {}
    for row in explorer.index.rows("SELECT * FROM records"):
        page, place = place_of(row["round"], row["client"], row["id"]).split("#")
        pages[page] = pages.get(page) or explorer.page(page)
        assert f'<tr id="{place}" class="good">' in pages[page], f"{row['kind']} on {page}"
    assert "contracts/" in pages and "Ledger created" in pages["contracts/"]


def test_after_a_spoilt_round_each_cell_has_a_tree_of_its_own(run, tmp_path):
    with exploring(DirectorySource(run.directory), tmp_path) as explorer:
        assert explorer.page("rounds/2/").count('<svg class="tree lying"') == 1
        with explorer.index.changes() as database:
            database.execute("UPDATE rounds SET status = 'failed' WHERE number = 1")
            failed = "UPDATE records SET kind = 'Failed', fields = ? WHERE kind = 'Closed' AND round = 1"
            database.execute(failed, ('{"round": 1}',))
        page = explorer.page("rounds/2/")
        check_well_formed(page)
        order = [row["client"] for row in explorer.index.rows(f"{PARTS} WHERE round = 2 ORDER BY position")]
        first, second = cells_of(explorer.index, 2)
        assert sorted((*first, *second)) == sorted(order)
        parts = page.split("<h3>Cell 1</h3>")[1].split("<h3>Cell 2</h3>")
        for part, cell in zip(parts, (first, second), strict=True):
            drawn = [int(client) for client in re.findall(r'aria-label="client (\d+):', part)]
            assert drawn == [*cell] * 2  # for wide and for narrow windows


def test_what_is_not_there_is_not_found(explorer):
    for path in ("rounds/99/", "rounds/01/", "clients/0/", f"blobs/{'0' * 64}/", "nothing", "static/nothing", "raw/zz"):
        assert explorer.client.get("/" + path).status_code == 404
    assert explorer.client.get("/rounds/1", follow_redirects=False).headers["location"] == "/rounds/1/"


@pytest.mark.parametrize(
    "what",
    [
        "cid",
        "start of a cid",
        "digest",
        "start",
        "transaction",
        "account",
        "number",
        "round",
        "member",
        "block",
        "between",
    ],
)
def test_search_finds(run, explorer, what):
    closed = next(record for record in run.records if isinstance(record, Closed))
    member = explorer.index.row("SELECT * FROM members WHERE client = 3")
    words, expected = {
        "cid": (run.report["rounds"][0]["model_cid"], f"blobs/{closed.model_digest.hex()}/"),
        "digest": (closed.model_digest.hex(), f"blobs/{closed.model_digest.hex()}/"),
        "start": (closed.metrics_digest.hex()[:9].upper(), f"blobs/{closed.metrics_digest.hex()}/"),
        "transaction": ("0x" + closed.at.transaction.hex(), "rounds/1/#r"),
        "account": (member["account"], "clients/3/"),
        "number": ("2", "rounds/2/"),
        "start of a cid": (run.report["rounds"][0]["model_cid"][:14].upper(), f"blobs/{closed.model_digest.hex()}/"),
        "round": ("round 2", "rounds/2/"),
        "member": (" Member #3", "clients/3/"),
        "block": (f"block {closed.at.block}", "rounds/1/#r"),
        "between": (f"block {_silent_block(run, 1)}", "rounds/1/"),
    }[what]
    answer = explorer.client.get("/search/", params={"q": words}, follow_redirects=False)
    if what == "number":  # a round, a client, and a block perhaps
        assert f'href="../{expected}' in answer.text
    else:  # a single page opens at once
        assert answer.status_code == 303 and answer.headers["location"].startswith(f"../{expected}")


def _silent_block(run, number: int) -> int:
    """A block in the middle of a round that holds no record."""
    of_round = [record.at.block for record in run.records if getattr(record, "round", None) == number]
    return next(
        block for block in range(min(of_round), max(of_round)) if block not in {r.at.block for r in run.records}
    )


def test_rounds_are_in_pages_and_the_newest_is_first(run, tmp_path, monkeypatch):
    monkeypatch.setattr("fedgrove.node.explorer.views.rounds.ROUNDS_A_PAGE", 1)
    with exploring(DirectorySource(run.directory), tmp_path) as explorer:
        first, second = explorer.page(), explorer.page("rounds/page/2/")
        numbers = [re.findall(r'<th scope="row"><a href="[^"]*rounds/(\d+)/"', page) for page in (first, second)]
        assert numbers == [["2"], ["1"]]
        assert 'href="rounds/page/2/" rel="next"' in first and 'href="../../../#rounds-title" rel="prev"' in second
        check_well_formed(second)
        for page in ("1", "3", "0"):
            assert explorer.client.get(f"/rounds/page/{page}/").status_code == 404


def test_a_round_says_when_it_was_how_long_it_took_and_who_was_missing(run, explorer):
    times = dict(explorer.index.rows("SELECT number, time FROM blocks"))
    opened, closed = (
        next(each.at.block for each in run.records if isinstance(each, kind) and each.round == 1)
        for kind in (RoundOpened, Closed)
    )
    line = explorer.page().split('rounds/1/"')[1].split("</tr>")[0]
    assert f">{minute(times[opened])}</td>" in line and f">{duration(times[closed] - times[opened])}</td>" in line
    missing = line.split('data-label="Missing">')[1].split("</td>")[0]
    assert [int(client) for client in re.findall(r">(\d+)</a>", missing)] == run.report["rounds"][0]["dropped"] != []
    assert "<dt>Missing</dt>" in explorer.page("rounds/1/")


def test_who_did_not_draw_is_missing_where_everybody_was_to(run, tmp_path):
    with exploring(DirectorySource(run.directory), tmp_path) as explorer:
        with explorer.index.changes() as database:
            database.execute("DELETE FROM parts WHERE round = 2 AND client = 4")
            sum_up(database, [2], explorer.index.deployment.settings.quorum)
        assert re.search(
            r">4</a> <small>did not draw</small>", explorer.page().split('rounds/2/"')[1].split("</tr>")[0]
        )
        with explorer.index.changes() as database:
            database.execute("UPDATE rounds SET rate = 500000")
            sum_up(database, [2], explorer.index.deployment.settings.quorum)
        assert "did not draw</small>" not in explorer.page()


def test_search_for_nonsense_finds_nothing(explorer):
    for words in ("<script>", "%", "_" * 5, "0x", "9" * 300, "zz", "bafk" + "a" * 55, "\x00"):
        page = explorer.client.get("/search/", params={"q": words})
        assert page.status_code == 200 and "<script>alert" not in page.text
        assert "0 results" in page.text


# --- read-only and closed to others -----------------------------------------------------------------------------------


def test_nothing_can_be_written(explorer):
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert explorer.client.request(method, "/").status_code == 405


def test_a_name_that_is_not_this_machines_is_refused(explorer):
    """Else a site could read the pages through a name of its own that leads to 127.0.0.1."""
    assert explorer.client.get("/", headers={"host": "evil.example"}).status_code == 421
    assert explorer.client.get("/", headers={"host": "localhost:8600"}).status_code == 200


def test_pages_may_load_nothing_from_elsewhere(explorer):
    answer = explorer.client.get("/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', answer.text)
    for name in ("docs", "redoc", "openapi.json"):
        assert explorer.client.get(f"/{name}").status_code == 404


def test_all_scripts_together_are_small(explorer):
    """No page can have more, as pages may load nothing from elsewhere and have no script of their own."""
    static = files("fedgrove.node.explorer").joinpath("static")
    assert sum(len(each.read_bytes()) for each in static.iterdir() if each.name.endswith(".js")) < 300_000
    assert not re.search(r"<script(?![^>]* src=)", explorer.page("rounds/1/"))


def test_raw_bytes_are_those_behind_a_digest_of_the_ledger(run, explorer):
    digest = next(record for record in run.records if isinstance(record, Closed)).model_digest
    answer = explorer.client.get(f"/raw/{digest.hex()}")
    assert answer.content == run.store.fetch(digest, 1 << 24)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert "attachment" in answer.headers["content-disposition"]


def test_what_the_ledger_does_not_name_is_not_handed_out(kept, tmp_path):
    with exploring(DirectorySource(kept), tmp_path / "cache") as explorer:
        other = DiskStore(kept / STORE).put(b"something else in the store").digest
        assert explorer.client.get(f"/raw/{other.hex()}").status_code == 404


# --- of one mind with the audit ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "attribute"),
    [(Closed, "model_digest"), (Committed, "digest"), (Closed, "metrics_digest")],
)
def test_a_tampered_blob_is_red_at_the_record_that_the_audit_names(run, kept, tmp_path, kind, attribute):
    place, record = next(
        (place, each) for place, each in enumerate(run.records, 1) if isinstance(each, kind) and each.round == 1
    )
    damage(kept / STORE / "blocks" / getattr(record, attribute).hex())
    verdict = audit_directory(kept)
    with exploring(DirectorySource(kept), tmp_path / "cache") as explorer:
        assert explorer.watch.sight.verdict == verdict and verdict.exit_code == 1
        page = explorer.page("rounds/1/")
        assert f'<tr id="r{place}" class="bad">' in page
        assert page.count('class="bad">') == 1
        reason = verdict.first_bad_record.reason.split("'")[0]
        assert f"{verdict.first_bad_record.field}: {reason}"[:60] in page
        states = dict(re.findall(r'<tr id="r(\d+)" class="(\w+)">', page))
        assert {state for other, state in states.items() if int(other) < place} == {"good"}
        assert {state for other, state in states.items() if int(other) > place} <= {"skipped"}
        overview = explorer.page()
        assert "Bad record" in overview and badges(overview).count("skipped") == 1  # round 2 was not looked at
        raw = explorer.client.get(f"/raw/{getattr(record, attribute).hex()}")
        assert raw.status_code == 502


def test_the_verdict_is_a_few_words_and_its_details_say_what_is_open(explorer):
    left = explorer.watch.sight.verdict.unpinned
    line = explorer.page().split('role="status">')[1].split("</p>")[0]
    assert len(re.sub(r"<[^>]*>", "", line).strip()) < 60
    details = explorer.page().split("<details><summary>Details")[1].split("</details>")[0]
    assert "on a practice chain" in line and "But: the ledger is on a practice chain" in details
    assert "not checked against a published head" in left and f"Open: {left}" in details


def test_the_verdict_on_a_tampered_run_links_the_bad_record(run, kept, tmp_path):
    place, record = next((n, each) for n, each in enumerate(run.records, 1) if isinstance(each, Closed))
    damage(kept / STORE / "blocks" / record.model_digest.hex())
    with exploring(DirectorySource(kept), tmp_path / "cache") as explorer:
        line = explorer.page().split('class="verdict bad"')[1].split("<details>")[0]
        assert f'href="rounds/1/#r{place}">Show it</a>' in line and "round 1, closed.model" in line
        assert "does not have" not in line


def test_a_tampered_report_is_named_though_all_records_are_right(kept, tmp_path):
    damage(kept / "report.json")
    verdict = audit_directory(kept)
    with exploring(DirectorySource(kept), tmp_path / "cache") as explorer:
        overview = explorer.page()
        assert explorer.watch.sight.verdict == verdict
        assert verdict.first_bad_record.field.startswith("report.json") and "report.json" in overview
        assert set(badges(explorer.page("rounds/2/"))) == {"bad", "good"}  # the badge of the whole, and the records


def test_a_share_that_is_gone_is_a_remark(run, kept, tmp_path):
    record = next(each for each in run.records if isinstance(each, Shared) and each.round == 2)
    (kept / STORE / "blocks" / record.digest.hex()).unlink()
    export_car(kept, tmp_path / "run.car")
    with exploring(CarSource(tmp_path / "run.car"), tmp_path / "cache") as explorer:
        (remark,) = explorer.watch.sight.verdict.remarks
        page = explorer.page("rounds/2/")
        assert (remark.field, remark.client) == ("share.content", record.client)
        assert badges(page).count("remark") == 2 and "missing" in page  # the record's, and the round's
        assert "share.content" in explorer.page()


@pytest.mark.parametrize("index", [0, 200, -50])
def test_a_broken_ledger_is_said_to_be_broken(kept, tmp_path, index):
    data = bytearray((kept / LEDGER).read_bytes())
    data[index] ^= 1
    (kept / LEDGER).write_bytes(data)
    with exploring(DirectorySource(kept), tmp_path / "cache") as explorer:
        assert explorer.watch.sight.verdict == audit_directory(kept)
        page = explorer.page()
        assert "Bad record" in page
        check_well_formed(page)


def test_a_car_file_shows_the_same(run, explorer, tmp_path):
    export_car(run.directory, tmp_path / "run.car")
    with exploring(CarSource(tmp_path / "run.car"), tmp_path / "cache") as other:
        assert other.watch.sight.verdict == audit_car(tmp_path / "run.car")
        main = re.compile(r"<main.*</main>", re.DOTALL)
        ours, theirs = (main.search(each.page("clients/2/")).group() for each in (explorer, other))
        assert ours == theirs


def test_a_broken_car_file_is_said_to_be_broken(run, tmp_path):
    export_car(run.directory, tmp_path / "run.car")
    damage(tmp_path / "run.car")
    with exploring(CarSource(tmp_path / "run.car"), tmp_path / "cache") as explorer:
        assert explorer.watch.sight.verdict == audit_car(tmp_path / "run.car")
        assert "Bad record" in explorer.page()


def test_a_round_too_large_to_draw_is_still_shown(explorer, monkeypatch):
    monkeypatch.setattr("fedgrove.node.explorer.tree_drawing.MAX_LEAVES", 2)
    assert MAX_LEAVES > 500
    assert "too large to draw" in explorer.page("rounds/1/")
