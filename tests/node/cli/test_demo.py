"""``fedgrove demo`` that is interrupted or killed: its rounds can be audited, and it goes on."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import warm
from tests.node.cli.test_bad_input import fedgrove

NEW = ["--clients", "3", "--rounds", "500", "--strategy", "fedavg"]


def ended_by(how: signal.Signals, place: Path, *options: str) -> tuple[int, str]:
    """Run ``demo --out run``, and send the signal when some rounds' uploads have been added; code and words."""
    held = len(list((place / "run").rglob("*")))
    with (place / "said.txt").open("w") as said:
        command = [*warm.command(), "demo", *options, "--out", "run"]
        running = subprocess.Popen(command, cwd=place, stdout=said, stderr=said, process_group=0)
    deadline = time.monotonic() + 240
    try:
        while len(list((place / "run").rglob("*"))) < held + 60:
            assert running.poll() is None and time.monotonic() < deadline, (place / "said.txt").read_text()
            time.sleep(0.1)
        running.send_signal(how)
        return running.wait(60), (place / "said.txt").read_text()
    finally:
        running.kill()


def audited(place: Path) -> int:
    """How many rounds the audit of the run verified."""
    verdict = fedgrove("audit", "run", "--json", cwd=place)
    assert verdict.returncode == 0, verdict.stdout
    return json.loads(verdict.stdout)["rounds"]


@pytest.mark.parametrize("chain", ["embedded", "anvil"])
def test_a_run_is_kept_and_goes_on_after_an_interruption_and_a_kill(chain, tmp_path):
    code, told = ended_by(signal.SIGINT, tmp_path, *NEW, "--chain", chain)
    assert code == 130 and "Traceback" not in told
    assert "stopped; the rounds that had ended are in run: check them with fedgrove audit run, " in told
    assert "go on with fedgrove demo --out run --resume" in told
    before = audited(tmp_path)
    assert before >= 1
    assert ended_by(signal.SIGKILL, tmp_path, "--resume")[0] == -signal.SIGKILL
    assert fedgrove("audit", "run", cwd=tmp_path).returncode == 2, "nothing was left to audit by a kill"
    code, told = ended_by(signal.SIGINT, tmp_path, *NEW, "--resume")
    assert code == 130 and "going on in round" in told and "Traceback" not in told
    assert audited(tmp_path) > before


def test_a_run_goes_on_with_its_own_options_only(tmp_path):
    code = INTERRUPTED.format(where="Demo._loop")
    options = ["demo", "--clients", "3", "--rounds", "1", "--strategy", "fedavg", "--out", "run"]
    result = subprocess.run([sys.executable, "-c", code, *options], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 130 and "go on with fedgrove demo --out run --resume" in result.stderr
    for other, name in (("--rounds 2", "rounds"), ("--strategy fedprox", "strategy"), ("--chain anvil", "chain")):
        refused = fedgrove("demo", "--out", "run", "--resume", *other.split(), cwd=tmp_path)
        assert refused.returncode == 2
        assert f"the run in run began with --{name} " in refused.stderr
    result = fedgrove("demo", "--out", "run", "--resume", "--rounds", "1", "--json", cwd=tmp_path)
    assert result.returncode == 0 and json.loads(result.stdout)["rounds"][0]["status"] == "closed"
    assert fedgrove("demo", "--resume", cwd=tmp_path).returncode == 2


FAULTY = """
import numpy as np
from torch import nn

import fedgrove as fg


class Faulty(fg.Task):
    def model(self):
        return nn.Linear(3, 2)

    def data(self, source):
        if source.read_text():
            raise KeyError
        return fg.Data((np.zeros((2, 3), np.float32), np.zeros(2, np.int64)))
"""


def test_data_that_no_weight_can_be_counted_of_are_named_before_the_first_round(tmp_path):
    for name in ("faulty", "each"):
        (tmp_path / name).mkdir()
    (tmp_path / "faulty" / "task.py").write_text(FAULTY)
    (tmp_path / "one").write_text("")
    for member in "abc":
        (tmp_path / "each" / member).write_text("a fault")
    command = ("demo", "--task", "faulty", "--clients", "3", "--rounds", "1", "--sandbox", "off", "--out")
    for source, why in (
        ("each", "the task raised KeyError (task.py, line 14)"),
        ("one", "there are 2 samples for 3 clients: each needs at least one"),
    ):
        result = fedgrove(*command, f"run-{source}", "--data", source, cwd=tmp_path)
        assert result.returncode == 1 and f"fedgrove: {why}" in result.stderr


INTERRUPTED = """
import sys
from fedgrove.node.devnet import demonstration
from fedgrove.node.devnet.demo import Demo
def interrupted(*arguments):
    raise KeyboardInterrupt
{where} = interrupted
sys.argv = ["fedgrove", *sys.argv[1:]]
from fedgrove.node.cli.main import run
run()
"""


def test_an_interruption_before_there_is_a_ledger_keeps_nothing(tmp_path):
    for where in ("demonstration._subject", "Demo._found"):
        code = INTERRUPTED.format(where=where)
        command = [sys.executable, "-c", code, "demo", "--out", "run"]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert (result.returncode, result.stderr) == (130, "fedgrove: stopped\n")
        assert [path for path in tmp_path.rglob("*") if path.name != "run"] == []
