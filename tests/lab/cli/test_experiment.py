"""``fedgrove experiment``: from the command to tables and figures."""

import json
from concurrent.futures.process import BrokenProcessPool

import pytest

from fedgrove.node.simulation import workers as workforce
from fedgrove_lab.experiments.registry import EXPERIMENTS
from fedgrove_lab.made import read_made
from tests.node.cli.test_bad_input import fedgrove

SMALL = ["--dataset", "digits", "--rounds", "2", "--clients", "4", "--sampled", "0.5", "--executor", "inline"]


def test_an_experiment_writes_its_files_and_is_not_run_twice(tmp_path):
    line = ["experiment", "rounds_to_90", *SMALL, "--seeds", "0,1", "--out", "results/first", "--work", "work"]
    first = fedgrove(*line, "--arms", "fedavg,fedaom,share", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "6 runs left, 12 rounds in all" in first.stderr and "12 of 12 in all" in first.stderr
    out = tmp_path / "results" / "first"
    runs = [f"{arm}-seed{seed}.json" for arm in ("fedaom", "fedavg", "share") for seed in (0, 1)]
    assert sorted(path.name for path in (out / "runs").iterdir()) == runs
    files = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    again = fedgrove(*line, "--json", cwd=tmp_path)
    assert again.returncode == 0 and "0 runs left" in again.stderr
    assert json.loads(again.stdout)["seeds"] == {"fedavg": [0, 1], "fedaom": [0, 1], "share": [0, 1]}
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == files


def test_a_page_says_by_which_commands_it_was_made(tmp_path):
    """Those that ran something, without what changes no result; the same command is noted once."""
    line = ["experiment", "rounds_to_90", *SMALL, "--out", "results", "--work=work", "--arms", "fedavg"]
    for options in (["--seeds", "0"], ["--seeds", "1"], ["--seeds", "1"], ["--report-only"]):
        assert fedgrove(*line, *options, cwd=tmp_path).returncode == 0
    small = "--dataset digits --rounds 2 --clients 4 --sampled 0.5"
    commands = [f"fedgrove experiment rounds_to_90 {small} --arms fedavg --seeds {seed}" for seed in (0, 1)]
    made = read_made(tmp_path / "results")
    assert [each.command for each in made] == commands
    assert all("torch" in each.versions and each.commit for each in made)
    page = (tmp_path / "results" / "README.md").read_text()
    assert all(each.text in page for each in made)


def test_cells_of_the_table_are_run_one_by_one(tmp_path):
    line = ["experiment", "accuracy_table", *SMALL, "--seeds", "0", "--out", "results", "--work", "work"]
    assert fedgrove(*line, "--only", "mnist-dirichlet0.2-*", "--arms", "moon", cwd=tmp_path).returncode == 0
    result = fedgrove(*line, "--only", "cifar10-dirichlet0.5-fedprox", "--json", cwd=tmp_path)
    assert list(json.loads(result.stdout)["seeds"]) == ["cifar10-dirichlet0.5-fedprox", "mnist-dirichlet0.2-moon"]


def test_the_list_names_all(tmp_path):
    shown = fedgrove("experiment", "list", cwd=tmp_path)
    assert shown.returncode == 0 and all(name in shown.stdout for name in EXPERIMENTS)
    printed = fedgrove("experiment", "list", "--json", cwd=tmp_path)
    assert list(json.loads(printed.stdout)) == sorted(EXPERIMENTS)


@pytest.mark.parametrize(
    "line, sentence",
    [
        (["rounds_to_100"], "there is no experiment 'rounds_to_100'"),
        (["rounds_to_90", "--seeds", "one"], "--seeds must be whole numbers"),
        (["rounds_to_90", "--seeds", "9" * 5000], "--seeds must be whole numbers"),
        (["rounds_to_90", "--arms", "adam"], "has no arm adam"),
        (["rounds_to_90", "--only", "x*"], "has no arm x*"),
        (["rounds_to_90", "--dataset", "letters"], "unknown dataset 'letters'"),
        (["rounds_to_90", "--dataset", "digits", "--clients", "5000"], "the data do not suit this scenario"),
        (["rounds_to_90", "--dataset", "digits", "--executor", "cloud"], "the executor must be inline"),
        (["rounds_to_90_tuned"], "there are no trials"),
        (["rounds_to_90", "--dataset", "digits", "--out", "taken"], "taken"),
    ],
)
def test_mistakes_get_one_sentence(tmp_path, line, sentence):
    (tmp_path / "taken").write_text("a file")
    result = fedgrove("experiment", *line, "--work", "work", cwd=tmp_path)
    assert result.returncode == 2 and sentence in result.stderr and "Traceback" not in result.stderr


def test_a_lost_worker_is_no_mistake_of_the_user(tmp_path, monkeypatch):
    def die(*_):
        raise BrokenProcessPool("a process ended")

    monkeypatch.setattr(workforce, "perform", die)
    result = fedgrove("experiment", "rounds_to_90", *SMALL, "--seeds", "0", "--out", "o", "--work", "w", cwd=tmp_path)
    assert result.returncode == 1 and "a worker was lost in round 1 while training client" in result.stderr
