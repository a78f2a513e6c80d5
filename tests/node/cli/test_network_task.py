"""``fedgrove network up --task``: a federation of processes on a task of one's own."""

import json
import os
import tomllib

import pytest

from fedgrove.chain.crypto.keys import load
from fedgrove.ipfs.cid import CID
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.devnet.members import COORDINATOR, client_name
from fedgrove.node.devnet.testnet.layout import TestnetPaths
from fedgrove.node.devnet.testnet.lock import claim
from fedgrove.node.devnet.testnet.setup import make
from fedgrove.node.methods.terms import load_config
from fedgrove.node.scenario.reading import scenario
from fedgrove.node.tasks.approval import Approvals
from fedgrove.node.tasks.fetching import fetch_bundle
from fedgrove.node.tasks.sandbox.faults import SandboxUnavailable
from tests.node.cli.test_bad_input import fedgrove
from tests.node.cli.test_network import QUIET, network, place, status, up
from tests.node.simulation.own_task import TERMS, table, write_task

__all__ = ["place"]


@pytest.fixture
def task(tmp_path):
    """A task and one source of data."""
    write_task(tmp_path / "points")
    (tmp_path / "points.csv").write_text(table(60, 1))
    return ("--task", "points", "--data", "points.csv")


def test_processes_learn_a_task_and_go_on_where_they_were(task, place):
    first = up(*QUIET, *task, "--wait", cwd=place)
    assert first.returncode == 0, first.stderr
    code, told = status(place)
    assert code == 0 and told["phase"] == "ended" and told["federation"]["round"] == 1
    network_table = tomllib.loads((place / "testnet/federation.toml").read_text())["network"]
    place_options = ("--rpc", network_table["rpc"][0], "--store", network_table["store"])
    audited = fedgrove("audit", "--ledger", network_table["ledger"], *place_options, "--json", cwd=place)
    assert json.loads(audited.stdout)["verdict"] == "verified", audited.stdout
    exported = fedgrove("history", "export", network_table["ledger"], *place_options, "--csv", "tables", cwd=place)
    assert exported.returncode == 0, exported.stderr
    header, row = (line.split(",") for line in (place / "tables/rounds.csv").read_text().splitlines())
    found = dict(zip(header, row, strict=True))
    assert found["status"] == "closed" and sorted(found["committed_clients"].split()) == ["1", "2", "3"]
    assert 0 <= float(found["accuracy"]) <= 1

    assert network("down", cwd=place).returncode == 0
    other = up("--task", "elsewhere", "--data", "points.csv", cwd=place)
    assert other.returncode == 2, other.stderr
    resumed = up(*QUIET, cwd=place)
    assert resumed.returncode == 0, resumed.stderr
    assert status(place)[1]["federation"]["round"] == 1


PLAN = {"clients": 3, "rounds": 1, "store": "disk", "strategy": "fedavg", "block_seconds": 0.5}


def made(root, folder, source, settings=None, **more):
    layout = TestnetPaths(root)
    lock = claim(layout)
    try:
        return layout, make(layout, scenario(settings, **PLAN, task=str(folder), data=str(source), **more))
    finally:
        os.close(lock)


def test_everybody_has_its_own_data_and_has_approved_the_bundle_of_the_terms(task, tmp_path):
    (tmp_path / "parts").mkdir()
    for number, name in enumerate(("a", "b", "c", "test")):
        (tmp_path / "parts" / f"{name}.csv").write_text(table(20, number))
    changed = {"settings": {"training.epochs": 1}, "held_out": 0.3}
    layout, testnet = made(tmp_path / "testnet", tmp_path / "points", tmp_path / "parts", **changed)
    terms, reach = load_config(layout.participant("client-02").config)
    assert terms.federation.name == "task demo" and reach.sandbox == "auto"
    assert terms.training.epochs == 1 and terms.evaluation.held_out == 0.3
    cid = CID.parse(terms.task.bundle)
    store = DiskStore(layout.store(testnet.scenario, 1))
    assert "task.py" in fetch_bundle(store, cid).contents and store.has(bytes.fromhex(terms.start.model))
    for name, source in zip([*map(client_name, (1, 2, 3)), COORDINATOR], ("a", "b", "c", "test"), strict=True):
        mine = layout.participant(name)
        link = mine.root / "source" / f"{source}.csv"
        weight = [] if name == COORDINATOR else ["--weight"]
        assert testnet.sources[name][:3] == ["--data", str(link), *weight]
        assert link.resolve() == tmp_path / "parts" / f"{source}.csv"
        keys = load(mine.keystore, mine.password.read_text().strip())
        assert Approvals(mine.state, keys.address).check(cid).account == testnet.accounts[name]


def test_data_around_the_testnet_are_refused(task, tmp_path):
    """A task's code would see everybody's keys."""
    with pytest.raises(SandboxUnavailable, match=r"a task's code would see .*testnet: move it out of"):
        made(tmp_path / "testnet", tmp_path / "points", tmp_path)


def test_a_task_that_fails_leaves_no_directory(place):
    write_task(place / "points", TERMS.replace("[training]", '[task.options]\nfault = "raises"\n\n[training]'))
    (place / "points.csv").write_text(table(60, 1))
    failed = fedgrove("network", "up", *QUIET, "--task", "points", "--data", "points.csv", cwd=place)
    assert failed.returncode == 1 and "no loss today" in failed.stderr, failed.stderr
    assert not (place / "testnet").exists()
