"""Every command that needs a chain, on the user's own ``npx hardhat node``, with blocks on demand and by time.

Nobody asks the node for blocks but the coordinator.
"""

import json
import subprocess
import tomllib

import numpy as np
import pytest
from sklearn.datasets import load_digits

from fedgrove.chain.crypto.keys import Keys, save
from fedgrove.chain.face.networks import connect
from tests import warm
from tests.hardhat_node import hardhat_node

SECONDS = 240
TERMS = """
[federation]
name = "three wards"
rounds = 1
[model]
name = "small-cnn"
input_shape = [1, 8, 8]
classes = 10
[training]
epochs = 1
learning_rate = 0.05
[strategy]
name = "fedavg"
[ledger]
quorum = 3
draw_window = 60
seal_window = 60
share_window = 60
commit_window = 120
recover_window = 100
[network] # what a founder writes before the contracts are there
store = "disk:store"
confirmations = 1
[masking]
bound = 4.0
"""
PASSWORD = "correct horse battery staple"
NAMES = ("founder", "alice", "bob", "carol")


class Place:
    """A folder with keystores, data and terms, and the node's URL."""

    def __init__(self, folder, url):
        self.folder, self.url = folder, url
        self.ledger = ""

    def start(self, *arguments):
        words = [*warm.command(), *map(str, arguments)]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(words, cwd=self.folder, **options)

    def run(self, *arguments, code=0):
        process = self.start(*arguments)
        out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == code, f"{arguments}: {out}\n{err}"
        return out


@pytest.fixture(scope="module")
def url():
    with hardhat_node() as url:
        yield url


@pytest.fixture(scope="module")
def place(tmp_path_factory, url):
    """A federation that was deployed, joined and run by commands."""
    folder = tmp_path_factory.mktemp("hardhat")
    place = Place(folder, url)
    x, y = load_digits(return_X_y=True)
    x = (x.reshape(-1, 1, 8, 8) / 16).astype("float32")
    with pytest.MonkeyPatch.context() as patch, connect(url) as network:
        patch.setenv("FEDGROVE_PASSWORD", PASSWORD)
        accounts = []
        for number, name in enumerate(NAMES):
            keys = Keys.generate()
            save(folder / f"{name}.json", keys, PASSWORD, cost=1 << 12)
            network.fund(keys.address, 1)
            np.savez(folder / f"{name}.npz", x_train=x[number:600:4], y_train=y[number:600:4])
            accounts.append(keys.address)
        (folder / "federation.toml").write_text(f"{TERMS}[membership]\nmembers = {json.dumps(accounts[1:])}\n")
        founder = ("--config", "federation.toml", "--keystore", "founder.json")
        place.run("deploy", *founder, "--rpc", url)
        for name in NAMES[1:]:
            place.run("register", "--config", "federation.toml", "--keystore", f"{name}.json")
        own = {name: ("--config", "federation.toml", "--keystore", f"{name}.json") for name in NAMES}
        running = [
            place.start("client", *own[name], "--data", f"{name}.npz", "--directory", name) for name in NAMES[1:]
        ]
        running.append(place.start("coordinator", *own["founder"], "--members", "3"))
        try:
            for process in running:
                _, log = process.communicate(timeout=SECONDS)
                assert process.returncode == 0, log
        finally:
            for process in running:
                process.kill()
        yield place


def test_three_clients_and_a_coordinator_close_a_round(place):
    found = json.loads(place.run("status", "--config", "federation.toml", "--json"))
    assert found["round"] == 1 and found["members"] == 3 and found["finished"] is True
    assert found["chain_stopped"] == ""


def test_the_ledger_is_audited_and_shown_by_the_node(place):
    reach = tomllib.loads((place.folder / "federation.toml").read_text())["network"]
    named = ("--rpc", place.url, "--ledger", reach["ledger"], "--store", "disk:store")
    assert "verified" in place.run("audit", *named)
    place.run("explorer", *named, "--export", "pages")
    assert (place.folder / "pages" / "index.html").exists()


def test_doctor_finds_nothing_that_failed(place):
    assert "FAILED" not in place.run("doctor", "--config", "federation.toml").upper()


@pytest.mark.parametrize("by_time", [False, True], ids=["on demand", "by time"])
def test_a_demonstration_runs_on_it(place, by_time, tmp_path):
    with connect(place.url) as network:
        if by_time:
            network.request("evm_setAutomine", False)
            network.request("evm_setIntervalMining", 300)
        try:
            place.run("demo", "--clients", "3", "--rounds", "1", "--chain", place.url, "--out", tmp_path / "run")
        finally:
            network.request("evm_setIntervalMining", 0)
            network.request("evm_setAutomine", True)
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["audit"]["verdict"] == "verified" and report["rounds"][0]["status"] == "closed"
