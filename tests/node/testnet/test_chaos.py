"""Eight client processes train while clients, the coordinator, the chain and a store are killed at random."""

import json
import subprocess
import sys
from pathlib import Path

CHAOS = Path(__file__).resolve().parents[3] / "scripts" / "chaos.py"


def test_a_federation_outlasts_kills_at_random_and_leaves_nothing(tmp_path):
    options = ["--clients", "8", "--rounds", "3", "--seed", "1", "--dir", str(tmp_path / "testnet"), "--json"]
    done = subprocess.run([sys.executable, CHAOS, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["audit"] == "verified"
    assert [one["round"] for one in report["rounds"]] == [1, 2, 3]
    assert report["kills"].keys() >= {"client", "coordinator", "chain"}
    assert report["restarts"] >= sum(report["kills"].values()) > 0
