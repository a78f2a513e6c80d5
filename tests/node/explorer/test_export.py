"""Exported pages need no server: every relative link leads to a file, and blobs come within the limit."""

import json
import re
from urllib.parse import unquote, urlsplit

from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.explorer.export import export
from tests.node.cli.test_bad_input import fedgrove

LINK = re.compile(r'(?:href|src|action|data-raw)="([^"#][^"]*|)"')


def links(site):
    for page in site.rglob("*.html"):
        for link in LINK.findall(page.read_text()):
            yield page, urlsplit(unquote(link)).path


def test_every_link_of_an_export_leads_to_a_file(explorer, tmp_path):
    written = export(explorer.watch, tmp_path / "site", 1 << 30)
    assert written.left_out <= 6 and written.pages > 15  # updates of clients that left were never published
    for page, path in links(tmp_path / "site"):
        assert path and (page.parent / path).is_file(), f"{page} links to {path}"
    for path in (tmp_path / "site" / "raw").iterdir():
        assert cid_of(path.read_bytes()).digest.hex() == path.name
    assert "EventSource" not in (tmp_path / "site" / "index.html").read_text()
    assert "data-events" not in (tmp_path / "site" / "index.html").read_text()


def test_blobs_beyond_the_limit_are_left_out_and_not_linked(explorer, tmp_path):
    written = export(explorer.watch, tmp_path / "site", 100_000)
    sizes = [path.stat().st_size for path in (tmp_path / "site" / "raw").iterdir()]
    assert sum(sizes) <= 100_000 and written.blobs == len(sizes) and written.left_out > 10
    for page, path in links(tmp_path / "site"):
        assert (page.parent / path).is_file(), f"{page} links to {path}"


def test_what_is_searched_for_is_found_in_the_index_of_its_first_digits(run, explorer, tmp_path):
    export(explorer.watch, tmp_path / "site", 0)
    for record in run.records[::7]:
        transaction = record.at.transaction.hex()
        entries = json.loads((tmp_path / "site" / "search" / f"{transaction[:2]}.json").read_text())
        pages = {path.partition("#")[0] for key, _, path in entries if key == transaction}
        assert pages and all((tmp_path / "site" / page).is_file() for page in pages)


def test_the_command_writes_the_pages_and_passes_the_verdict_on(run, tmp_path):
    first = fedgrove("explorer", str(run.directory), "--export", "site", "--index", "index", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert (tmp_path / "site" / "index.html").is_file() and "pages" in first.stdout
    again = fedgrove("explorer", str(run.directory), "--export", "site", "--index", "index", cwd=tmp_path)
    assert again.returncode == 2 and "nothing was changed" in again.stderr


def test_a_file_is_no_folder_of_indexes(run, tmp_path):
    (tmp_path / "mine").write_text("mine")
    result = fedgrove("explorer", str(run.directory), "--export", "site", "--index", "mine", cwd=tmp_path)
    assert result.returncode == 2 and result.stderr.startswith("fedgrove: --index mine is not a folder: give another")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
