"""``fedgrove demo`` that is interrupted: the rounds that had ended can be audited."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.node.cli.test_bad_input import fedgrove

FEDGROVE = Path(sys.executable).with_name("fedgrove")


@pytest.mark.parametrize("chain", ["embedded", "anvil"])
def test_the_rounds_before_an_interruption_are_kept_and_verified(chain, tmp_path):
    options = ["--clients", "3", "--rounds", "500", "--strategy", "fedavg", "--chain", chain, "--out", "run"]
    with (tmp_path / "said.txt").open("w") as said:
        command = [FEDGROVE, "demo", *options]
        running = subprocess.Popen(command, cwd=tmp_path, stdout=said, stderr=said, process_group=0)
    deadline = time.monotonic() + 120
    while len(list((tmp_path / "run" / "store").rglob("*"))) < 60:  # some rounds' uploads
        assert running.poll() is None and time.monotonic() < deadline, (tmp_path / "said.txt").read_text()
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 130
    told = (tmp_path / "said.txt").read_text()
    assert "stopped; the rounds that had ended are in run: check them with fedgrove audit run" in told
    assert "Traceback" not in told
    verdict = fedgrove("audit", "run", "--json", cwd=tmp_path)
    assert verdict.returncode == 0 and json.loads(verdict.stdout)["rounds"] >= 1


def test_an_interruption_before_there_is_a_ledger_keeps_nothing(tmp_path):
    code = """
import sys
from fedgrove.node.devnet import demonstration
def interrupted(*arguments):
    raise KeyboardInterrupt
demonstration._subject = interrupted
sys.argv = ["fedgrove", "demo", "--out", "run"]
from fedgrove.node.cli.main import run
run()
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stderr) == (130, "fedgrove: stopped\n")
