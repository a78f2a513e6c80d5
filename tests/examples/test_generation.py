"""The generation example: it packs, learns lines in a federation that is audited, and writes lines."""

import importlib.util
import subprocess
import sys

import pytest
import torch

from fedgrove.node.tasks.bundle import draft
from tests.examples.held import EXAMPLES, copied, held

EXAMPLE = EXAMPLES / "generation"
PARAGRAPH = "Package: {name}\nSource: {source} (1.0)\nMaintainer: {team} <x@example.org>\nDescription: {text}\n more\n"


@pytest.fixture(scope="module")
def task():
    specification = importlib.util.spec_from_file_location("generation_task", EXAMPLE / "task" / "task.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_bundle_holds_no_texts():
    assert set(draft(EXAMPLE / "task").contents) == {"task.py", "task.lock", "terms.toml"}


def test_lines_are_dealt_to_teams_with_all_packages_of_a_source_on_one_side(tmp_path):
    rows = [(number, team) for team in ("First Team", "Second") for number in range(60)]
    text = "\n".join(
        PARAGRAPH.format(name=f"p{n}-{team[0].lower()}", source=f"s{n // 2}", team=team, text=f"game {n}")
        for n, team in rows
    )
    (tmp_path / "available").write_text(text)
    command = [sys.executable, EXAMPLE / "lines.py", tmp_path / "data", "--packages", tmp_path / "available"]
    subprocess.run(command, check=True)
    found = {path.name: path.read_text().splitlines() for path in (tmp_path / "data").iterdir()}
    assert set(found) == {"00-first-team.txt", "01-second.txt", "test.txt"}
    sources = {name: {int(line.partition("-")[0][1:]) // 2 for line in lines} for name, lines in found.items()}
    assert sources["test.txt"] and not sources["test.txt"] & (sources["00-first-team.txt"] | sources["01-second.txt"])
    assert sum(map(len, found.values())) == 120


def test_symbols_are_ends_and_characters_and_nothing_counts_behind_the_first_end(task):
    line = task.encoded("ab\té", 6)
    assert line == [0, 1 + ord("a") - 32, 1 + ord("b") - 32, 0, 0, 0]
    target = torch.tensor([line[1:]])
    output = torch.zeros(1, 5, task.SYMBOLS)
    output[0, 3:, 5] = 100.0  # wrong where nothing counts
    lines = task.Lines(length=5)
    assert lines.loss(output, target).item() == pytest.approx(torch.log(torch.tensor(float(task.SYMBOLS))).item())
    output[0, 0, line[1]] = 1.0
    assert lines.metrics(output, target)["right"].item() == pytest.approx(2 / 3)  # the end is foretold by the zeros


def test_a_federation_learns_lines_and_its_audit_says_so(tmp_path):
    folder, source = copied("generation/task", tmp_path), tmp_path / "lines"
    source.mkdir()
    for name in ("0", "1", "2", "test"):
        (source / f"{name}.txt").write_text("\n".join(f"lib{name}{n}: library of numbers" for n in range(40)))
    report = held(folder, source, dict(clients=3, rounds=2, strategy="fedavg"), tmp_path / "run")
    assert report["audit"]["verdict"] == "verified"
    first, last = (report["rounds"][index]["loss"] for index in (0, -1))
    assert last < first < 5


def test_a_model_writes_a_line_that_begins_as_asked(task):
    model = task.Lines(width=8).model()
    line = model.write("lib", torch.Generator().manual_seed(1))
    assert line.startswith("lib") and len(line) <= 60 and line.isprintable()
    assert line == model.write("lib", torch.Generator().manual_seed(1))
