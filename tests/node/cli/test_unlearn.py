"""`fedgrove kmeans` and `fedgrove unlearn`: a federation in a directory, which survives what happens to a command."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fedgrove.chain.network.history import LedgerHistory
from fedgrove.chain.records import Withdrawn
from fedgrove.node.audit.archive import LEDGER
from tests.node.cli.test_bad_input import fedgrove

COMMAND = [sys.executable, "-c", "from fedgrove.node.cli.main import run; run()"]
SECONDS = 300


def spoken(directory: Path, *arguments: str, until: str) -> int:
    """Run a command as a process, and kill it with SIGKILL when it has said so much; its exit code."""
    process = subprocess.Popen([*COMMAND, *arguments], cwd=directory, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + SECONDS
    for line in process.stderr:
        assert time.monotonic() < deadline, f"{arguments} hangs after {line}"
        if until in line:
            os.kill(process.pid, signal.SIGKILL)
            break
    process.stderr.close()
    return process.wait(SECONDS)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """The directory in which `clusters` was trained."""
    directory = tmp_path_factory.mktemp("unlearn")
    rng = np.random.default_rng(0)
    np.savez(directory / "mine.npz", points=rng.normal(rng.uniform(-1, 1, (80, 3)), 0.1))
    options = ("kmeans", "--dataset", "mine.npz", "--clients", "4", "--k", "2", "--dir", "clusters", "--json")
    result = fedgrove(*options, cwd=directory)
    assert result.returncode == 0, result.stderr
    trained = json.loads(result.stdout)
    assert trained["audit"] == "verified" and len(trained["centres"]) == 2
    assert 8 < trained["counted"] <= 80 and trained["clients"] == [1, 2, 3, 4]
    return directory


@pytest.mark.parametrize(
    ("option", "made"), [("--dataset gaussian", "{folder}/mine.npz"), ("--clients 5", "4"), ("--k 3", "2")]
)
def test_a_federation_is_not_taken_for_one_of_other_options(trained, option, made):
    result = fedgrove("kmeans", *option.split(), "--dir", "clusters", cwd=trained)
    name = option.split()[0]
    made = made.format(folder=trained)
    sentence = f"fedgrove: the federation in clusters was made with {name} {made}: give another --dir\n"
    assert (result.returncode, result.stderr) == (2, sentence)


def test_a_killed_request_is_made_once_and_honoured(trained):
    options = ("unlearn", "--dir", "clusters", "--client", "2", "--points", "3,5-6")
    assert spoken(trained, *options, until="sealed the order") == -signal.SIGKILL
    result = fedgrove(*options, "--json", cwd=trained)
    assert result.returncode == 0, result.stderr
    certificate = json.loads(result.stdout)
    assert certificate["request"]["points"] == 3 and certificate["round"]["summed"] == [1, 2, 3, 4]
    records = LedgerHistory.load(trained / "clusters" / "history" / LEDGER).records()
    assert sum(isinstance(record, Withdrawn) for record in records) == 1

    path = next((trained / "clusters" / "certificates").iterdir())
    audited = fedgrove("audit", "clusters/history", "--certificate", str(path), cwd=trained)
    assert audited.returncode == 0 and "without the 3 points that client 2 took back" in audited.stderr
    certificate["after"]["counted"] += 1
    path.write_bytes((json.dumps(certificate, indent=1, sort_keys=True) + "\n").encode())
    audited = fedgrove("audit", "clusters/history", "--certificate", str(path), "--json", cwd=trained)
    assert audited.returncode == 1 and json.loads(audited.stdout)["first_bad_record"]["field"] == "certificate: after"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--client", "1", "--points", "0-19"), "would have no points left: use --all"),
        (("--client", "9", "--points", "1"), "there is no client 9: clients are numbered from 1 to 4"),
    ],
)
def test_what_cannot_be_forgotten_is_said_and_nothing_is_lost(trained, options, sentence):
    result = fedgrove("unlearn", "--dir", "clusters", *options, cwd=trained)
    assert result.returncode == 2 and sentence in result.stderr


def test_members_may_leave_as_long_as_those_that_a_sum_needs_stay(trained, tmp_path):
    """Three of four are enough; two would not be."""
    shutil.copytree(trained / "clusters", tmp_path / "clusters")
    left = fedgrove("unlearn", "--dir", "clusters", "--client", "4", "--all", cwd=tmp_path)
    assert left.returncode == 0, left.stderr
    refused = fedgrove("unlearn", "--dir", "clusters", "--client", "3", "--all", cwd=tmp_path)
    assert refused.returncode == 2 and "2 clients would remain, but a sum needs 3" in refused.stderr


def test_a_simulation_needs_no_ledger(tmp_path):
    options = ("--points", "300", "--clients", "6", "--k", "3", "--clusters-each", "2")
    result = fedgrove("kmeans", "--simulate", *options, "--json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    simulated = json.loads(result.stdout)
    assert set(simulated["loss_ratios"]) == {"MUFC", "MUFC without privacy", "K-FED", "DC-K-means"}
    assert not list(tmp_path.iterdir())
    assert all(ratio > 0.99 for ratio in simulated["loss_ratios"].values())


@pytest.mark.processes
def test_the_store_can_be_a_kubo_node_whose_history_is_audited_without_it(tmp_path):
    options = ("--points", "90", "--clients", "3", "--k", "2", "--store", "kubo", "--dir", "clusters")
    assert fedgrove("kmeans", *options, cwd=tmp_path).returncode == 0
    result = fedgrove("unlearn", "--client", "1", "--points", "0", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "clusters" / "kubo" / "swarm.key").exists()
    certificate = next((tmp_path / "clusters" / "certificates").iterdir())
    audited = fedgrove("audit", "clusters/history", "--certificate", str(certificate), cwd=tmp_path)
    assert audited.returncode == 0, audited.stderr
