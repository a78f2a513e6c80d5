"""Stored results say by which command they were made, and the command still asks for the very plans that are stored."""

import shlex
from pathlib import Path

import pytest
from fedgrove.node.cli import experiment as command
from fedgrove.node.lab.experiments.store import read_record
from fedgrove.node.lab.made import read_made

from tests.node.cli.test_bad_input import fedgrove

RESULTS = Path(__file__).parents[4] / "docs" / "results"
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
    runs = ((path, read_record(path).plan) for path in sorted((folder / "runs").glob("*.json")))
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
