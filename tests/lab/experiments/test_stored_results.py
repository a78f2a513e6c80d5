"""Stored results say by which command they were made, and the command still asks for the very plans that are stored."""

import importlib
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedgrove_lab.cli import experiment as command
from fedgrove_lab.experiments.store import read_record
from fedgrove_lab.made import read_made
from tests.node.cli.test_bad_input import fedgrove

RESULTS = Path(__file__).parents[3] / "docs" / "results"
EXAMPLES = ("generation", "hospitals", "text")  # their scripts write command, commit and versions into their pages
FOLDERS = sorted(path.parent for path in RESULTS.glob("*/summary.json") if path.parent.name not in EXAMPLES)


def asked(monkeypatch, folder: Path, line: str) -> dict[tuple[str, int], dict]:
    """Plans by label and seed that a command would run."""
    found: dict[tuple[str, int], dict] = {}

    def note(request, *_):
        for seed in request.seeds:
            found.update({(label, seed): plan.with_seed(seed).to_json() for label, plan in request.plans.items()})
        return {}

    monkeypatch.setattr(command, "_perform", note)
    result = fedgrove(*shlex.split(line)[1:], "--out", str(folder), cwd=RESULTS)
    assert result.returncode == 0, result.stderr
    return found


def stored(folder: Path) -> dict[tuple[str, int], dict]:
    """Plans by label and seed of the records; what a record is older than has its default."""
    runs = ((path, read_record(path).scenario) for path in sorted((folder / "runs").glob("*.json")))
    return {(path.stem.rpartition("-seed")[0], plan.seed): plan.to_json() for path, plan in runs}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_commands_of_a_folder_ask_for_the_plans_that_are_stored_in_it(monkeypatch, folder):
    made = read_made(folder)
    assert made, f"{folder.name} does not say how it was made"
    plans: dict[tuple[str, int], dict] = {}
    for each in made:
        plans |= asked(monkeypatch, folder, each.command)
    if (folder / "runs").is_dir():
        assert plans == stored(folder)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_page_of_a_folder_states_commands_commit_and_versions(folder):
    page = (folder / "README.md").read_text()
    for each in read_made(folder):
        assert each.text in page and each.commit.removesuffix("-dirty") and each.versions


def test_the_comparisons_are_among_the_folders_that_are_tested():
    both = {"comparison", "comparison_cifar10"}
    assert both | {f"{name}_trials" for name in both} < {folder.name for folder in FOLDERS}


# --- commits ----------------------------------------------------------------------------------------------------------

COMMIT = re.compile(r"\b(?=\w*\d)[0-9a-f]{8,40}\b")


def commits() -> Iterator[tuple[str, str]]:
    """Where results name a commit, and which: the last one that a note names, if it names any."""
    for folder in FOLDERS:
        for each in read_made(folder):
            yield folder.name, each.commit.removesuffix("-dirty")
    for path in sorted(RESULTS.glob("*/runs/*.json")):
        made = json.loads(path.read_text()).get("made", {})
        if made:
            named = made["commit"].removesuffix("-dirty")
            yield f"{path.parent.parent.name}/{path.name}", [named, *COMMIT.findall(made.get("note", ""))][-1]


def test_commits_that_results_name_are_in_the_history():
    if shutil.which("git") is None:
        pytest.skip("no git")
    git = ["git", "-C", str(RESULTS)]
    shallow = subprocess.run([*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True)
    if shallow.stdout.strip() != "false":
        pytest.skip("no history here")
    log = subprocess.run([*git, "log", "--format=%H"], check=True, capture_output=True, text=True).stdout.split()
    named = list(commits())
    assert len(named) > 30
    assert [(where, commit) for where, commit in named if not any(each.startswith(commit) for each in log)] == []


# --- pages of measured rounds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder", "script"),
    [
        ("blocks", "measure_blocks"),
        ("large", "measure_large"),
        ("reruns", "rerun_results"),
        ("vision", "measure_vision"),
    ],
)
def test_a_page_of_measured_rounds_follows_from_the_stored_runs(monkeypatch, folder, script):
    monkeypatch.syspath_prepend(str(RESULTS.parents[1] / "scripts"))
    runs = [json.loads(path.read_text()) for path in sorted((RESULTS / folder / "runs").glob("*.json"))]
    page_of = importlib.import_module("measured_page").page_of
    assert page_of(runs, *importlib.import_module(script).PAGE) == (RESULTS / folder / "README.md").read_text()
