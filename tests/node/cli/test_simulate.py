"""``fedgrove simulate``: what it leaves, what it refuses, and that no end of the process costs more than a round."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedgrove.node.simulation.record import RunRecord
from tests.node.cli.test_bad_input import SMALL as SMALL_SCENARIO
from tests.node.cli.test_bad_input import fedgrove

COMMAND = [sys.executable, "-c", "from fedgrove.node.cli import run; run()", "simulate"]
SMALL = ("simulate", "--scenario", "small.toml", "--executor", "inline")


@pytest.fixture
def place(tmp_path):
    """A folder with the plan of a small simulation."""
    return with_plan(tmp_path)


def with_plan(folder: Path) -> Path:
    (folder / "small.toml").write_text(SMALL_SCENARIO)
    return folder


FEDAOM = ("--strategy", "fedaom", "--set", "strategy.options.q=4", "--set", "run.probe_every=2")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A run of two seeds, kept; and what it printed."""
    folder = with_plan(tmp_path_factory.mktemp("simulated"))
    options = (*FEDAOM, "--seeds", "3,5", "--out", "runs/a")
    result = fedgrove(*SMALL, *options, "--json", cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder, result


def test_records_and_figures_are_kept_and_printed(kept):
    folder, result = kept
    runs = json.loads(result.stdout)["runs"]
    assert [run["record"]["scenario"]["federation"]["seed"] for run in runs] == [3, 5]
    for run, seed in zip(runs, (3, 5), strict=True):
        record = RunRecord.from_json(json.loads((folder / f"runs/a/seed-{seed}/record.json").read_text()))
        assert record.to_json() == run["record"] and run["seconds"] > 0
        assert record.scenario.strategy.options == {"q": 4.0} and record.scenario.training.epochs == 1
        assert [each.round for each in record.rounds] == [1, 2, 3]
    for figure in ("accuracy.png", "partition.png", "ood.png"):
        assert (folder / "runs/a" / figure).read_bytes().startswith(b"\x89PNG")


def test_progress_tells_round_accuracy_pace_and_time_left(kept):
    assert "round 3 of 3, accuracy 0." in kept[1].stderr
    assert "rounds/min" in kept[1].stderr and "left" in kept[1].stderr


def test_the_plan_that_a_run_leaves_gives_the_same_bytes(kept, tmp_path):
    run = kept[0] / "runs/a/seed-5"
    result = fedgrove(
        "simulate", "--scenario", str(run / "scenario.toml"), "--out", "again", "--workers", "2", cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
    for name in ("record.json", "checkpoint.safetensors", "scenario.toml"):
        assert (tmp_path / "again/seed-5" / name).read_bytes() == (run / name).read_bytes()


def test_without_json_there_is_a_table(place):
    result = fedgrove(*SMALL, "--rounds", "1", "--set", "partition.kind=shards", "--seeds", "4", cwd=place)
    assert result.returncode == 0 and "round 1 of 1" in result.stderr
    assert "fedavg on digits" in result.stdout and "mean of last 20" in result.stdout
    assert [path.name for path in place.iterdir()] == ["small.toml"]


def test_privacy_is_a_mechanism_and_its_settings(place):
    private = "\n[privacy]\nmechanism = 'client'\nclip = 0.5\ndelta = 1e-2\nepsilon = 5\nparticipation = 'secret'\n"
    private += "noise_multipliers = [1.0]\n"
    (place / "small.toml").write_text(SMALL_SCENARIO + private)
    result = fedgrove(*SMALL, "--rounds", "30", "--seeds", "4", cwd=place)
    assert result.returncode == 0, result.stderr
    assert "δ" in result.stdout and "protects nobody" in result.stdout
    assert "The privacy budget ends before round 30" in result.stdout


def test_a_run_is_not_begun_over_another_and_a_finished_one_is_resumed_at_once(kept):
    folder, _ = kept
    record = folder / "runs/a/seed-3/record.json"
    before = record.read_bytes()
    options = (*FEDAOM, "--out", "runs/a")
    for arguments, sentence in (
        (options, "holds this run up to round 3"),
        ((*options, "--rounds", "4"), "holds a run of another scenario"),
        ((*options, "--rounds", "4", "--resume"), "holds a run of another scenario"),
    ):
        result = fedgrove(*SMALL, "--seeds", "7,3", *arguments, cwd=folder)
        assert result.returncode == 2 and sentence in result.stderr
        assert not (folder / "runs/a/seed-7").exists() and record.read_bytes() == before
    assert fedgrove(*SMALL, "--seeds", "3", *options, "--resume", cwd=folder).returncode == 0
    assert record.read_bytes() == before


def test_training_that_diverges_is_one_sentence_with_client_and_round(place):
    wild = ("--set", "training.learning_rate=100", "--set", "training.epochs=20")
    result = fedgrove(*SMALL, *wild, "--out", "run", cwd=place)
    assert result.returncode == 1
    assert "client " in result.stderr and "in round 1" in result.stderr and "--resume goes on" in result.stderr


def test_a_damaged_checkpoint_is_one_sentence(place):
    options = ("--seeds", "1", "--out", "run")
    assert fedgrove(*SMALL, *options, "--rounds", "1", cwd=place).returncode == 0
    checkpoint = place / "run/seed-1/checkpoint.safetensors"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-3])
    result = fedgrove(*SMALL, *options, "--rounds", "1", "--resume", cwd=place)
    assert result.returncode == 2 and "is damaged" in result.stderr


# --- ends of the process ---------------------------------------------------------------------------------------------

LONG = (
    *("--plan", "small.toml", "--strategy", "moon", "--clients", "8", "--rounds", "12", "--seeds", "2"),
    *("--set", "scenario.train_samples=300", "--set", "scenario.test_samples=100", "--out", "run"),
)


def started(folder: Path, *arguments: str) -> subprocess.Popen:
    """The command as a process group of its own, as a shell starts it, with two workers."""
    arguments = (*COMMAND, *LONG, "--workers", "2", *arguments)
    return subprocess.Popen(arguments, cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True)


def progress(folder: Path) -> int:
    """Changes of the checkpoint so far."""
    checkpoint = folder / "run/seed-2/checkpoint.safetensors"
    return checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0


def wait_until(condition, process: subprocess.Popen, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and process.poll() is None:
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.005)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def workers(pid: int) -> list[int]:
    """The processes that were forked for it."""
    return [worker for child in children(pid) for worker in children(child)]


def ended(pid: int) -> bool:
    """Whether a process is gone, or a zombie that nobody has asked for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def to_the_end(folder: Path, *arguments: str) -> bytes:
    """The record of the run when it is done, without workers: they need not start, and it has the same bytes."""
    result = fedgrove("simulate", *LONG, "--executor", "inline", *arguments, cwd=folder)
    assert result.returncode == 0, result.stderr
    return (folder / "run/seed-2/record.json").read_bytes()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = with_plan(tmp_path_factory.mktemp("undisturbed"))
    return to_the_end(folder)


def test_killed_at_any_time_a_run_goes_on_to_the_same_bytes(undisturbed, place):
    chance = random.Random()  # other moments in every run of the tests
    for _ in range(3):
        before = progress(place)
        process = started(place, "--resume")
        wait_until(lambda before=before: progress(place) != before, process)
        time.sleep(chance.uniform(0, 0.3))
        others = [*children(process.pid), *workers(process.pid)] if process.poll() is None else []
        process.kill()
        process.wait(30)
        deadline = time.monotonic() + 30
        while not all(map(ended, others)):
            assert time.monotonic() < deadline, "a worker outlived its parent"
            time.sleep(0.05)
    assert to_the_end(place, "--resume") == undisturbed


def test_interrupted_it_says_how_to_go_on_and_a_killed_worker_is_named(undisturbed, place):
    process = started(place)
    wait_until(lambda: progress(place), process)
    os.killpg(process.pid, signal.SIGINT)
    _, talk = process.communicate(timeout=60)
    assert process.returncode == 130 and "--resume goes on" in talk and "Traceback" not in talk
    before = progress(place)
    process = started(place, "--resume")
    wait_until(lambda: progress(place) != before, process)
    for worker in workers(process.pid):
        os.kill(worker, signal.SIGKILL)
    _, talk = process.communicate(timeout=60)
    assert process.returncode == 1, talk
    assert "a worker was lost in round" in talk and "--resume goes on" in talk and "Traceback" not in talk
    assert to_the_end(place, "--resume") == undisturbed


# --- clusters --------------------------------------------------------------------------------------------------------


CLUSTERED = """
[partition]
kind = "groups"
groups = 3
[global]
[attack]
kind = "label-flip"
share = 0.2
start = 2
"""


def test_a_clustered_run_leaves_its_clusters_and_pictures(place):
    (place / "small.toml").write_text(SMALL_SCENARIO.replace("rate = 0.5", "rate = 1.0") + CLUSTERED)
    options = ("--clients", "9", "--rounds", "2", "--seeds", "1", "--out", "runs")
    result = fedgrove(*SMALL, "--method", "procfl, alpha = 0.5, psi = 'ecdh', seats = 3", *options, cwd=place)
    assert result.returncode == 0, result.stderr
    assert "36 of 36 pairs of clients compared" in result.stderr and "personalised accuracy 0." in result.stdout
    for picture in ("accuracy.png", "personal.png", "seed-1/clusters.png"):
        assert (place / "runs" / picture).read_bytes().startswith(b"\x89PNG")
    clusters = json.loads((place / "runs/seed-1/clusters.json").read_text())
    assert {client for members in clusters["clusters"] for client in members} == set(range(1, 10))
    assert len(clusters["overlaps"]) == 9 and len(clusters["attackers"]) == 2
    assert (
        fedgrove(
            "simulate", "--scenario", "runs/seed-1/scenario.toml", "--out", "runs", "--resume", cwd=place
        ).returncode
        == 0
    )
