"""Six client processes train while clients, the coordinator, the chain and a store are killed at random."""

import json
import subprocess
import sys
from pathlib import Path

CHAOS = Path(__file__).resolve().parents[4] / "scripts" / "chaos.py"


def test_a_federation_outlasts_kills_at_random_and_leaves_nothing(tmp_path):
    # With this seed the fourth kill is the chain's, and the eighth a store's.
    kills = ["--seed", "1", "--kills", "8", "--pause", "1"]
    options = ["--clients", "6", "--rounds", "6", *kills, "--dir", str(tmp_path / "testnet")]
    done = subprocess.run([sys.executable, CHAOS, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["audit"] == "verified"
    assert sum(one["outcome"] == "closed" for one in report["rounds"]) == 6
    assert report["kills"].keys() >= {"client", "coordinator", "chain"}
    assert report["restarts"] >= sum(report["kills"].values()) > 0
