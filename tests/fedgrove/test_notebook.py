"""The notebook of the documentation runs, and its outputs are those that it shows."""

import json
import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import fedgrove as fg
from tests.cells import namespace, run_cell

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "first-federation.ipynb"


def cells(kind: str) -> list[dict]:
    found = json.loads(NOTEBOOK.read_text())
    assert found["nbformat"] == 4
    return [each for each in found["cells"] if each["cell_type"] == kind]


def shown(cell: dict) -> str:
    """What a cell printed when its output was kept."""
    return "".join(line for each in cell["outputs"] if each["output_type"] == "stream" for line in each["text"])


def test_the_notebook_runs_and_shows_what_it_finds(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, code = namespace(), cells("code")
    for cell in code:
        text = StringIO()
        with redirect_stdout(text):
            run_cell("".join(cell["source"]), names)
        # Figures depend on the processor in their last digits; what a cell has to say does not.
        assert text.getvalue().count("\n") == shown(cell).count("\n"), text.getvalue()
    assert names["simulated"].rounds[-1].accuracy > 0.9 and names["right"] > 90
    assert names["run"].verdict.verdict == "verified" and all(each.status == "closed" for each in names["run"].rounds)
    assert fg.audit(tmp_path / "tumours" / "run").verdict == "bad record"


def test_its_links_lead_somewhere():
    links = [link for each in cells("markdown") for link in re.findall(r"\]\(([^)#:]+)\)", "".join(each["source"]))]
    assert links and all((NOTEBOOK.parent / link).exists() for link in links)
