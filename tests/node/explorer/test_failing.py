"""A page that cannot be made says so, with the style and headers of the others, is logged, and stops nothing else."""

import json

import pytest
from fastapi.testclient import TestClient

from fedgrove.node.cli.main import command_line
from fedgrove.node.explorer.export import export, export_comparison
from fedgrove.node.explorer.server import HEADERS, make_app
from tests.node.explorer.conftest import HOME
from tests.node.explorer.test_pages import check_well_formed


class Broken(RuntimeError):
    """A mistake of fedgrove's own."""


def break_down(*_, **__):
    raise Broken("on purpose")


def check_failed(answer, caplog) -> None:
    assert answer.status_code == 500 and {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert "on purpose" in caplog.text and "Traceback" in caplog.text
    assert "on purpose" not in answer.text  # what went wrong is for whoever runs it


PAGES = {
    "": "charts",
    "rounds/1/": "one_round",
    "clients/": "members",
    "clients/1/": "one_client",
    "models/": "lineage",
    "contracts/": "gas",
    "search/?q=12": "search",
}


@pytest.mark.parametrize(("path", "view"), PAGES.items())
def test_a_page_that_cannot_be_made_says_so_like_the_others(explorer, monkeypatch, caplog, path, view):
    monkeypatch.setattr(f"fedgrove.node.explorer.pages.{view}", break_down)
    answer = explorer.client.get(f"/{path}")
    check_failed(answer, caplog)
    check_well_formed(answer.text)
    assert "This page cannot be shown" in answer.text and "explorer.css" in answer.text
    assert explorer.client.get("/help/").status_code == 200


def test_it_says_so_where_what_all_pages_need_is_broken(explorer, monkeypatch, caplog):
    monkeypatch.setattr("fedgrove.node.explorer.pages.RunView.count", break_down)
    for path in ("", "help/", "nothing/", "rounds/1"):
        caplog.clear()
        answer = explorer.client.get(f"/{path}")
        check_failed(answer, caplog)
        assert "This page cannot be shown" in answer.text


@pytest.mark.parametrize("path", ["", "rounds.csv", "terms.csv"])
def test_a_comparison_says_so_and_its_runs_are_shown(compared, monkeypatch, caplog, path):
    monkeypatch.setattr("fedgrove.node.explorer.comparing.Comparison.of", break_down)
    check_failed(compared.client.get(f"/{path}"), caplog)
    assert compared.client.get("/runs/1/").status_code == 200


def test_a_page_of_a_compared_run_says_so(compared, monkeypatch, caplog):
    monkeypatch.setattr("fedgrove.node.explorer.pages.one_round", break_down)
    check_failed(compared.client.get("/runs/2/rounds/1/"), caplog)
    assert compared.client.get("/runs/2/").status_code == 200


def test_an_answer_in_json_says_so(explorer, monkeypatch, caplog):
    monkeypatch.setattr("fedgrove.node.explorer.api.all_rounds", break_down)
    answer = explorer.client.get("/api/v1/runs/1/rounds")
    check_failed(answer, caplog)
    assert list(answer.json()) == ["error"]
    assert explorer.client.get("/api/v1/runs/1").status_code == 200


def test_what_no_page_foresaw_gets_the_headers_too(explorer, monkeypatch, caplog):
    monkeypatch.setattr("fedgrove.node.explorer.server._raw", break_down)
    client = TestClient(make_app(explorer.watch), base_url=HOME)
    check_failed(client.get(f"/raw/{'0' * 64}"), caplog)


def test_an_export_writes_all_others_and_names_what_failed(explorer, monkeypatch, caplog, tmp_path):
    whole = export(explorer.watch, tmp_path / "whole", 0)
    monkeypatch.setattr("fedgrove.node.explorer.pages.one_round", break_down)
    written = export(explorer.watch, tmp_path / "site", 0)
    assert written.pages == whole.pages and written.failed == ("rounds/1/", "rounds/2/") and whole.failed == ()
    page = (tmp_path / "site" / "rounds" / "1" / "index.html").read_text()
    check_well_formed(page)
    assert "This page cannot be shown" in page and 'href="../../static/explorer.css"' in page
    assert "Content-Security-Policy" in page and "on purpose" in caplog.text


def test_an_export_of_a_comparison_does_as_well(compared, monkeypatch, tmp_path):
    monkeypatch.setattr("fedgrove.node.explorer.pages.gas", break_down)
    monkeypatch.setattr("fedgrove.node.explorer.comparing.rounds_csv", break_down)
    written = export_comparison(compared.watches, tmp_path / "site", 0)
    assert written.failed == ("rounds.csv", "runs/1/contracts/", "runs/2/contracts/")
    assert "Comparison" in (tmp_path / "site" / "index.html").read_text()


def test_the_command_ends_with_another_code_and_a_sentence(run, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("fedgrove.node.explorer.pages.gas", break_down)
    folders = ["--export", str(tmp_path / "site"), "--index", str(tmp_path / "index")]
    code = command_line(["explorer", str(run.directory), *folders, "--json"], standalone_mode=False)
    printed = capsys.readouterr()
    assert code == 2 and json.loads(printed.out)["failed"] == ["contracts/"]
    assert "pages could not be made and say so instead (contracts/)" in printed.err
