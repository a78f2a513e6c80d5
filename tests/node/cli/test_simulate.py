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
from fedgrove.node.lab.simulation.record import RunRecord

from tests.node.cli.test_bad_input import fedgrove

COMMAND = [sys.executable, "-c", "from fedgrove.node.cli import run; run()", "simulate"]
SMALL = (
    *("simulate", "--clients", "6", "--sampled", "0.5", "--rounds", "3", "--train-samples", "150"),
    *("--test-samples", "60", "--epochs", "1", "--executor", "inline"),
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A run of two seeds, kept; and what it printed."""
    folder = tmp_path_factory.mktemp("simulated")
    options = ("--strategy", "fedaom", "--option", "q=4", "--seeds", "3,5", "--probe-every", "2", "--out", "runs/a")
    result = fedgrove(*SMALL, *options, "--json", cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder, result


def test_records_and_figures_are_kept_and_printed(kept):
    folder, result = kept
    runs = json.loads(result.stdout)["runs"]
    assert [run["record"]["plan"]["seed"] for run in runs] == [3, 5]
    for run, seed in zip(runs, (3, 5), strict=True):
        record = RunRecord.from_json(json.loads((folder / f"runs/a/seed-{seed}/record.json").read_text()))
        assert record == RunRecord.from_json(run["record"]) and run["seconds"] > 0
        assert record.plan.options == {"q": 4.0} and record.plan.training.epochs == 1
        assert [each.round for each in record.rounds] == [1, 2, 3]
    for figure in ("accuracy.png", "partition.png", "ood.png"):
        assert (folder / "runs/a" / figure).read_bytes().startswith(b"\x89PNG")


def test_progress_tells_round_accuracy_pace_and_time_left(kept):
    assert "round 3 of 3, accuracy 0." in kept[1].stderr
    assert "rounds/min" in kept[1].stderr and "left" in kept[1].stderr


def test_without_json_there_is_a_table(tmp_path):
    result = fedgrove(*SMALL, "--rounds", "1", "--partition", "shards", "--seeds", "4", cwd=tmp_path)
    assert result.returncode == 0 and result.stdout == ""
    assert "fedavg on digits" in result.stderr and "mean of last 20" in result.stderr
    assert not list(tmp_path.iterdir())


def test_privacy_is_a_mechanism_and_its_settings(tmp_path):
    private = "client, clip = 0.5, delta = 1e-2, noise_multipliers = [1.0], epsilon = 5, participation = 'secret'"
    result = fedgrove(*SMALL, "--rounds", "30", "--seeds", "4", "--privacy", private, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "δ" in result.stderr and "protects nobody" in result.stderr
    assert "The privacy budget ends before round 30" in result.stderr


def test_a_run_is_not_begun_over_another_and_a_finished_one_is_resumed_at_once(kept):
    folder, _ = kept
    record = folder / "runs/a/seed-3/record.json"
    before = record.read_bytes()
    options = ("--strategy", "fedaom", "--option", "q=4", "--probe-every", "2", "--out", "runs/a")
    for arguments, sentence in (
        (options, "holds this run up to round 3"),
        ((*options, "--rounds", "4"), "holds a run of another plan"),
        ((*options, "--rounds", "4", "--resume"), "holds a run of another plan"),
    ):
        result = fedgrove(*SMALL, "--seeds", "7,3", *arguments, cwd=folder)
        assert result.returncode == 2 and sentence in result.stderr
        assert not (folder / "runs/a/seed-7").exists() and record.read_bytes() == before
    assert fedgrove(*SMALL, "--seeds", "3", *options, "--resume", cwd=folder).returncode == 0
    assert record.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--clients", "0"), "clients must be"),
        (("--sampled", "1.5"), "sampled must be"),
        (("--copies", "4"), "4 copies of the data cannot be dealt to 6 clients"),
        (("--privacy", "secret"), "mechanism in --privacy must be one of none, client, local, signds"),
        (("--privacy", "client, epsilon"), "--privacy must be like"),
        (("--privacy", "client, clip = -1"), "clip must be from"),
        (("--privacy", "client, phases = 3"), "phases in --privacy must be a list"),
        (("--privacy", "client, epsilon = 0.01"), "does not afford a single round"),
        (("--privacy", "signds, dimensions = 1000000"), "dimensions must be"),
        (("--method", "magic"), "method in --method must be one of none, procfl, ifca, global"),
        (("--method", "procfl, alpha"), "--method must be like"),
        (("--attack", "label-flip"), "an attack is simulated with clustering only"),
        (("--attack", "flip", "--method", "global"), "kind must be one of"),
        (("--rounds", "0"), "rounds must be"),
        (("--strategy", "magic"), "strategy must be one of"),
        (("--option", "q=8"), "unknown option 'q' of fedavg"),
        (("--option", "q"), "NAME=NUMBER"),
        (("--option", "q=much"), "NAME=NUMBER"),
        (("--strategy", "fedaom", "--option", "q=nan"), "finite"),
        (("--partition", "random"), "kind must be one of"),
        (("--alpha", "0"), "alpha must be"),
        (("--partition", "shards", "--per-client", "400"), "shards"),
        (("--learning-rate", "-1"), "learning_rate must be"),
        (("--model", "vgg"), "model must be one of"),
        (("--device", "tpu"), "the device must be one of cpu, cuda, auto"),
        (("--model", "paper-cnn"), "too small"),
        (("--seeds", "1,x"), "whole numbers"),
        (("--seeds", ""), "whole numbers"),
        (("--seeds", "99999999999999999999"), "seed must be"),
        (("--executor", "ray"), "must be inline"),
        (("--workers", "-1"), "--workers"),
        (("--dataset", "nothing"), "unknown data set"),
        (("--dataset", "missing.npz"), "cannot read missing.npz"),
        (("--clients", "1000"), "samples cannot give"),
        (("--resume",), "--resume needs --out"),
        (("--out", "file/below"), "cannot make the directory"),
    ],
)
def test_a_mistake_is_one_sentence_and_changes_nothing(arguments, word, tmp_path):
    (tmp_path / "file").write_text("kept")
    result = fedgrove(*SMALL, *arguments, cwd=tmp_path)
    assert result.returncode == 2 and word in result.stderr, result.stderr
    assert "Traceback" not in result.stderr and len(result.stderr.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_training_that_diverges_is_one_sentence_with_client_and_round(tmp_path):
    result = fedgrove(*SMALL, "--learning-rate", "90", "--epochs", "3", "--out", "run", cwd=tmp_path)
    assert result.returncode == 1
    assert "client " in result.stderr and "in round 1" in result.stderr and "--resume goes on" in result.stderr


def test_a_damaged_checkpoint_is_one_sentence(kept, tmp_path):
    options = ("--seeds", "1", "--out", str(tmp_path / "run"))
    assert fedgrove(*SMALL, *options, "--rounds", "1", cwd=tmp_path).returncode == 0
    checkpoint = tmp_path / "run/seed-1/checkpoint.safetensors"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-3])
    result = fedgrove(*SMALL, *options, "--rounds", "1", "--resume", cwd=tmp_path)
    assert result.returncode == 2 and "is damaged" in result.stderr


# --- ends of the process ---------------------------------------------------------------------------------------------

LONG = (
    *("--strategy", "moon", "--clients", "8", "--sampled", "0.5", "--rounds", "12", "--epochs", "1", "--seeds", "2"),
    *("--train-samples", "300", "--test-samples", "100", "--workers", "2"),
)


def started(folder: Path, *arguments: str) -> subprocess.Popen:
    """The command as a process group of its own, as a shell starts it."""
    arguments = (*COMMAND, *LONG, "--out", "run", *arguments)
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


def ended(pid: int) -> bool:
    """Whether a process is gone, or a zombie that nobody has asked for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except FileNotFoundError:
        return True


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    process = started(folder)
    assert process.wait(300) == 0
    return (folder / "run/seed-2/record.json").read_bytes()


def test_killed_at_any_time_a_run_goes_on_to_the_same_bytes(undisturbed, tmp_path):
    chance = random.Random()  # other moments in every run of the tests
    for _ in range(3):
        before = progress(tmp_path)
        process = started(tmp_path, "--resume")
        wait_until(lambda before=before: progress(tmp_path) != before, process)
        time.sleep(chance.uniform(0, 0.3))
        workers = children(process.pid) if process.poll() is None else []
        process.kill()
        process.wait(30)
        deadline = time.monotonic() + 30
        while not all(map(ended, workers)):
            assert time.monotonic() < deadline, "a worker outlived its parent"
            time.sleep(0.05)
    assert started(tmp_path, "--resume").wait(300) == 0
    assert (tmp_path / "run/seed-2/record.json").read_bytes() == undisturbed


def test_interrupted_it_says_how_to_go_on_and_a_killed_worker_is_named(undisturbed, tmp_path):
    process = started(tmp_path)
    wait_until(lambda: progress(tmp_path), process)
    os.killpg(process.pid, signal.SIGINT)
    _, talk = process.communicate(timeout=60)
    assert process.returncode == 130 and "--resume goes on" in talk and "Traceback" not in talk
    before = progress(tmp_path)
    process = started(tmp_path, "--resume")
    wait_until(lambda: progress(tmp_path) != before, process)
    for child in children(process.pid):
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
            os.kill(child, signal.SIGKILL)
    _, talk = process.communicate(timeout=60)
    assert process.returncode == 1, talk
    assert "a worker was lost in round" in talk and "--resume goes on" in talk and "Traceback" not in talk
    assert started(tmp_path, "--resume").wait(300) == 0
    assert (tmp_path / "run/seed-2/record.json").read_bytes() == undisturbed


# --- clusters --------------------------------------------------------------------------------------------------------


def test_a_clustered_run_leaves_its_clusters_and_pictures(tmp_path):
    grouped = ("--clients", "9", "--sampled", "1", "--partition", "groups", "--groups", "3", "--rounds", "2")
    clustering = "procfl, alpha = 0.5, psi = 'ecdh', seats = 3"
    attack = "label-flip, share = 0.2, start = 2"
    options = ("--method", clustering, "--attack", attack, "--seeds", "1", "--out", "runs")
    result = fedgrove(*SMALL, *grouped, *options, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "36 of 36 pairs of clients compared" in result.stderr and "personalised accuracy 0." in result.stderr
    for picture in ("accuracy.png", "personal.png", "seed-1/clusters.png"):
        assert (tmp_path / "runs" / picture).read_bytes().startswith(b"\x89PNG")
    clusters = json.loads((tmp_path / "runs/seed-1/clusters.json").read_text())
    assert {client for members in clusters["clusters"] for client in members} == set(range(1, 10))
    assert len(clusters["overlaps"]) == 9 and len(clusters["attackers"]) == 2
    assert fedgrove(*SMALL, *grouped, *options, "--resume", cwd=tmp_path).returncode == 0
