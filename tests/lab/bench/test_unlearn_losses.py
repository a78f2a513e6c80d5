"""`fedgrove bench unlearn-losses`: trials that resume, a page with pictures, and the results that are stored."""

import shlex
from pathlib import Path

import numpy as np
import pytest

from fedgrove_lab.bench import unlearn_losses, unlearn_losses_report
from fedgrove_lab.bench.rows import BenchResult
from fedgrove_lab.made import Made, read_made
from tests.node.cli.test_bad_input import fedgrove

STORED = Path(__file__).parents[3] / "docs" / "results" / "unlearning_losses"
MADE = Made("fedgrove bench unlearn-losses", "0123456789ab", "Python 3.11")


@pytest.fixture
def data(tmp_path):
    """A folder with a small Celltype."""
    rng = np.random.default_rng(0)
    points = rng.uniform(0.1, 0.9, (4, 3))[np.arange(800) % 4] + rng.normal(0, 0.02, (800, 3))
    (tmp_path / "celltype").mkdir()
    np.savez(tmp_path / "celltype" / "celltype.npz", X=points, client=np.arange(800) % 100)
    return tmp_path


def run(data: Path, out: Path, seeds: list[int]) -> tuple[BenchResult, list[str]]:
    """All figures of Celltype; also the names of what was run."""
    names: list[str] = []

    def tracked(todo, what):
        names.extend(arm.name for arm in todo)
        return todo

    return unlearn_losses.run(unlearn_losses.arms(datasets=("celltype",)), seeds, data, out, MADE, tracked), names


def test_figures_of_a_small_dataset_resume_and_are_reported(monkeypatch, data, tmp_path):
    monkeypatch.setattr(unlearn_losses, "COARSENESS", (1.0, 8.0))
    out = tmp_path / "out"
    result, first = run(data, out, [0])
    whole, second = run(data, out, [0, 1])
    assert len(first) == 3 + 4 + 2 + 1 and [name.replace("seed1", "seed0") for name in second] == first
    assert run(data, out, [0, 1])[1] == []
    assert {row.unit for row in result.rows} == {"mean of 1"} and {row.unit for row in whole.rows} == {"mean of 2"}

    unlearn_losses_report.write_report(out)
    page = (out / "README.md").read_text()
    assert MADE.text in page and page.count("## ") == 4
    assert "| celltype | the paper's tables |  |  |  |  | 1.14 | 1.03 | 1.72 | 1.46 | – |" in page
    for figure in ("k-prime", "step", "removals"):
        assert f"({figure}.png)" in page and (out / f"{figure}.png").read_bytes().startswith(b"\x89PNG")


def test_a_changed_trial_is_run_again(monkeypatch, data, tmp_path):
    arm = unlearn_losses.arms((unlearn_losses.STEP,), ("celltype",))[0]
    for coarseness in (1.0, 2.0):
        changed = unlearn_losses.replace(arm, trial=unlearn_losses.replace(arm.trial, coarseness=coarseness))
        asked: list[unlearn_losses.Arm] = []
        unlearn_losses.run(
            [changed], [0], data, tmp_path, MADE, lambda todo, _, asked=asked: asked.extend(todo) or todo
        )
        assert [each.trial.coarseness for each in asked] == [coarseness]
    assert len(unlearn_losses.outcomes(tmp_path, changed)) == 1 and not unlearn_losses.outcomes(tmp_path, arm)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--figure", "4z"], "--figure must be preparation, k-prime, removals, step or all, not '4z'"),
        (["--dataset", "iris"], "--dataset must be celltype, covtype, gaussian or all, not 'iris'"),
        (["--seeds", "x"], "--seeds must be whole numbers"),
        (["--dataset", "celltype", "--data-dir", "nowhere"], "does not exist"),
    ],
)
def test_mistakes(tmp_path, options, said):
    result = fedgrove("bench", "unlearn-losses", "--out", str(tmp_path / "out"), *options, cwd=tmp_path)
    assert result.returncode == 2 and said in result.stderr.replace("\n", " ")


def test_the_stored_runs_are_those_that_the_stored_commands_ask_for(monkeypatch):
    asked: dict[str, unlearn_losses.Trial] = {}

    def note(arms, seeds, *_):
        asked.update({each.name: each.trial for arm in arms for each in (arm.with_seed(seed) for seed in seeds)})
        return BenchResult(())

    monkeypatch.setattr(unlearn_losses, "run", note)
    monkeypatch.setattr(unlearn_losses_report, "write_report", lambda out: None)
    page = (STORED / "README.md").read_text()
    for made in read_made(STORED):
        assert made.text in page and made.versions and not made.commit.endswith("-dirty")
        result = fedgrove(*shlex.split(made.command)[1:], cwd=STORED)
        assert result.returncode == 0, result.stderr
    assert asked
    stored = {path.stem: unlearn_losses.read_outcome(path).trial for path in (STORED / "runs").glob("*.json")}
    assert stored == asked
