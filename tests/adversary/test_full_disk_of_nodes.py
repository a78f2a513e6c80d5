"""A full disk beneath federations whose chain is a node of its own: anvil writes its state file in place.

A node that met a full disk left half a file. What stops the loss: no node starts before its state is copied, a
directory is complete only once its chain was written, and processes wait for room.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedgrove.chain.face.networks import has_anvil
from fedgrove.chain.network import anvil_state
from fedgrove.common.errors import RunFailed
from fedgrove.ipfs.store import DiskFull
from fedgrove.node.cli.output import fault_of_disk
from fedgrove.node.devnet.testnet.layout import TestnetPaths, read_record
from fedgrove.node.devnet.testnet.lock import claim
from fedgrove.node.devnet.testnet.setup import make
from fedgrove.node.scenario.reading import scenario
from tests.adversary.media import fill, small_disk
from tests.adversary.test_full_disk import disk, fedgrove, one_sentence

__all__ = ["disk"]

PLAN = scenario(clients=3, rounds=2, store="disk", strategy="fedavg")

pytestmark = pytest.mark.skipif(not has_anvil(), reason="no anvil: run make test, which installs it")


@pytest.mark.parametrize("room", [1 << 14, 500_000, 900_000], ids=["keys", "founded", "round"])
def test_clustering_ends_and_goes_on_where_it_was(tmp_path, room):
    """Keys are written by then; the federation is founded, with no room for a copy of the chain; it is in a round."""
    with small_disk(tmp_path / "small", 16384) as disk:
        ballast = fill(disk, leave=room)
        command = ("kmeans", "--dataset", "gaussian", "--points", 400, "--clients", 3, "--k", 2, "--dir", disk / "fed")
        one_sentence(fedgrove(*command))
        ballast.unlink()
        again = fedgrove(*command)
        assert again.returncode == 0 and "audit: verified" in again.stdout, again.stderr


@pytest.fixture(scope="module")
def bytes_of_a_testnet(tmp_path_factory) -> int:
    root = made_in(tmp_path_factory.mktemp("roomy") / "testnet").root
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


def made_in(root: Path) -> TestnetPaths:
    """A testnet that is made, not started."""
    layout = TestnetPaths(root)
    lock = claim(layout)
    try:
        make(layout, PLAN)
    finally:
        os.close(lock)
    return layout


@pytest.mark.parametrize("share", [0.1, 0.5, 0.7, 0.9])
def test_a_testnet_is_made_whole_or_made_anew(tmp_path, bytes_of_a_testnet, share):
    with small_disk(tmp_path / "small", 16384) as disk:
        ballast = fill(disk, leave=int(share * bytes_of_a_testnet))
        with pytest.raises((OSError, DiskFull, RunFailed)) as met:
            made_in(disk / "testnet")
        assert "room" in (fault_of_disk(met.value) or str(met.value)), met.value
        assert not TestnetPaths(disk / "testnet").record.exists()
        ballast.unlink()
        layout = made_in(disk / "testnet")
        assert read_record(layout).scenario == PLAN and anvil_state.was_written(layout.chain)


@pytest.mark.processes
def test_processes_of_a_testnet_wait_for_room_and_go_on(tmp_path):
    with small_disk(tmp_path / "small", 32768) as disk:
        place = disk / "testnet"
        up = ("network", "up", "--dir", place, "--clients", 3, "--rounds", 3, "--strategy", "fedavg", "--store", "disk")
        try:
            assert fedgrove(*up, "--chain", "anvil", "--no-explorer").returncode == 0
            wait_for('"drew"', place / "logs")  # before a round, clients have nothing to write, and would not notice
            ballast = fill(disk)
            wait_for("the disk is full", place / "logs")
            ballast.unlink()
            ended = fedgrove(*up, "--chain", "anvil", "--no-explorer", "--wait")
            assert ended.returncode == 0 and "closed" in ended.stderr, ended.stderr
        finally:
            fedgrove("network", "down", "--dir", place)


def wait_for(text: str, logs: Path) -> None:
    """Return once a client has logged it."""
    while not any(text in path.read_text() for path in logs.glob("client*")):
        time.sleep(0.5)


def state_of_a_node(path, transactions: int) -> bytes:
    """A state file of anvil, whole."""
    sent = [{"info": {"from": "0xab"}}] * transactions
    content = json.dumps({"transactions": sent, "accounts": {"0xab": {"code": "0x", "nonce": transactions}}}).encode()
    path.write_bytes(content)
    return content


def test_a_chains_state_is_copied_before_its_node_writes_or_no_node_starts(disk):
    state = disk / "state.json"
    content = state_of_a_node(state, 1000)
    ballast = fill(disk)
    command = [sys.executable, anvil_state.__file__, state, "/bin/true"]
    assert subprocess.run(command).returncode == anvil_state.NO_ROOM
    assert sorted(disk.iterdir()) == [ballast, state]
    ballast.unlink()
    assert subprocess.run(command).returncode == 0 and anvil_state.copy_of(state).read_bytes() == content
    state.write_bytes(content[:-9])
    assert subprocess.run(command).returncode == 0 and state.read_bytes() == content


def test_a_node_starts_on_a_full_disk_where_the_copy_is_there_already(disk):
    anvil_state.copy_of(disk / "state.json").write_bytes(state_of_a_node(disk / "state.json", 10))
    fill(disk)
    assert subprocess.run([sys.executable, anvil_state.__file__, disk / "state.json", "/bin/true"]).returncode == 0
