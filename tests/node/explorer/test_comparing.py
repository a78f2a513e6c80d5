"""Several runs beside each other: what is shown is what each run's own pages show, and differences are marked."""

import csv
import io
import json
import re
import shutil
from pathlib import Path

from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.audit.archive import STORE, export_car
from fedgrove.node.explorer.comparing import ROUNDS, TERMS, rounds_csv, terms_csv
from fedgrove.node.explorer.export import export_comparison
from fedgrove.node.explorer.server import HEADERS
from fedgrove.node.explorer.views.comparison import Comparison, labels_of
from tests.node.cli.test_bad_input import fedgrove
from tests.node.explorer.conftest import comparing, damage
from tests.node.explorer.test_export import links
from tests.node.explorer.test_hostile import MARKUP
from tests.node.explorer.test_pages import badges, check_well_formed

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference.md"


def table(page: str, title: str) -> list[list[str]]:
    """The cells of the first table after a heading, without markup."""
    found = page.split(f'id="{title}"')[1].split("<tbody>")[1].split("</tbody>")[0]
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in found.split("</tr>")]
    return [[" ".join(re.sub(r"<[^>]*>", " ", cell).split()) for cell in row] for row in rows if row]


def csv_rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


# --- shown ------------------------------------------------------------------------------------------------------------


def test_each_run_has_a_line_with_its_verdict_and_its_last_figures(run, second, compared):
    page = compared.page()
    check_well_formed(page)
    lines = table(page, "runs-title")
    for line, each in zip(lines, (run, second), strict=True):
        rounds = each.report["rounds"]
        assert "Verified" in line[1] and line[2] == f"{len(rounds)} of {len(rounds)}"
        assert f"{100 * rounds[-1]['accuracy']:.1f} %" in line
    assert [line[0][0] for line in lines] == ["1", "2"]


def test_rounds_stand_side_by_side_by_their_number(run, second, compared):
    lines = table(compared.page(), "rounds-title")
    assert [line[0] for line in lines] == ["Round 1", "Round 2"]
    for column, each in enumerate((run, second), 1):
        for line, stated in zip(lines, each.report["rounds"], strict=True):
            assert line[column] == f"{100 * stated['accuracy']:.1f} % loss {stated['loss']:.3f}"


def test_a_run_with_fewer_rounds_has_a_dash(run, second, tmp_path):
    with comparing([run.directory, second.directory], tmp_path / "cache") as made:
        with made.watches[1].index.changes() as database:
            database.execute("DELETE FROM rounds WHERE number = 2")
        assert table(made.page(), "rounds-title")[1][2] == "–"


def test_terms_that_differ_are_marked_and_no_others(run, second, compared):
    page = compared.page()
    marked, same = page.split('id="terms-title"')[1].split("the same in all")
    assert marked.count('class="differs"') == marked.count('<th scope="row">') and 'class="differs"' not in same
    terms = {(term.table, term.key): term for term in Comparison.of(compared.watches).terms}
    configs = [each.report["config"] for each in (run, second)]
    assert terms["masking", "mode"].values == ("bbtsa", "pairwise") and terms["masking", "mode"].differs
    assert terms["evaluation", "held_out"].values == (None, "0.2") and "not in its terms" in marked
    for (table_name, key), term in terms.items():
        if "." not in key:
            values = [config.get(table_name, {}).get(key) for config in configs]
            assert term.differs == (values[0] != values[1]), (table_name, key)


def test_curves_of_all_runs_are_in_one_chart_with_a_number_at_each_end(compared):
    page = compared.page()
    chart = page.split("<figcaption>Loss</figcaption>")[1].split("</figure>")[0]
    assert re.findall(r'class="ending"[^>]*>(\d)<', chart) in (["1", "2"], ["2", "1"])
    assert chart.count('class="dot k0"') == 2 and chart.count('class="dot k1"') == 2
    members = page.split("<figcaption>Members’ accuracy</figcaption>")[1].split("</figure>")[0]
    assert re.findall(r'class="ending"[^>]*>(\d)<', members) == ["2"]  # the other's members do not evaluate
    assert re.search("<figcaption>Practice fees so far, (ether|gwei|wei)</figcaption>", page)


def test_hyper_parameters_stand_beside_the_curves(run, compared):
    beside = compared.page("runs/1/").split('class="settings"')[1].split("</aside>")[0]
    training = run.report["config"]["training"]
    assert f"<dt>learning rate</dt><dd>{training['learning_rate']}</dd>" in beside
    assert f"<dt>epochs</dt><dd>{training['epochs']}</dd>" in beside
    assert beside.index("<dt>name</dt>") < beside.index("<dt>options.name</dt>")  # tables in tables come last
    beside = compared.page().split('class="settings"')[1].split("</aside>")[0]
    assert "<dt>masking.mode</dt><dd>pairwise</dd>" in beside and "learning rate" not in beside


def test_each_run_has_its_own_pages_that_lead_back(compared):
    for path in ("runs/1/", "runs/2/", "runs/1/rounds/2/", "runs/2/clients/1/", "runs/1/contracts/"):
        page = compared.page(path)
        check_well_formed(page)
        back = re.search(r'<a href="([./]+)">Comparison</a>', page).group(1)
        assert back == "../" * path.count("/")
    assert compared.client.get("/runs/2/rounds/3/").status_code == 404
    for path, target in (("runs/1", "/runs/1/"), ("runs/2/rounds/1", "/runs/2/rounds/1/")):
        assert compared.client.get("/" + path, follow_redirects=False).headers["location"] == target
    for path in ("runs/0/", "runs/3/", "runs/", "rounds/1/", "nothing"):
        assert compared.client.get("/" + path).status_code == 404


def test_a_run_of_its_own_leads_to_no_comparison(explorer):
    assert ">Comparison</a>" not in explorer.page() and "Hyper-parameters" in explorer.page()


def test_a_tampered_run_is_bad_and_the_other_is_not(run, second, kept, tmp_path):
    damage(kept / STORE / "blocks" / next(path.name for path in sorted((kept / STORE / "blocks").iterdir())))
    with comparing([second.directory, kept], tmp_path / "cache") as made:
        good, bad = table(made.page(), "runs-title")
        assert "Verified" in good[1] and "Bad record" in bad[1]
        assert str(made.watches[1].sight.verdict.first_bad_record)[:40] in bad[1]


def test_a_history_that_cannot_be_read_stands_beside_one_that_can(run, kept, tmp_path):
    (kept / "ledger.jsonl").write_text("broken\n")
    with comparing([run.directory, kept], tmp_path / "cache") as made:
        page = made.page()
        check_well_formed(page)
        assert "Bad record" in page and badges(page).count("bad") == 1
        assert made.client.get("/api/v1/runs/2/rounds").status_code == 404
        assert made.client.get("/api/v1/runs/2").json()["federation"] is None


def test_labels_are_as_short_as_they_can_be():
    assert labels_of(["runs/first", "runs/second"]) == ["first", "second"]
    assert labels_of(["a/kept", "b/kept", "c"]) == ["a/kept", "b/kept", "c"]
    assert labels_of(["", "same", "same"]) == ["", "same", "same"]


# --- as files ---------------------------------------------------------------------------------------------------------


def test_the_csv_files_say_what_the_page_shows(run, second, compared):
    answer = compared.client.get("/rounds.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    rows = csv_rows(answer.text)
    assert answer.text.splitlines()[0].split(",") == list(ROUNDS)
    stated = [(number, each) for number, of in ((1, run), (2, second)) for each in of.report["rounds"]]
    assert len(rows) == len(stated)
    for row, (number, each) in zip(rows, stated, strict=True):
        assert (int(row["run"]), int(row["round"]), row["status"]) == (number, each["round"], each["status"])
        assert float(row["accuracy"]) == each["accuracy"] and int(row["gas_used"]) == each["gas_used"]
        assert float(row["fee"]) > 0 and row["cost"] == row["currency"] == ""  # of a practice chain
        members = each.get("members") or {}
        assert row["members.loss"] == (str(members["loss"]) if members else "")
    terms = csv_rows(compared.page("terms.csv"))
    assert list(terms[0]) == [*TERMS, "run_1", "run_2"]
    (mode,) = (row for row in terms if (row["table"], row["key"]) == ("masking", "mode"))
    assert (mode["differs"], mode["run_1"], mode["run_2"]) == ("yes", "bbtsa", "pairwise")


def test_the_columns_are_those_of_the_reference():
    section = REFERENCE.read_text().split("## Tables of a comparison")[1].split("\n## ")[0]
    (rounds,), (terms,) = (re.findall(rf"^\| `{name}.csv` \| (.*) \|$", section, re.M) for name in ("rounds", "terms"))
    assert re.findall(r"`([\w.]+)`", rounds) == list(ROUNDS)
    assert re.sub(r"\(.*?\)", "", terms).startswith(", ".join(f"`{name}`" for name in TERMS[:2]))
    assert all(f"`{name}`" in terms for name in TERMS)


def test_an_export_has_the_comparison_and_every_run(compared, tmp_path):
    written = export_comparison(compared.watches, tmp_path / "site", 1 << 20)
    assert written.pages == 1 + sum(1 for path in (tmp_path / "site" / "runs").rglob("index.html"))
    for page, path in links(tmp_path / "site"):
        assert path and (page.parent / path).is_file(), f"{page} links to {path}"
    comparison = Comparison.of(compared.watches)
    assert (tmp_path / "site" / "rounds.csv").read_text() == rounds_csv(comparison, None)
    assert (tmp_path / "site" / "terms.csv").read_text() == terms_csv(comparison)
    for path in (tmp_path / "site" / "runs" / "2" / "raw").iterdir():
        assert cid_of(path.read_bytes()).digest.hex() == path.name


def test_the_command_compares(run, second, tmp_path):
    export_car(second.directory, tmp_path / "second.car")
    given = ("explorer", str(run.directory), "second.car", "--index", "index", "--price", "2500 EUR")
    result = fedgrove(*given, "--export", "site", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "site" / "runs" / "2" / "index.html").is_file() and "audit of second.car" in result.stdout
    assert "EUR" not in (tmp_path / "site" / "index.html").read_text()
    assert result.stderr.count("is on a practice chain") == 2 and "--price does not apply" in result.stderr
    shutil.copytree(run.directory, tmp_path / "bad")
    (tmp_path / "bad" / "report.json").write_text("{}")
    result = fedgrove("explorer", str(run.directory), "bad", "--export", "other", "--index", "index", cwd=tmp_path)
    assert result.returncode == 1, result.stderr


# --- hostile ----------------------------------------------------------------------------------------------------------


def test_markup_and_formulas_from_chain_and_store_do_nothing(run, kept, tmp_path):
    with comparing([run.directory, kept], tmp_path / "cache") as made:
        index = made.watches[1].index
        config = index.value("SELECT text FROM blobs WHERE role = 'config'")
        for name in (MARKUP, '=HYPERLINK("http://evil")'):
            with index.changes() as database:
                evil = config.replace(b'"digits demo"', json.dumps(name).encode())
                database.execute("UPDATE blobs SET text = ? WHERE role = 'config'", (evil,))
            page = made.page()
            check_well_formed(page)
            assert "<img src=x" not in page and "<script>alert" not in page
            assert ("&lt;img src=x" in page) == (name == MARKUP)
            (row,) = (
                row for row in csv_rows(made.page("terms.csv")) if row["key"] == "name" and row["run_2"] != row["run_1"]
            )
            assert not row["run_2"].startswith("=") and name in row["run_2"]


def test_every_answer_has_the_headers_of_the_pages_and_only_reading_is_allowed(compared):
    for path in (
        "/",
        "/rounds.csv",
        "/terms.csv",
        "/runs/1/",
        "/runs/1/static/explorer.css",
        "/nothing",
        "/api/v1/runs",
    ):
        answer = compared.client.get(path)
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert compared.client.post(path).status_code == 405
        assert compared.client.get(path, headers={"host": "evil.example"}).status_code == 421
